"""Cells that are run by a real kernel, and what appears below them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient


class Kernel(AsyncKernelManager):
    """This interpreter as a kernel, whatever kernels are installed for the user."""

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        return [sys.executable, "-m", "ipykernel_launcher", "-f", self.connection_file, *(extra_arguments or [])]


class Outputs(list[Any]):
    """What appears below a cell."""

    def text(self, stream: str = "stdout") -> str:
        return "".join(output.text for output in self if output.get("name") == stream)

    def result(self, kind: str = "text/plain") -> str | None:
        """What the last expression was shown as."""
        return next((output.data.get(kind) for output in self if output.output_type == "execute_result"), None)

    def error(self) -> str | None:
        """The name of the exception that the cell ended with."""
        return next((output.ename for output in self if output.output_type == "error"), None)


class Session:
    """A kernel that runs one cell after the other, whatever they raise."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def run(self, *cells: str) -> list[Outputs]:
        return [self._run(nbformat.v4.new_code_cell(cell)) for cell in cells]

    def _run(self, cell: Any) -> Outputs:
        self._client.nb.cells.append(cell)
        return Outputs(self._client.execute_cell(cell, len(self._client.nb.cells) - 1).outputs)


@contextmanager
def session(place: Path, environment: dict[str, str]) -> Iterator[Session]:
    client = _client(nbformat.v4.new_notebook(), allow_errors=True)
    with client.setup_kernel(cwd=str(place), env=environment):
        yield Session(client)


def execute(notebook: Any, place: Path, environment: dict[str, str]) -> None:
    """Run all cells of a notebook; raises the error of one that fails."""
    _client(notebook).execute(cwd=str(place), env=environment)


def _client(notebook: Any, **options: Any) -> NotebookClient:
    return NotebookClient(notebook, timeout=90, kernel_manager_class=Kernel, shutdown_kernel="graceful", **options)
