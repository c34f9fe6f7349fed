"""Pools of interchangeable actors that share work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually, is_alive
from monarch.actor import ElasticPool, Future, MeshFailure, ProcMesh, RestartPolicy, SupervisionError
from recovering_actors import Worker

SpawnProcs = Callable[..., ProcMesh]
Faults = list[MeshFailure]

FAST = RestartPolicy(backoff=(0.01, 0.1))


@pytest.fixture
def make_pool(spawn_procs: SpawnProcs) -> Iterator[Callable[..., ElasticPool[Worker]]]:
    """A pool on so many processes, and its end."""
    made: list[ElasticPool[Worker]] = []

    def make(n: int, policy: RestartPolicy = FAST) -> ElasticPool[Worker]:
        made.append(ElasticPool(spawn_procs({"w": n}), Worker, policy=policy))
        return made[-1]

    yield make
    for pool in made:
        pool.stop()


def running(path: Path) -> set[int]:
    """The processes in which `wait_for` of this path has begun."""
    return {int(file.suffix[1:]) for file in path.parent.glob(f"{path.name}.*")}


def occupy(pool: ElasticPool[Worker], path: Path) -> tuple[int, Future[int]]:
    """Keep one more member busy until the file is there; its process id."""
    before = running(path)
    held = pool.submit("wait_for", str(path))
    eventually(lambda: running(path) != before, "the work has begun")
    [pid] = running(path) - before
    return pid, held


def test_work_goes_to_the_member_that_has_the_least(make_pool: Any, tmp_path: Path) -> None:
    pool = make_pool(2)
    busy, held = occupy(pool, tmp_path / "go")
    others = {pool.submit("pid").get(timeout=20) for _ in range(10)}
    assert len(others) == 1 and busy not in others
    (tmp_path / "go").touch()
    assert held.get(timeout=20) == busy


def test_all_members_work_at_once(make_pool: Any, tmp_path: Path) -> None:
    pool = make_pool(3)
    held = [pool.submit("wait_for", str(tmp_path / "go")) for _ in range(3)]
    eventually(lambda: len(running(tmp_path / "go")) == 3, "all members work")
    (tmp_path / "go").touch()
    assert len({future.get(timeout=20) for future in held}) == 3


def test_map_gives_results_in_order(make_pool: Any) -> None:
    pool = make_pool(2)
    assert list(pool.map("add", range(20), range(20))) == [2 * n for n in range(20)]


def test_an_exception_of_the_endpoint_is_the_result(make_pool: Any) -> None:
    pool = make_pool(1)
    with pytest.raises(ValueError, match="not this"):
        pool.submit("refuse", "not this").get(timeout=20)
    assert pool.submit("count").get(timeout=20) == 1


def test_wrong_use_is_an_error_at_the_call(make_pool: Any) -> None:
    pool = make_pool(1)
    with pytest.raises(AttributeError, match="no endpoint 'cuont'"):
        pool.submit("cuont")
    with pytest.raises(TypeError):
        pool.submit("count", 1)
    with pytest.raises(ValueError, match="at least 1 member"):
        pool.resize(0)


def test_work_of_a_member_that_dies_is_done_by_another(make_pool: Any, tmp_path: Path) -> None:
    pool = make_pool(2)
    dead, first = occupy(pool, tmp_path / "go")
    living, second = occupy(pool, tmp_path / "go")
    os.kill(dead, signal.SIGKILL)
    (tmp_path / "go").touch()
    assert second.get(timeout=20) == living
    assert first.get(timeout=20) != dead
    eventually(lambda: members_work(pool, 2), "the dead member works again")


def test_work_waits_while_the_only_member_is_made_again(make_pool: Any, tmp_path: Path) -> None:
    pool = make_pool(1)
    dead, held = occupy(pool, tmp_path / "go")
    waiting = pool.submit("pid")
    os.kill(dead, signal.SIGKILL)
    (tmp_path / "go").touch()
    assert held.get(timeout=20) == waiting.get(timeout=20) != dead


def test_a_member_that_was_restarted_works_again(make_pool: Any, tmp_path: Path) -> None:
    pool = make_pool(2)
    pool.submit("end_process_once", str(tmp_path / "mark")).get(timeout=20)
    go = tmp_path / "go"
    held = [pool.submit("wait_for", str(go)) for _ in range(2)]
    eventually(lambda: len(running(go)) == 2 or rebalance(pool, held, go), "two members work")
    go.touch()
    for future in held:
        future.get(timeout=20)


def members_work(pool: ElasticPool[Worker], count: int) -> bool:
    """Whether so many members answer: one that died does so once its owner has been told and has made it again."""
    return len({future.get(timeout=20) for future in [pool.submit("pid") for _ in range(2 * count)]}) == count


def rebalance(pool: ElasticPool[Worker], held: list[Future[int]], go: Path) -> bool:
    """Submit again: what came while one member was away waits behind the other."""
    held.append(pool.submit("wait_for", str(go)))
    return False


def test_work_that_kills_every_member_fails_itself(make_pool: Any) -> None:
    pool = make_pool(2, RestartPolicy(max_restarts=50, backoff=(0, 0.01)))
    with pytest.raises(SupervisionError, match="exited with status 7"):
        pool.submit("end_process").get(timeout=20)
    assert list(pool.map("add", range(4), range(4))) == [0, 2, 4, 6]
    eventually(lambda: members_work(pool, 2), "both members work again")


def test_a_member_that_its_policy_gives_up_leaves_the_pool(make_pool: Any, faults: Faults, tmp_path: Path) -> None:
    pool = make_pool(2, RestartPolicy(max_restarts=0))
    pool.submit("end_process_once", str(tmp_path / "mark")).get(timeout=20)
    eventually(lambda: len(pool) == 1, "the member has left")
    eventually(lambda: faults, "its owner is told")
    assert "exhausted" in faults[0].report()
    assert list(pool.map("add", range(4), range(4))) == [0, 2, 4, 6]


def test_work_fails_once_no_member_is_left_and_new_ones_take_more(make_pool: Any, faults: Faults) -> None:
    pool = make_pool(1, RestartPolicy(max_restarts=0))
    with pytest.raises(SupervisionError, match="has no member left"):
        pool.submit("end_process").get(timeout=20)
    with pytest.raises(SupervisionError, match="`resize` makes new ones"):
        pool.submit("count")
    pool.resize(1)
    assert pool.submit("count").get(timeout=20) == 1
    eventually(lambda: faults, "the owner is told")


def test_a_pool_grows_beyond_its_processes_and_takes_them_along_at_its_end(make_pool: Any, tmp_path: Path) -> None:
    pool = make_pool(1)
    pool.resize(3)
    assert len(pool) == 3
    held = [pool.submit("wait_for", str(tmp_path / "go")) for _ in range(3)]
    eventually(lambda: len(running(tmp_path / "go")) == 3, "all members work")
    (tmp_path / "go").touch()
    first, *added = [future.get(timeout=20) for future in held]
    pool.stop()
    eventually(lambda: not any(map(is_alive, added)), "the processes of the pool are gone")
    assert is_alive(first)


def test_members_that_go_complete_their_work(make_pool: Any, tmp_path: Path) -> None:
    pool = make_pool(2)
    held = [occupy(pool, tmp_path / "go") for _ in range(2)]
    pool.resize(1)
    assert len(pool) == 1
    (tmp_path / "go").touch()
    assert [future.get(timeout=20) for _, future in held] == [pid for pid, _ in held]
    assert {pool.submit("pid").get(timeout=20) for _ in range(5)} == {held[0][0]}


def test_a_pool_that_grows_again_uses_the_processes_it_has(make_pool: Any, tmp_path: Path) -> None:
    pool = make_pool(2)
    held = [occupy(pool, tmp_path / "one") for _ in range(2)]
    (tmp_path / "one").touch()
    before = {future.get(timeout=20) for _, future in held}
    pool.resize(1)
    pool.resize(2)
    after = {occupy(pool, tmp_path / "two")[0] for _ in range(2)}
    (tmp_path / "two").touch()
    assert after == before


def test_cancelled_work_is_not_done(spawn_procs: SpawnProcs, tmp_path: Path) -> None:
    procs = spawn_procs({"w": 1})
    pool = ElasticPool(procs, Worker, policy=FAST)
    _, held = occupy(pool, tmp_path / "go")
    assert pool.submit("count").cancel()
    # Its process has read what was sent before this, the word of the cancel too: else the work might just have begun.
    assert procs.initialized.get(timeout=20)
    (tmp_path / "go").touch()
    held.get(timeout=20)
    assert pool.submit("count").get(timeout=20) == 1
    pool.stop()


def test_a_stopped_pool_takes_no_work(make_pool: Any) -> None:
    pool = make_pool(1)
    pool.stop("enough")
    pool.stop()
    with pytest.raises(RuntimeError, match="was stopped: enough"):
        pool.submit("count")
    with pytest.raises(RuntimeError, match="was stopped: enough"):
        pool.resize(2)
