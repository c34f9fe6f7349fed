"""What happened to a mesh, as its owner learns it."""

from __future__ import annotations

from .errors import format_exception, pack_exception, unpack_exception

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal, TypeAlias

    from .shape import Point

    Kind: TypeAlias = Literal["init", "exception", "abort", "exit", "signal", "host_lost", "undeliverable"]


class MeshFailure:
    """Ranks of a mesh that failed of one cause. A value: it pickles, also where its exception does not."""

    __slots__ = (
        "_fell", "_formatted", "_reason",
        "exception", "exit_code", "kind", "mesh", "mesh_name", "name", "ranks", "signal",
    )  # fmt: skip

    def __init__(
        self,
        *,
        name: str,
        mesh_name: str,
        ranks: Sequence[Point],
        kind: Kind,
        reason: str,
        mesh: object | None = None,
        exception: BaseException | None = None,
        exception_formatted: str = "",
        exit_code: int | None = None,
        signal: int | None = None,
        fell: Sequence[str] = (),
    ) -> None:
        self.mesh = mesh  # a reference to the mesh, where there is one
        self.name = name  # as it was spawned
        self.mesh_name = mesh_name  # unique: the name and a suffix
        self.ranks = tuple(ranks)
        self.kind = kind
        self.exception = exception
        self.exit_code = exit_code
        self.signal = signal
        self._reason = reason
        self._fell = tuple(fell)  # names of the meshes that were stopped because of it
        self._formatted = exception_formatted or (format_exception(exception) if exception is not None else "")

    def report(self) -> str:
        """Who failed, why, with the traceback where there is one, and which meshes fell because of it."""
        ranks = ", ".join(map(str, self.ranks))
        where = f"{self.mesh_name}[{ranks}]" if ranks else self.mesh_name
        trace = f"\n{self._formatted.rstrip()}" if self._formatted else ""
        fell = f"\nStopped because of it: {', '.join(self._fell)}" if self._fell else ""
        return f"{where} and all its descendants have failed: {self._reason}{trace}{fell}"

    def __repr__(self) -> str:
        crashed = [point.rank for point in self.ranks]
        what = f"kind={self.kind!r}, event={self._reason!r}"
        return f"MeshFailure(mesh_name={self.mesh_name!r}, crashed_ranks={crashed}, {what})"

    def __str__(self) -> str:
        return self.report()

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {
            name: getattr(self, name) for name in ("name", "mesh_name", "ranks", "kind", "mesh", "exit_code", "signal")
        }
        fields.update(reason=self._reason, exception_formatted=self._formatted, fell=self._fell)
        packed = None
        if self.exception is not None:
            payload, buffers = pack_exception(self.exception)
            packed = payload, [bytes(buffer) for buffer in buffers]
        return _rebuild, (fields, packed)


class UnhandledFailure(SystemExit):
    """A failure that nobody handled ends the program with exit status 1. `failure` says what happened."""

    def __init__(self, failure: MeshFailure) -> None:
        super().__init__(1)
        self.failure = failure

    def __str__(self) -> str:
        return self.failure.report()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.failure,)


def _rebuild(fields: dict[str, Any], packed: tuple[bytes, list[bytes]] | None) -> MeshFailure:
    exception = unpack_exception(*packed)[0] if packed is not None else None
    return MeshFailure(exception=exception, **fields)
