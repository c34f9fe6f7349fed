"""Actors whose calls are traced."""

from __future__ import annotations

from monarch.actor import Actor, endpoint


class Traced(Actor):
    @endpoint
    def seen(self) -> int:
        return 1

    @endpoint
    async def seen_async(self) -> int:
        return 2

    @endpoint(instrument=False)
    def unseen(self) -> int:
        return 3
