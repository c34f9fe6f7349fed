"""`RestartPolicy`: how often, how fast and how much is restarted."""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    Strategy: TypeAlias = Literal["one_for_one", "all_for_one"]


class RestartPolicy:
    """Restart what fails up to `max_restarts` times within `window_s` seconds, then let the failure go upwards.

    `one_for_one` makes the members that failed again, `all_for_one` all members of their mesh. `backoff` are seconds:
    the first restart waits for the lower bound, each further one within the window twice as long, up to the upper
    bound. Each mesh counts for itself. Raises `ValueError` for values that make no sense.
    """

    __slots__ = ("backoff", "max_restarts", "strategy", "window_s")

    def __init__(
        self,
        strategy: Strategy = "one_for_one",
        max_restarts: int = 3,
        window_s: float = 600,
        backoff: tuple[float, float] = (0.1, 10.0),
    ) -> None:
        if strategy not in ("one_for_one", "all_for_one"):
            raise ValueError(f"strategy is {strategy!r}: it has to be 'one_for_one' or 'all_for_one'")
        if max_restarts < 0:
            raise ValueError(f"max_restarts is {max_restarts}: it has to be at least 0")
        if not window_s > 0:
            raise ValueError(f"window_s is {window_s}: it has to be a positive number of seconds")
        shortest, longest = backoff
        if not 0 <= shortest <= longest < float("inf"):
            raise ValueError(f"backoff is {backoff}: it has to be two numbers of seconds, the shorter one first")
        self.strategy = strategy
        self.max_restarts = max_restarts
        self.window_s = window_s
        self.backoff = (shortest, longest)

    def __repr__(self) -> str:
        return f"RestartPolicy({', '.join(f'{name}={getattr(self, name)!r}' for name in _FIELDS)})"

    def __reduce__(self) -> tuple[type[RestartPolicy], tuple[object, ...]]:
        return RestartPolicy, tuple(getattr(self, name) for name in _FIELDS)


_FIELDS = ("strategy", "max_restarts", "window_s", "backoff")


class RestartBudget:
    """The restarts of one mesh, counted against a policy. Times are seconds of a monotonic clock."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._restarts: deque[float] = deque()

    def spend(self, now: float) -> float | None:
        """Count a restart; returns how long it has to wait, None where the policy allows no further one."""
        policy = self._policy
        while self._restarts and now - self._restarts[0] >= policy.window_s:
            self._restarts.popleft()
        before = len(self._restarts)
        if before >= policy.max_restarts:
            return None
        self._restarts.append(now)
        shortest, longest = policy.backoff
        return min(shortest * 2.0 ** min(before, 64), longest)
