"""Failures on their way: to those who call, and to the owner of a mesh."""

from __future__ import annotations

from collections import deque
from threading import Lock

from monarch._actor.causes import Cause
from monarch._actor.errors import SupervisionError
from monarch._native import News

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.failure import MeshFailure
    from monarch._actor.future import Awaited
    from monarch._actor.mesh_root import MeshRoot
    from monarch._actor.undeliverable import UndeliverableMessageEnvelope
    from monarch._native import Message


def error_of_death(subject: Awaited, message: Message) -> SupervisionError:
    """What a caller gets whose target is gone."""
    root, death = subject.root, message.death
    if root is None or death is None:
        return SupervisionError(f"Endpoint call {subject.label}() failed: its actor is gone", endpoint=subject.label)
    cause = Cause.of_death(death, root.processes)
    trace = f"\n{cause.formatted.rstrip()}" if cause.formatted else ""
    return SupervisionError(
        f"Endpoint call {subject.label}() failed: {cause.sentence(root.place(death.rank))}{trace}",
        endpoint=subject.label,
        failure=None if cause.kind == "stopped" else root.failure(cause, [death.rank]),
    )


class FailureQueue:
    """Failures that an owner has not been told of yet, one for each mesh and cause.

    The first is there to be taken at once; ranks that fail of the same cause before it is taken, or while the owner
    deals with it, are told together. What the owner has stopped meanwhile it does not hear of any more. Filled by the
    process's server thread, emptied by the owner's.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._news = News()
        self._known: dict[tuple[bytes, bytes], tuple[MeshRoot, Cause]] = {}
        self._undelivered: deque[UndeliverableMessageEnvelope] = deque()

    def add(self, root: MeshRoot, cause: Cause, rank: int) -> None:
        key = repr(cause.key).encode(errors="replace")
        with self._lock:
            if self._news.add(root.identity, rank, key):
                self._known[root.identity, key] = root, cause

    def bounce(self, envelope: UndeliverableMessageEnvelope) -> None:
        """A message that the owner sent came back."""
        self._undelivered.append(envelope)

    def take(self) -> MeshFailure | UndeliverableMessageEnvelope | None:
        """The next failure or message to tell of, None when there is none."""
        with self._lock:
            if self._undelivered:
                return self._undelivered.popleft()
            while (told := self._news.take()) is not None:
                mesh, key, ranks = told
                root, cause = self._known.pop((mesh, key))
                # What a policy gave up is told in any case: a pool ends it at once.
                if root.stopped is None or root.restarter is not None:
                    return root.failure(cause, ranks)
        return None

    def __bool__(self) -> bool:
        return bool(self._known or self._undelivered)
