"""The template that has PyTorch: when workers are copies of it, what is their own, and what stands in for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from monarch._native import build_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import RunProgram

pytestmark = pytest.mark.skipif(build_info()["platform"] != "linux", reason="workers are programs on this platform")


@pytest.mark.torch
@pytest.mark.timeout(300)  # PyTorch is imported twice, on a machine that may be busy
def test_workers_of_a_program_with_torch_are_copies_that_share_it(run_program: RunProgram) -> None:
    body = """
    import torch
    mesh = start(2)
    assert values(mesh.loaded.call("monarch._actor.tensors").get()) == [True, True]
    loaded, drawn = values(mesh.loaded.call("torch").get()), values(mesh.draw.call().get())
    threads = values(mesh.torch_threads.call().get())
    os.environ["OMP_NUM_THREADS"] = "1"
    told = start()
    told_loaded = told.loaded.call_one("torch").get()
    os.environ["OMP_NUM_THREADS"] = ""
    keeper = told.parent.call_one().get()
    workers = {*values(mesh.pid.call().get()), told.pid.call_one().get()}
    with open(f"/proc/{keeper}/task/{keeper}/children") as children:
        template, = set(map(int, children.read().split())) - workers
    parents = values(mesh.parent.call().get())
    os.kill(template, signal.SIGKILL)
    after = start().rank.call_one().get()
    print(json.dumps([loaded, drawn, threads, told_loaded, len({keeper, *parents}), after, torch.__file__,
                      len(os.sched_getaffinity(0))]))
    """
    done = run_program(body, OMP_NUM_THREADS="", MKL_NUM_THREADS="")
    loaded, drawn, threads, told_loaded, parents, after, file, cores = done.result
    assert loaded == [True, True]
    assert threads == [max(1, cores // 2)] * 2
    assert len({number for numbers in drawn for number in numbers}) == 2 * 4
    assert told_loaded is False
    assert parents == 1
    assert after == 0
    assert done.starts == [
        f"worker 0 is a copy of a template: torch@{file}",
        f"worker 1 is a copy of a template: torch@{file}",
        f"worker 2 is a copy of the keeper: `OMP_NUM_THREADS` has another value than when torch@{file} was loaded",
        f"worker 3 is a copy of the keeper: with torch@{file}: its template ended",
    ]


HEAD = "import types; cuda = types.SimpleNamespace(is_initialized=lambda: {}); set_num_threads = print; seed = int\n"

UNFIT = {
    HEAD.format("True"): "its import has touched the accelerator",
    HEAD.format("False") + "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()": (
        "its import has left 2 threads running"
    ),
    "raise ImportError('broken')": "it cannot be imported: broken",
    "import os; os._exit(3)": "its template ended while it loaded",
}


@pytest.mark.parametrize("torch", UNFIT)
def test_a_template_that_is_unfit_is_replaced_by_the_keeper(
    run_program: RunProgram, tmp_path: Path, torch: str
) -> None:
    place = tmp_path / "packages"
    place.mkdir()
    (place / "torch.py").write_text(torch)
    body = """
    mesh = start(2)
    print(json.dumps([values(mesh.rank.call().get()), values(mesh.loaded.call("torch").get())]))
    """
    done = run_program(body, PYTHONPATH=str(place), MONARCH_WORKER_TEMPLATE="torch")
    assert done.result == [[0, 1], [False, False]]
    assert done.starts == [f"worker {n} is a copy of the keeper: with torch: {UNFIT[torch]}" for n in range(2)]


def test_a_template_outlives_the_worker_that_it_was_made_for(run_program: RunProgram, tmp_path: Path) -> None:
    place = tmp_path / "packages"
    place.mkdir()
    (place / "torch.py").write_text(HEAD.format("False").replace("print", "int"))
    body = """
    procs = this_host().spawn_procs()
    first = procs.spawn("start", Start).parent.call_one().get()
    procs.stop().get()
    print(json.dumps(first == start().parent.call_one().get()))
    """
    done = run_program(body, PYTHONPATH=str(place), MONARCH_WORKER_TEMPLATE="torch")
    assert done.result is True
    assert done.starts == [f"worker {n} is a copy of a template: torch" for n in range(2)]


def test_another_torch_than_the_programs_is_not_taken(run_program: RunProgram, tmp_path: Path) -> None:
    for place in ("first", "second"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "torch.py").write_text(HEAD.format("False"))
    body = """
    sys.path.insert(0, os.path.abspath("second"))
    import torch
    print(json.dumps(start().rank.call_one().get()))
    """
    done = run_program(body, PYTHONPATH=str(tmp_path / "first"))
    files = [str(tmp_path / place / "torch.py") for place in ("first", "second")]
    assert done.starts == [
        f"worker 0 is a copy of the keeper: with torch@{files[1]}: "
        f"the import of torch finds {files[0]}, and the program has {files[1]}"
    ]


def test_a_worker_that_is_stopped_while_its_template_loads_never_starts(
    run_program: RunProgram, tmp_path: Path
) -> None:
    place = tmp_path / "packages"
    place.mkdir()
    fifo = tmp_path / "go"
    (place / "torch.py").write_text(f"open({str(fifo)!r}).read()\n" + HEAD.format("False"))
    body = """
    import monarch.actor
    monarch.actor.unhandled_fault_hook = lambda failure: None
    os.mkfifo("go")
    procs = this_host().spawn_procs()
    mesh = procs.spawn("start", Start)
    waits = mesh.rank.call_one()
    with open("go", "w"):  # opens when the template reads
        from monarch._actor.context import process
        process().runtime.kill_proc(procs._root.mesh, 0, signal.SIGKILL)
        try:
            waits.get()
        except Exception as error:
            print(json.dumps(str(error)))
    """
    done = run_program(body, PYTHONPATH=str(place), MONARCH_WORKER_TEMPLATE="torch")
    assert "SIGKILL" in done.result
    assert done.starts == []
