"""Names that programs import from older, private paths: each is the public thing itself."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import monarch.actor
import pytest
from conftest import marked_environment
from monarch.actor import ProcMesh
from sample_actors import Shouter

HYPERACTOR = "monarch._rust_bindings.monarch_hyperactor"

SAME = [
    ("monarch._src.actor.actor_mesh", "ActorMesh"),
    ("monarch._src.actor.endpoint", "Extent"),
    ("monarch._src.actor.shape", "Extent"),
    ("monarch._src.actor.shape", "Shape"),
    ("monarch._src.actor.shape", "Slice"),
    ("monarch._src.actor.host_mesh", "HostMesh"),
    ("monarch._src.actor.host_mesh", "this_host"),
    ("monarch._src.actor.host_mesh", "default_bootstrap_cmd"),
    ("monarch._src.actor.proc_mesh", "ProcMesh"),
    ("monarch._src.actor.future", "Future"),
    ("monarch._src.actor.supervision", "unhandled_fault_hook"),
    *((f"{HYPERACTOR}.shape", name) for name in ("Extent", "Point", "Region", "Shape", "Slice")),
    (f"{HYPERACTOR}.supervision", "SupervisionError"),
    (f"{HYPERACTOR}.supervision", "MeshFailure"),
    (f"{HYPERACTOR}.host_mesh", "BootstrapCommand"),
]


@pytest.mark.usefixtures("default_hook")
@pytest.mark.parametrize(("module", "name"), SAME)
def test_the_older_path_gives_the_public_thing(module: str, name: str) -> None:
    assert getattr(import_module(module), name) is getattr(monarch.actor, name)


@pytest.fixture
def default_hook(no_unexpected_fault: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from monarch._actor.fault_hook import unhandled_fault_hook

    monkeypatch.setattr(monarch.actor, "unhandled_fault_hook", unhandled_fault_hook)


def test_nd_slice_is_slice() -> None:
    assert import_module("monarch._src.actor.shape").NDSlice is monarch.actor.Slice


def test_the_body_of_an_endpoint_can_be_called_in_process() -> None:
    from monarch._src.actor.endpoint import EndpointProperty

    assert isinstance(Shouter.shout, EndpointProperty)
    assert Shouter.shout._method(Shouter(), "x") == "X"


def test_the_context_variable_is_none_before_the_first_use() -> None:
    code = """
from monarch._src.actor.actor_mesh import _context
from monarch.actor import context
print(_context.get(), context() is _context.get())
"""
    environment, _ = marked_environment()
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("None True\n", "")


def test_meshes_know_their_labels(grid: ProcMesh) -> None:
    assert list(grid._labels) == ["row", "col"]
