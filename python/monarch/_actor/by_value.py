"""Functions and classes as values: cloudpickle, with code that keeps its file name and source lines.

cloudpickle's own reducer of code objects replaces the file name, so that a traceback from a worker would show no source
of the main program.
"""

from __future__ import annotations

import marshal
import sys
from _frozen_importlib_external import MAGIC_NUMBER  # changes with the format of bytecode
from collections import ChainMap
from types import CodeType

import cloudpickle  # type: ignore[import-untyped]

from monarch._actor.out_of_band import REDUCERS, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

if "__mp_main__" in sys.modules:  # the main program under `multiprocessing`: no worker can import it
    cloudpickle.register_pickle_by_value(sys.modules["__mp_main__"])


def _reduce_code(code: CodeType) -> tuple[Callable[..., CodeType], tuple[object, ...]]:
    return restore_code, (MAGIC_NUMBER, marshal.dumps(code), code.co_filename, _typed_lines(code.co_filename))


def _typed_lines(filename: str) -> list[str] | None:
    """The source of what was typed (a notebook cell), not read from a file that a worker can read as well."""
    # Not there while another thread imports the module.
    cache = getattr(sys.modules.get("linecache"), "cache", {})
    entry = cache.get(filename)
    return entry[2] if entry and len(entry) == 4 and entry[1] is None else None


def restore_code(magic: bytes, marshalled: bytes, filename: str, lines: list[str] | None) -> CodeType:
    """The code object; raises `ImportError` for the bytecode of another version of Python."""
    if magic != MAGIC_NUMBER:
        version = ".".join(map(str, sys.version_info[:3]))
        raise ImportError(
            f"code from {filename} was sent by value from another version of Python than {version} here;"
            " put it into a module that both can import, or use the same version"
        )
    if lines is not None:
        import linecache

        linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)
    code: CodeType = marshal.loads(marshalled)
    return code


_REDUCERS: Any = cloudpickle.Pickler.dispatch_table


class ByValuePickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _reduce_code}, _REDUCERS)

    def __init__(self, stream: Stream, whole_storages: bool) -> None:
        super().__init__(stream, 5, buffer_callback=stream.keep_in_stream)
        self.whole_storages = whole_storages
        self.storages: dict[int, Any] = {}

    def reducer_override(self, obj: object) -> Any:
        reduce = REDUCERS.get(type(obj))
        reduced = reduce(self, obj) if reduce is not None else NotImplemented
        return super().reducer_override(obj) if reduced is NotImplemented else reduced
