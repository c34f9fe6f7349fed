"""Names that programs import from older, private paths: each is the public thing itself."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import monarch
import monarch.actor
import pytest
from conftest import eventually, marked_environment
from monarch.actor import MeshFailure, ProcMesh
from sample_actors import Echo, Shouter, Where

HYPERACTOR = "monarch._rust_bindings.monarch_hyperactor"

# The names that programs in the field import from private modules, and that are public here.
SAME = [
    ("monarch._src.actor.actor_mesh", "ActorMesh"),
    ("monarch._src.actor.endpoint", "Extent"),
    ("monarch._src.actor.shape", "Extent"),
    ("monarch._src.actor.shape", "Shape"),
    ("monarch._src.actor.shape", "Slice"),
    ("monarch._src.actor.shape", "NDSlice"),
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
    (f"{HYPERACTOR}.channel", "ChannelTransport"),
    ("monarch._src.actor.bootstrap", "attach_to_workers"),
    ("monarch._src.actor.bootstrap", "run_worker_loop_forever"),
    # Beyond those: what the documentation shows without a public path.
    *(("monarch._src.actor.actor_mesh", name) for name in ("CreatorInstance", "Instance", "RankedPortReceiver")),
    *((f"{HYPERACTOR}.proc", name) for name in ("ActorAddr", "ProcId", "Uid")),
    (f"{HYPERACTOR}.endpoint", "ValueStream"),
]

# Names that have no public path.
ALONE = [
    ("monarch._src.actor.actor_mesh", "_context"),
    ("monarch._src.actor.endpoint", "EndpointProperty"),
    ("monarch._src.actor.mock", "patch_actor"),
    ("monarch._src.actor.mock", "patch_tensor_engine"),
    ("monarch._src.actor.proc_mesh", "get_active_proc_meshes"),
    ("monarch._src.actor.proc_mesh", "register_proc_mesh_spawn_callback"),
    ("monarch._src.actor.proc_mesh", "unregister_proc_mesh_spawn_callback"),
    ("monarch._src.actor.supervision", "UnhandledFaultHookException"),
    (f"{HYPERACTOR}.handle", "WouldBlockRuntime"),
    *((f"{HYPERACTOR}.mailbox", name) for name in ("PortId", "PortRef", "UndeliverableMessageEnvelope")),
    (f"{HYPERACTOR}.pytokio", "PythonTask"),
    ("monarch.tools.network", "get_ipaddr"),
]


JOB_NAMES = [
    ("monarch._src.job.job", "JobTrait"),
    ("monarch._src.job.job", "JobState"),
    ("monarch._src.job.job", "LocalJob"),
    ("monarch._src.job.job", "job_load"),
    ("monarch._src.job.process", "ProcessJob"),
]


@pytest.mark.parametrize(("module", "name"), JOB_NAMES)
def test_the_older_path_of_a_job_gives_the_public_thing(module: str, name: str) -> None:
    assert getattr(import_module(module), name) is getattr(import_module("monarch.job"), name)


@pytest.mark.usefixtures("default_hook")
@pytest.mark.parametrize(("module", "name"), SAME)
def test_the_older_path_gives_the_public_thing(module: str, name: str) -> None:
    assert getattr(import_module(module), name) is getattr(monarch.actor, name)


@pytest.fixture
def default_hook(no_unexpected_fault: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from monarch._actor.fault_hook import unhandled_fault_hook

    monkeypatch.setattr(monarch.actor, "unhandled_fault_hook", unhandled_fault_hook)


@pytest.mark.parametrize(("module", "name"), ALONE)
def test_a_name_without_a_public_path_is_there(module: str, name: str) -> None:
    assert getattr(import_module(module), name) is not None


@pytest.mark.parametrize("name", ["configure", "get_global_config"])
def test_the_older_path_of_the_configuration_gives_the_public_thing(name: str) -> None:
    assert getattr(import_module(f"{HYPERACTOR}.config"), name) is getattr(import_module("monarch.config"), name)


def test_a_worker_runs_the_module_that_programs_look_for() -> None:
    assert find_spec("monarch._src.actor.bootstrap_main") is not None


def test_nd_slice_is_slice() -> None:
    assert monarch.actor.NDSlice is monarch.actor.Slice


@pytest.mark.parametrize("name", ["Extent", "NDSlice", "Point", "Region", "Shape", "Slice", "ValueMesh"])
def test_geometry_is_also_at_the_top(name: str) -> None:
    assert getattr(monarch, name) is getattr(monarch.actor, name)
    assert name in dir(monarch)


def test_the_submodule_of_concurrent_endpoints_has_just_these() -> None:
    assert import_module("monarch.actor.concurrent").concurrent_endpoint is monarch.actor.concurrent_endpoint


@pytest.mark.parametrize("name", monarch.actor.__all__)
def test_every_public_name_of_the_actor_api_is_there(name: str) -> None:
    assert getattr(monarch.actor, name) is not None


def test_a_private_name_that_is_absent_is_answered_with_the_public_one() -> None:
    with pytest.raises(ImportError, match=r"which is private: it is in 'monarch\.actor'"):
        from monarch._src.actor.supervision import ActorMesh  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'Zork'"):
        from monarch._src.actor.supervision import Zork  # type: ignore[attr-defined]  # noqa: F401
    assert not hasattr(import_module("monarch._src.actor.supervision"), "zork")


@pytest.mark.parametrize("module", ["monarch._src.zork", "monarch._src.actor.zork", f"{HYPERACTOR}.zork"])
def test_a_private_module_that_is_absent_says_where_to_look(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"which is private: what programs need is in 'monarch\.actor'"):
        import_module(module)


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


def test_a_process_mesh_lists_its_processes(grid: ProcMesh) -> None:
    pids = list(grid.spawn("where", Where).pid.call().get().values())
    assert grid.slice(row=1).to_table().splitlines() == [
        "rank  pid      position",
        f"0     {pids[2]:<7}  {{'col': 0/2}}",
        f"1     {pids[3]:<7}  {{'col': 1/2}}",
    ]


def test_an_actor_mesh_knows_the_name_that_its_failures_have(one: ProcMesh, faults: list[MeshFailure]) -> None:
    mesh = one.spawn("named", Echo)
    name = mesh._name.get()
    mesh.leave.broadcast()
    eventually(lambda: faults, "the program is told")
    assert faults[0].mesh_name == name and name.startswith("named-")
