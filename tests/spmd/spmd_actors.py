"""Actors that tests spawn. A module of its own, light to import, so that workers import it by name."""

from __future__ import annotations

import os

from monarch.actor import Actor, ProcMesh, endpoint
from monarch.spmd import setup_torch_elastic_env, setup_torch_elastic_env_async


class Trainer(Actor):
    """Runs the body of a program that is written for torchrun."""

    @endpoint
    def train(self) -> dict[str, float]:
        import training

        return training.main()


class Environment(Actor):
    @endpoint
    def read(self) -> dict[str, str]:
        return dict(os.environ)


class Setter(Actor):
    """Sets up processes from inside an actor."""

    @endpoint
    def set_up(self, procs: ProcMesh) -> None:
        setup_torch_elastic_env(procs)


class AsyncSetter(Actor):
    @endpoint
    async def set_up(self, procs: ProcMesh) -> None:
        await setup_torch_elastic_env_async(procs)
