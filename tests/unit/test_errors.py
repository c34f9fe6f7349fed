"""Exceptions on their way to the caller."""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from monarch._actor.errors import (
    ActorError,
    RemoteException,
    SupervisionError,
    pack_exception,
    remote_error,
    unpack_exception,
)

BUILTIN = sorted(
    {cls for cls in vars(builtins).values() if isinstance(cls, type) and issubclass(cls, Exception)},
    key=lambda cls: cls.__name__,
)
MISLEADING = (TimeoutError, StopIteration, StopAsyncIteration)


def example(cls: type[Exception]) -> Exception:
    special: dict[str, tuple[object, ...]] = {
        "UnicodeDecodeError": ("utf-8", b"\xff", 0, 1, "invalid"),
        "UnicodeEncodeError": ("ascii", "ä", 0, 1, "invalid"),
        "UnicodeTranslateError": ("ä", 0, 1, "invalid"),
        "ExceptionGroup": ("group", [ValueError("inner")]),
    }
    return cls(*special.get(cls.__name__, ("text",)))


def arrived(exception: BaseException, message: str = "Actor call w.f failed.") -> ActorError:
    """The error at the caller, after the whole way."""
    payload, buffers = pack_exception(exception)
    return remote_error(message, *unpack_exception(payload, [bytearray(buffer) for buffer in buffers]))


def raised(exception: BaseException) -> BaseException:
    try:
        raise exception
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("extra", [b"", b"y" * 300_000])
def test_an_exception_may_be_large(extra: bytes) -> None:
    error = arrived(ValueError("x" * 200_000, extra))
    assert isinstance(error, ValueError)
    assert error.exception.args == ("x" * 200_000, extra)


@pytest.mark.parametrize("cls", [cls for cls in BUILTIN if not issubclass(cls, MISLEADING)])
def test_a_remote_exception_is_an_actor_error_and_of_its_own_type(cls: type[Exception]) -> None:
    error = arrived(example(cls))
    assert isinstance(error, ActorError)
    assert isinstance(error, cls)
    assert type(error.exception) is cls
    assert error.__cause__ is error.exception
    assert str(error).startswith("Actor call w.f failed.\n")


@pytest.mark.parametrize(
    "exception",
    [
        TimeoutError("t"),
        asyncio.TimeoutError("t"),
        concurrent.futures.TimeoutError("t"),
        asyncio.CancelledError("c"),
        concurrent.futures.CancelledError("c"),
        StopIteration(1),
        StopAsyncIteration(1),
        GeneratorExit(),
        KeyboardInterrupt(),
        SystemExit(3),
        SupervisionError("gone"),
    ],
    ids=lambda exception: type(exception).__name__,
)
def test_a_type_that_would_be_mistaken_for_something_local_is_a_plain_actor_error(exception: BaseException) -> None:
    error = arrived(exception)
    assert type(error) is ActorError
    assert type(error.__cause__) is type(exception)


def test_it_tells_the_call_and_the_remote_traceback() -> None:
    error = arrived(raised(KeyError("k")), "Actor call w.fetch failed.")
    lines = str(error).splitlines()
    assert lines[:2] == [
        "Actor call w.fetch failed.",
        "Traceback of where the remote call failed (most recent call last):",
    ]
    assert "raise exception" in str(error)
    assert lines[-1] == "KeyError: 'k'"
    assert error.message == "Actor call w.fetch failed."
    assert error.args == (error.exception, error.message)
    assert error.exception.args == ("k",)
    assert error.exception_formatted.startswith("Traceback (most recent call last):\n")


def test_fields_of_the_original_can_be_read() -> None:
    class Rich(ValueError):
        __slots__ = ("slot",)

        def __init__(self, needed: int) -> None:
            super().__init__(needed)
            self.needed = needed
            self.slot = "s"

    original = Rich(4)
    original.note = "extra"  # type: ignore[attr-defined]
    error = remote_error("m", original, "")
    assert isinstance(error, Rich)
    assert (error.needed, error.slot, error.note) == (4, "s", "extra")  # type: ignore[attr-defined]
    missing = remote_error("m", FileNotFoundError(2, "No such file", "/x"), "")
    assert isinstance(missing, FileNotFoundError)
    assert (missing.errno, missing.strerror, missing.filename) == (2, "No such file", "/x")


def test_equal_types_give_one_class() -> None:
    assert type(arrived(ValueError(1))) is type(arrived(ValueError(2)))


def test_an_actor_error_that_passes_another_actor_keeps_its_type() -> None:
    error = arrived(raised(arrived(raised(ValueError("deep")), "inner call")), "outer call")
    assert isinstance(error, ValueError)
    assert isinstance(error.exception, ActorError)
    assert isinstance(error.exception.exception, ValueError)
    assert "inner call" in str(error)
    assert str(error).startswith("outer call\n")


def test_a_constructor_with_its_own_ideas_is_not_run() -> None:
    class Insisting(Exception):
        def __new__(cls, *args: object, key: int) -> Insisting:
            return super().__new__(cls, *args)

        def __init__(self, *, key: int) -> None:
            self.key = key

    error = remote_error("m", Insisting(key=1), "")
    assert isinstance(error, Insisting)
    assert error.key == 1


def test_a_type_that_can_not_be_derived_from_comes_as_a_plain_error() -> None:
    class Final(Exception):
        def __init_subclass__(cls) -> None:
            raise TypeError("final")

    assert type(remote_error("m", Final(), "")) is ActorError


def test_a_type_whose_attributes_can_not_be_set_comes_as_a_plain_error() -> None:
    class Frozen(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError("frozen")

    error = remote_error("m", Frozen("f"), "")
    assert type(error) is ActorError
    assert isinstance(error.exception, Frozen)


def test_an_error_pickles_with_its_results() -> None:
    error = arrived(raised(ValueError("v")))
    error.results, error.failures = {}, {}
    error.results[1] = "one"  # type: ignore[index]
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.results == {1: "one"}


def test_causes_and_notes_are_part_of_the_traceback() -> None:
    def chained() -> BaseException:
        try:
            try:
                raise KeyError("first")
            except KeyError as first:
                raise ValueError("second") from first
        except ValueError as second:
            if sys.version_info >= (3, 11):
                second.add_note("look here")
            return second

    text = str(arrived(chained()))
    assert "KeyError: 'first'" in text
    assert "The above exception was the direct cause of the following exception" in text
    assert "ValueError: second" in text
    assert ("look here" in text) == (sys.version_info >= (3, 11))


def test_frames_of_this_library_are_left_out() -> None:
    from monarch._actor.shape import Extent

    with pytest.raises(ValueError) as caught:
        Extent(("a",), (0,))
    formatted = unpack_exception(*pack_exception(caught.value))[1]
    assert "test_frames_of_this_library_are_left_out" in formatted
    assert "shape.py" not in formatted


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


class NotRebuilt(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __reduce__(self) -> str:
        raise RuntimeError("no pickle")


def test_an_exception_whose_constructor_wants_other_arguments_keeps_its_type() -> None:
    exception = NotRebuilt(1, 2)
    exception.code = 7  # type: ignore[attr-defined]
    error = arrived(raised(exception))
    assert isinstance(error, NotRebuilt) and type(error.exception) is NotRebuilt
    assert (error.exception.args, error.exception.code, error.code) == (("1 and 2",), 7, 7)  # type: ignore[attr-defined]


class RefusesToBeRebuilt(Exception):
    def __new__(cls, one: int, two: int) -> RefusesToBeRebuilt:
        return super().__new__(cls, one, two)

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize(
    ("exception", "text"),
    [(Unpicklable(), "holds a lock"), (RefusesToBeRebuilt(1, 2), "1 and 2")],
    ids=["pickle", "rebuild"],
)
def test_what_can_not_travel_arrives_as_type_name_text_and_traceback(exception: Exception, text: str) -> None:
    error = arrived(raised(exception))
    stand_in = error.exception
    assert isinstance(stand_in, RemoteException)
    assert isinstance(error, RemoteException)
    assert stand_in.type_name == f"{__name__}.{type(exception).__qualname__}"
    assert stand_in.text == text
    assert str(stand_in) == f"{stand_in.type_name}: {text}"
    assert "raise exception" in stand_in.formatted
    assert stand_in.formatted == error.exception_formatted
    assert text in str(error)
    assert f"`except {stand_in.type_name}` does not catch it here; give it a `__reduce__`" in str(error)
    assert stand_in.why_not and stand_in.why_not in str(error)


def test_an_exception_that_refuses_everything_still_arrives() -> None:
    error = arrived(raised(Unspeakable()))
    assert isinstance(error.exception, RemoteException)
    assert "Unspeakable" in str(error)


def test_what_only_the_receiver_can_not_rebuild_arrives_as_a_stand_in(tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("class Special(Exception): pass\n")
    sender = """
import sys
sys.path.insert(0, sys.argv[1])
import only_here
from monarch._actor.errors import pack_exception
sys.stdout.buffer.write(pack_exception(only_here.Special("s"))[0])
"""
    payload = subprocess.run([sys.executable, "-c", sender, str(tmp_path)], check=True, capture_output=True).stdout
    exception, formatted = unpack_exception(payload)
    assert isinstance(exception, RemoteException)
    assert (exception.type_name, exception.text) == ("only_here.Special", "s")
    assert formatted == "only_here.Special: s\n"


class InterruptedWhereUnpickled(Exception):
    def __reduce__(self) -> tuple[object, ...]:
        return _press_ctrl_c, ()


def _press_ctrl_c() -> Exception:
    """From when it is armed on, that is, not yet where the exception comes from."""
    if getattr(_press_ctrl_c, "armed", False):
        signal.raise_signal(signal.SIGINT)
    return ValueError("rebuilt")


def test_ctrl_c_while_an_exception_is_rebuilt_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        payload, buffers = pack_exception(InterruptedWhereUnpickled())
        monkeypatch.setattr(_press_ctrl_c, "armed", True, raising=False)
        with pytest.raises(KeyboardInterrupt):
            unpack_exception(payload, buffers)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_a_group_is_split_by_except_star_like_a_local_one() -> None:
    error = arrived(ExceptionGroup("group", [ValueError("v"), KeyError("k")]))  # noqa: F821
    assert isinstance(error, ExceptionGroup)  # noqa: F821
    matched, rest = error.split(ValueError)
    assert matched is not None and [str(e) for e in matched.exceptions] == ["v"]
    assert rest is not None and [str(e) for e in rest.exceptions] == ["'k'"]


def test_a_supervision_error_is_a_value() -> None:
    error = SupervisionError("Endpoint call w.f() failed", endpoint="w.f()")
    error.endpoint = "v.f()"
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, RuntimeError)
    assert (str(copy), copy.endpoint, copy.failure) == ("Endpoint call w.f() failed", "v.f()", None)


def test_the_modules_load_nothing_heavy() -> None:
    code = """
import sys
from monarch._actor import blame, errors, failure, mesh_trait, pickling, shape, signature, value_mesh
print(sorted({"cloudpickle", "numpy", "torch", "asyncio", "inspect", "traceback", "re", "typing"} & sys.modules.keys()))
""".replace("blame, ", "")
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown == "[]\n"
