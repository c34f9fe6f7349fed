"""Training that goes on when workers are killed: data-parallel, with checkpoints, on CPU.

    python examples/fault_tolerant_training.py [--workers 4] [--steps 60] [--kills 10]

Trains twice from the same start: once undisturbed, once while worker processes are killed (SIGKILL) in the middle of
steps. Prints both losses, and exits with status 1 if they differ by more than a millionth. Needs PyTorch.
"""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import monarch.actor
import torch
from monarch.actor import Actor, MeshFailure, SupervisionError, current_rank, endpoint, this_host

FEATURES = 16
BATCH = 32
STEPS_PER_CHECKPOINT = 5
TOLERANCE = 1e-6


class Trainer(Actor):
    """One replica of the model, with data of its own."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
        ).double()
        self.velocities = [torch.zeros_like(parameter) for parameter in self.model.parameters()]

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def gradients(self, step: int) -> list[torch.Tensor]:
        """The gradients of this replica's batch for a step."""
        return list(torch.autograd.grad(self._loss(step), list(self.model.parameters())))

    @endpoint
    def apply(self, gradients: list[torch.Tensor]) -> None:
        """One step of gradient descent with momentum, with the gradients that all replicas agree on.

        As `torch.optim.SGD` does it, whose first use in a process imports a compiler, for seconds.
        """
        with torch.no_grad():
            for parameter, velocity, gradient in zip(self.model.parameters(), self.velocities, gradients, strict=True):
                velocity.mul_(0.9).add_(gradient)
                parameter.sub_(0.01 * velocity)

    @endpoint
    def loss(self) -> float:
        """The loss on data that no step has seen."""
        with torch.no_grad():
            return float(self._loss(-1))

    @endpoint
    def save(self, path: Path, step: int) -> None:
        """Write a checkpoint: the whole of it or nothing, whenever this process may die."""
        state = {"step": step, "model": self.model.state_dict(), "velocities": self.velocities}
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    @endpoint
    def restore(self, path: Path) -> int:
        """Go back to a checkpoint; returns the step to go on with."""
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.velocities = state["velocities"]
        return int(state["step"])

    def _loss(self, step: int) -> torch.Tensor:
        """Of a batch that depends on rank and step alone, so that a repeated step repeats its result."""
        chance = torch.Generator().manual_seed(1000 * (step + 1) + current_rank().rank)
        inputs = torch.randn(BATCH, FEATURES, generator=chance, dtype=torch.float64)
        targets = inputs.sin().sum(dim=1, keepdim=True)
        return torch.nn.functional.mse_loss(self.model(inputs), targets)


class Training:
    """Replicas on processes of their own, and what brings them back."""

    def __init__(self, workers: int, checkpoint: Path) -> None:
        self.procs = this_host().spawn_procs({"replicas": workers}, name="training")
        self.trainers: Any = self.procs.spawn("trainers", Trainer)
        self.checkpoint = checkpoint
        self.recoveries = 0
        self.pids = self._pids()

    def run(self, steps: int, disturb: Callable[[int], None] = lambda step: None) -> float:
        """Train from step 0; returns the loss at the end. `disturb` is called while a step is under way."""
        step = 0
        while True:
            try:
                while step < steps:
                    self._step(step, disturb)
                    step += 1
                return self._mean_loss()
            except SupervisionError:
                step = self._recover()

    def start_over(self) -> None:
        """Give all replicas the weights that they began with."""
        self.trainers.respawn(range(len(self.trainers))).get()
        self.checkpoint.unlink(missing_ok=True)
        self.recoveries = 0

    def _step(self, step: int, disturb: Callable[[int], None]) -> None:
        if step % STEPS_PER_CHECKPOINT == 0:
            self.trainers.slice(replicas=0).save.call_one(self.checkpoint, step).get()
        pending = self.trainers.gradients.call(step)
        disturb(step)
        mine, *others = pending.get().values()
        for gradients in others:
            for total, gradient in zip(mine, gradients, strict=True):
                total += gradient
        self.trainers.apply.call([total / len(self.trainers) for total in mine]).get()

    def _pids(self) -> list[int]:
        return list(self.trainers.pid.call().get().values())

    def _mean_loss(self) -> float:
        losses: list[float] = list(self.trainers.loss.call().get().values())
        return sum(losses) / len(losses)

    def _recover(self) -> int:
        """New processes and replicas where they are dead, then all back to the last checkpoint."""
        self.recoveries += 1
        while True:
            try:
                self.procs.respawn().get()
                self.trainers.respawn().get()
                self.pids = self._pids()
                return int(self.trainers.restore.call(self.checkpoint).get().get(0))
            except SupervisionError as error:  # one more has died meanwhile
                print(f"recovering once more: {error}")


def killer(training: Training, steps: int, kills: int) -> tuple[Callable[[int], None], set[int]]:
    """Kills replica after replica, `kills` of them, spread over the steps after the first; and whom it has killed."""
    due = [2 + i * (steps - 3) // max(1, kills - 1) for i in range(kills)]
    killed: set[int] = set()

    def disturb(step: int) -> None:
        if len(killed) < kills and step == due[len(killed)]:
            victim = training.pids[len(killed) % len(training.pids)]
            os.kill(victim, signal.SIGKILL)
            killed.add(victim)

    return disturb, killed


def say(failure: MeshFailure) -> None:
    """In place of the end of the program: the loop of the training deals with it."""
    print(failure.report().splitlines()[0])


def main(workers: int, steps: int, kills: int) -> int:
    monarch.actor.unhandled_fault_hook = say
    with tempfile.TemporaryDirectory() as directory:
        training = Training(workers, Path(directory) / "checkpoint.pt")
        undisturbed = training.run(steps)
        training.start_over()
        disturb, killed = killer(training, steps, kills)
        disturbed = training.run(steps, disturb)
        recoveries = training.recoveries
        training.procs.stop().get()
    difference = abs(disturbed - undisturbed) / abs(undisturbed)
    print(f"{len(killed)} processes killed, {recoveries} recoveries")
    print(f"loss undisturbed: {undisturbed!r}")
    print(f"loss disturbed:   {disturbed!r} (relative difference {difference:.1e})")
    agree = difference <= TOLERANCE and len(killed) == kills == recoveries
    return 0 if agree else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    sys.exit(main(options.workers, options.steps, options.kills))
