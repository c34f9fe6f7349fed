"""Values as bytes: what goes by name, what by value, what beside the stream, and what an error names."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from monarch._actor.errors import UnpicklableArgument
from monarch._actor.pickling import OUT_OF_BAND_BYTES, dumps, dumps_arguments, loads, loads_arguments

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def received(value: object) -> Any:
    """The value as the receiver gets it: with buffers of its own."""
    payload, buffers = dumps(value)
    return loads(payload, [bytearray(buffer) for buffer in buffers])


def in_main(source: str) -> dict[str, Any]:
    """The names that `source` defines in the main program."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(source, namespace)
    return namespace


def run(code: str, *arguments: str | Path) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@given(values)
def test_a_value_arrives_equal(value: object) -> None:
    assert received(value) == value


@given(st.lists(values, max_size=3), st.dictionaries(st.text(), values, max_size=3))
def test_arguments_arrive_equal(args: list[object], kwargs: dict[str, object]) -> None:
    payload, buffers = dumps_arguments("w.f", (), tuple(args), kwargs)
    assert loads_arguments(payload, buffers) == (tuple(args), kwargs)


def test_no_arguments_are_no_bytes() -> None:
    assert dumps_arguments("w.f", ("x",), (), {}) == (b"", [])
    assert loads_arguments(b"", []) == ((), {})


def test_a_large_array_travels_beside_the_stream_without_a_copy() -> None:
    array = np.zeros(OUT_OF_BAND_BYTES, np.uint8)
    payload, (buffer,) = dumps({"weights": array})
    assert len(payload) < 500
    array[0] = 7
    assert memoryview(buffer)[0] == 7


def test_a_small_array_stays_in_the_stream() -> None:
    payload, buffers = dumps(np.zeros(OUT_OF_BAND_BYTES - 1, np.uint8))
    assert buffers == []
    assert len(payload) > OUT_OF_BAND_BYTES


@pytest.mark.parametrize("size", [3, OUT_OF_BAND_BYTES])
def test_arrays_arrive_writable(size: int) -> None:
    array = received(np.arange(size))
    array[0] = 5
    assert array.tolist() == [5, *range(1, size)]


def test_an_array_that_is_not_contiguous_arrives_equal() -> None:
    array = np.arange(4 * OUT_OF_BAND_BYTES).reshape(2, -1)[:, ::2]
    np.testing.assert_array_equal(received(array), array)


def test_importable_functions_and_classes_travel_by_name() -> None:
    assert received(subprocess.run) is subprocess.run
    assert received([threading.Thread, len]) == [threading.Thread, len]


def test_lambdas_closures_and_local_classes_travel_by_value() -> None:
    base = 10

    class Local:
        def add(self, x: int) -> int:
            return x + base

    assert received(lambda x: x + base)(1) == 11
    assert received(Local().add)(1) == 11


def test_an_instance_comes_back_as_an_instance_of_the_class_that_was_sent() -> None:
    cls = in_main("class Point: pass")["Point"]
    assert type(received(cls())) is cls


def test_what_the_main_program_defines_runs_where_it_is_not_there(tmp_path: Path) -> None:
    names = in_main("SCALE = 3\ndef scaled(x): return SCALE * x\nclass Twice:\n  def __call__(self, x): return 2 * x\n")
    payload, _ = dumps((names["scaled"], names["Twice"]()))
    file = tmp_path / "payload"
    file.write_bytes(payload)
    code = """
import pathlib, sys
from monarch._actor.pickling import loads
scaled, twice = loads(pathlib.Path(sys.argv[1]).read_bytes())
print(scaled(2), twice(2))
"""
    assert run(code, file) == "6 4\n"


def test_a_module_that_the_program_registered_travels_by_value() -> None:
    import cloudpickle

    module = types.ModuleType("plugin")
    exec("def answer(): return 42", module.__dict__)
    sys.modules["plugin"] = module
    cloudpickle.register_pickle_by_value(module)
    try:
        payload, _ = dumps(module.answer)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
        del sys.modules["plugin"]
    assert loads(payload)() == 42


def test_the_main_program_of_a_multiprocessing_child_travels_by_value(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        """
import multiprocessing, pathlib, sys
from monarch._actor.pickling import dumps
def double(x): return 2 * x
def child(path):
    assert double.__module__ == "__mp_main__"
    pathlib.Path(path).write_bytes(dumps(double)[0])
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=child, args=sys.argv[1:])
    process.start(); process.join(); sys.exit(process.exitcode)
"""
    )
    file = tmp_path / "payload"
    subprocess.run([sys.executable, str(script), str(file)], check=True)
    assert loads(file.read_bytes())(4) == 8


def test_a_function_of_the_main_program_keeps_its_file_and_source_lines(tmp_path: Path) -> None:
    script, file = tmp_path / "script.py", tmp_path / "payload"
    script.write_text(
        """import pathlib, sys
from monarch._actor.pickling import dumps

def fail():
    raise ValueError("boom")  # where it happens

pathlib.Path(sys.argv[1]).write_bytes(dumps(fail)[0])
"""
    )
    subprocess.run([sys.executable, str(script), str(file)], check=True)
    code = """
import pathlib, sys, traceback
from monarch._actor.pickling import loads
try:
    loads(pathlib.Path(sys.argv[1]).read_bytes())()
except ValueError:
    print(traceback.format_exc())
"""
    shown = run(code, file)
    assert f'File "{script}", line 5, in fail' in shown
    assert 'raise ValueError("boom")  # where it happens' in shown


def test_a_function_of_a_notebook_brings_its_source(tmp_path: Path) -> None:
    file = tmp_path / "payload"
    sender = """
import linecache, pathlib, sys
from monarch._actor.pickling import dumps
source = "def fail():\\n    raise ValueError  # in a cell\\n"
linecache.cache["<cell 1>"] = (len(source), None, source.splitlines(True), "<cell 1>")
exec(compile(source, "<cell 1>", "exec"))
pathlib.Path(sys.argv[1]).write_bytes(dumps(fail)[0])
"""
    receiver = """
import pathlib, sys, traceback
from monarch._actor.pickling import loads
try:
    loads(pathlib.Path(sys.argv[1]).read_bytes())()
except ValueError:
    print(traceback.format_exc())
"""
    run(sender, file)
    assert "raise ValueError  # in a cell" in run(receiver, file)


@pytest.mark.parametrize(("module", "value"), [("cloudpickle", (1, [2])), ("linecache", lambda: 3)])
def test_a_module_that_another_thread_imports_right_now_is_no_hindrance(
    monkeypatch: pytest.MonkeyPatch, module: str, value: Any
) -> None:
    monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    copy = received(value)
    assert copy() == value() if callable(value) else copy == value


def test_bytecode_of_another_python_is_refused_with_a_hint() -> None:
    from monarch._actor.by_value import restore_code

    with pytest.raises(ImportError, match=r"code from /a/b\.py was sent by value from another version of Python"):
        restore_code(b"????", b"", "/a/b.py", None)


def test_importable_values_do_not_import_cloudpickle() -> None:
    code = """
import sys
from monarch._actor.pickling import dumps, dumps_arguments
dumps([1, {"a": sys.exit}]); dumps_arguments("f", ("x",), (1, [2]), {})
print(sorted({"cloudpickle", "numpy", "torch", "asyncio", "pickle", "inspect", "typing"} & sys.modules.keys()))
"""
    assert run(code) == "[]\n"


class Holder:
    def __init__(self, held: object) -> None:
        self.held = held


LOCK = threading.Lock()


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((1, LOCK), {}, "w.train(): argument 'data' of type '_thread.lock' can't be pickled: cannot pickle"),
        ((1,), {"data": LOCK}, "w.train(): argument 'data' of type '_thread.lock' can't be pickled"),
        ((1, 2, LOCK), {}, "w.train(): argument 'args[2]' of type '_thread.lock' can't be pickled"),
        ((1, {"a": [0, LOCK]}), {}, "of type 'dict' can't be pickled, because of data['a'][1] of type '_thread.lock'"),
        ((Holder({3: LOCK}),), {}, "can't be pickled, because of step.held[3] of type '_thread.lock'"),
        ((lambda: LOCK,), {}, "because of the variable 'LOCK'"),
        ((Holder(LOCK).__init__,), {}, "because of step.__self__.held of type '_thread.lock'"),
    ],
)
def test_an_unpicklable_argument_is_named(args: tuple[object, ...], kwargs: dict[str, object], text: str) -> None:
    if text.startswith("because of the variable"):
        lock = threading.Lock()
        args, text = (lambda: lock,), "because of the variable 'lock', which"
    with pytest.raises(UnpicklableArgument) as caught:
        dumps_arguments("w.train", ("step", "data"), args, kwargs)
    assert text in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value.__cause__, (TypeError, pickle.PicklingError))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def sent(): return LOCK", "the global 'LOCK', which 'sent' uses, of type '_thread.lock'"),
        ("def sent(): return [LOCK for _ in range(3)]", "the global 'LOCK', which 'sent"),
        ("class sent:\n def m(self): return LOCK", "the global 'LOCK', which 'sent.m' uses,"),
        ("class sent:\n p = property(lambda self: LOCK)", "the global 'LOCK', which 'sent.<lambda>' uses,"),
        ("class sent:\n lock = LOCK", "sent.lock of type '_thread.lock'"),
        ("def deep(): return LOCK\nclass sent:\n def m(self): deep()", "the global 'LOCK', which 'deep' uses,"),
        ("class Base:\n lock = LOCK\nclass sent(Base): pass", "Base.lock of type '_thread.lock'"),
    ],
)
def test_a_global_that_a_function_or_class_drags_along_is_named(source: str, text: str) -> None:
    sent = in_main(f"import threading\nLOCK = threading.Lock()\n{source}\n")["sent"]
    with pytest.raises(UnpicklableArgument) as caught:
        dumps_arguments("spawn", ("Class",), (sent,), {})
    assert f"because of {text}" in str(caught.value)


def test_a_reducer_that_fails_is_quoted() -> None:
    class Stubborn:
        def __reduce__(self) -> str:
            raise RuntimeError("not today")

    with pytest.raises(UnpicklableArgument, match=r"argument 'x' of type .*Stubborn' can't be pickled: not today"):
        dumps_arguments("w.f", ("x",), (Stubborn(),), {})
