"""Why an actor or a process ended, as a value that travels and in words."""

from __future__ import annotations

import _pickle

from monarch._actor.errors import format_exception, pack_exception, unpack_exception
from monarch._actor.failure import MeshFailure
from monarch._actor.logs import last_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Literal

    from monarch._actor.actor_mesh import ActorMesh
    from monarch._actor.failure import Kind
    from monarch._actor.shape import Point, Region
    from monarch._native import Death

    CauseKind = Kind | Literal["stopped"]


class Cause:
    """Why something ended: a failure of a `MeshFailure.kind`, or an orderly stop."""

    __slots__ = ("exception", "exit_code", "fell", "formatted", "kind", "reason", "signal")

    def __init__(
        self,
        kind: CauseKind,
        reason: str,
        exception: BaseException | None = None,
        formatted: str = "",
        exit_code: int | None = None,
        signal: int | None = None,
        fell: tuple[str, ...] = (),
    ) -> None:
        self.kind = kind
        self.reason = reason  # continues a sentence that begins with who ended
        self.exception = exception
        self.formatted = formatted  # told below the reason: a traceback, or the last words of a process
        self.exit_code = exit_code
        self.signal = signal
        self.fell = fell  # names of the meshes that were stopped because of it

    @classmethod
    def raised(cls, kind: CauseKind, what: str, exception: BaseException) -> Cause:
        """`what` of an actor raised `exception`."""
        return cls(kind, f"{what} raised {_summary(exception)}", exception, format_exception(exception))

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for failures that may be told as one."""
        return (
            self.kind,
            self.reason if self.exit_code is None and self.signal is None else "",
            self.exit_code,
            self.signal,
        )

    def detail(self) -> bytes:
        """This cause as `Mailbox.close` carries it to callers, and a request to the owner."""
        packed = None
        if self.exception is not None:
            payload, buffers = pack_exception(self.exception)
            packed = payload, [bytes(buffer) for buffer in buffers]
        fields = self.kind, self.reason, self.formatted, self.exit_code, self.signal, self.fell, packed
        return _pickle.dumps(fields, 5)

    @classmethod
    def from_detail(cls, detail: bytes) -> Cause:
        kind, reason, formatted, exit_code, signal, fell, packed = _pickle.loads(detail)
        exception = unpack_exception(*packed)[0] if packed is not None else None
        return cls(kind, reason, exception, formatted, exit_code, signal, fell)

    @classmethod
    def of_death(cls, death: Death, processes: Region) -> Cause:
        """What a `Death` means for those who wanted something from it; `processes` are those of its mesh."""
        if death.kind == "actor" and death.detail:
            return cls.from_detail(death.detail)
        if death.kind in ("actor", "stopped"):
            return cls("stopped", f"was stopped: {death.reason}")
        if death.kind == "killed":
            reason = f"{_process(death, processes)} was killed: {death.reason.partition(' was killed: ')[2]}"
            return cls("signal", reason, signal=death.signal, fell=tuple(death.fell))
        reason = f"{_process(death, processes)} {how_it_ended(death)}"
        if death.kind == "signal" and death.signal is not None:
            return cls("signal", reason, None, last_words(death), None, death.signal, tuple(death.fell))
        if death.kind == "exit" and death.exit_code is not None:
            return cls("exit", reason, None, last_words(death), death.exit_code, None, tuple(death.fell))
        return cls("exit" if death.kind == "launch" else "host_lost", reason)

    def explained(self, why: str) -> Cause:
        """This cause with a reason for which nothing was done about it."""
        return self._changed(reason=f"{self.reason}; {why}")

    def with_fallen(self, names: Iterable[str]) -> Cause:
        """This cause with the meshes that were stopped because of it."""
        return self._changed(fell=(*self.fell, *names))

    def _changed(self, **changes: Any) -> Cause:
        return Cause(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})

    @property
    def is_of_process(self) -> bool:
        """Whether `reason` is a whole sentence about a process, rather than one that begins with the actor."""
        return self.kind in ("exit", "signal", "host_lost")

    def sentence(self, who: str) -> str:
        return self.reason if self.is_of_process else f"{who} {self.reason}"

    def failure(self, name: str, unique: str, ranks: Sequence[Point], mesh: ActorMesh | None) -> MeshFailure:
        """This cause as the owner of a mesh learns it."""
        if self.kind == "stopped":
            raise ValueError("an orderly stop is no failure")
        return MeshFailure(
            name=name,
            mesh_name=unique,
            ranks=ranks,
            kind=self.kind,
            reason=self.reason.removeprefix("failed: "),
            mesh=mesh,
            exception=self.exception,
            exception_formatted=self.formatted,
            exit_code=self.exit_code,
            signal=self.signal,
            fell=self.fell,
        )


def how_it_ended(death: Death) -> str:
    """The end of a process in words that follow its name."""
    if death.kind == "signal" and death.signal is not None:
        return f"was killed by signal {signal_name(death.signal)}"
    if death.kind == "exit" and death.exit_code is not None:
        return f"exited with status {death.exit_code}"
    how = {"stopped": "was stopped", "killed": "was killed", "launch": "could not be started"}
    return f"{how.get(death.kind, 'was lost')}: {death.why}"


def place(name: str, point: Point) -> str:
    """`trainers[hosts=0, gpus=1]`; the name alone where there are no dimensions."""
    position = ", ".join(f"{label}={point[label]}" for label in point)
    return f"{name}[{position}]" if position else name


def signal_name(number: int) -> str:
    """`9 (SIGKILL)`."""
    import signal

    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _process(death: Death, processes: Region) -> str:
    where = f"pid {death.pid} on {death.host}" if death.pid else f"on {death.host}"
    return f"process {place(death.name, processes.point_of_base_rank(death.rank))} ({where})"


def _summary(exception: BaseException) -> str:
    try:
        text = str(exception)
    except BaseException:
        text = ""
    name = type(exception).__qualname__
    return f"{name}: {text}" if text else name
