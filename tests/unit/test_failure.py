"""What an owner learns of a failed mesh."""

from __future__ import annotations

import pickle
import threading

from monarch._actor.errors import RemoteException
from monarch._actor.failure import MeshFailure, UnhandledFailure
from monarch._actor.shape import Extent, Point

EXTENT = Extent(("gpus",), (4,))


def killed() -> MeshFailure:
    return MeshFailure(
        name="w",
        mesh_name="w-D1t7WfXf3pE",
        ranks=[Point(1, EXTENT), Point(3, EXTENT)],
        kind="signal",
        reason="the process was killed by signal 9 (SIGKILL)",
        signal=9,
    )


def test_it_reports_who_failed_and_why() -> None:
    assert killed().report() == (
        "w-D1t7WfXf3pE[{'gpus': 1/4}, {'gpus': 3/4}] and all its descendants have failed: "
        "the process was killed by signal 9 (SIGKILL)"
    )
    assert repr(killed()) == (
        "MeshFailure(mesh_name='w-D1t7WfXf3pE', crashed_ranks=[1, 3], kind='signal', "
        "event='the process was killed by signal 9 (SIGKILL)')"
    )


def test_it_reports_the_traceback_of_an_exception() -> None:
    try:
        raise ValueError("bad start")
    except ValueError as error:
        failure = MeshFailure(
            name="w", mesh_name="w-1", ranks=(), kind="init", reason="its constructor raised", exception=error
        )
    assert failure.report().startswith("w-1 and all its descendants have failed: its constructor raised\nTraceback")
    assert 'raise ValueError("bad start")' in failure.report()
    assert pickle.loads(pickle.dumps(failure)).report() == failure.report()


def test_it_pickles_with_all_its_fields() -> None:
    failure = killed()
    copy = pickle.loads(pickle.dumps(failure))
    for field in ("mesh", "name", "mesh_name", "ranks", "kind", "exception", "exit_code", "signal"):
        assert getattr(copy, field) == getattr(failure, field)
    assert repr(copy) == repr(failure)


def test_it_pickles_with_an_exception_that_does_not() -> None:
    error = ValueError("holds a lock")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    failure = MeshFailure(name="w", mesh_name="w-1", ranks=(), kind="exception", reason="r", exception=error)
    copy = pickle.loads(pickle.dumps(failure))
    assert isinstance(copy.exception, RemoteException)
    assert copy.exception.text == "holds a lock"
    assert copy.report() == failure.report()


def test_unhandled_it_ends_the_program_with_status_one() -> None:
    unhandled = UnhandledFailure(killed())
    assert isinstance(unhandled, SystemExit)
    assert unhandled.code == 1
    assert unhandled.failure.signal == 9
    assert str(unhandled) == killed().report()
    assert repr(pickle.loads(pickle.dumps(unhandled)).failure) == repr(killed())
