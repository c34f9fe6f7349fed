"""What type checkers know of endpoints, ports and meshes. Checked by mypy and pyright in `make lint`, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from monarch.actor import (
    Accumulator,
    Actor,
    ActorMesh,
    Channel,
    Endpoint,
    Future,
    Point,
    Port,
    PortReceiver,
    ProcMesh,
    ValueMesh,
    as_endpoint,
    concurrent_endpoint,
    context,
    current_rank,
    endpoint,
    this_host,
)
from typing_extensions import assert_type


class Trainer(Actor):
    def __init__(self, rate: float) -> None:
        self.rate = rate

    @endpoint
    def train(self, step: int, scale: float = 1.0) -> dict[str, float]:
        return {"loss": step * scale * self.rate}

    @endpoint
    async def save(self, path: str) -> bytes:
        return path.encode()

    @endpoint
    def forget(self) -> None: ...

    @concurrent_endpoint
    async def watch(self, name: str) -> int:
        return len(name)

    @endpoint(instrument=False)
    def quiet(self, x: int) -> str:
        return str(x)

    @endpoint(explicit_response_port=True)
    def later(self, port: Port[int], x: int) -> None:
        port.send(x)

    @concurrent_endpoint(explicit_response_port=True)
    async def much_later(self, port: Port[str], x: int) -> None:
        port.send(str(x))

    def plain(self, x: int) -> float:
        return x / 2

    def plain_later(self, port: Port[bytes], x: int) -> None:
        port.send(bytes(x))


def spawned(procs: ProcMesh) -> None:
    trainers = procs.spawn("trainers", Trainer, 0.1)
    assert_type(trainers, Trainer)
    assert_type(procs.spawn("trainers", Trainer, rate=0.1), Trainer)
    assert_type(trainers.slice(gpus=0), Trainer)
    assert_type(trainers.size(), int)
    assert_type(trainers.sizes, dict[str, int])


def results_of_the_adverbs(trainers: Trainer) -> None:
    assert_type(trainers.train.call(step=1), Future[ValueMesh[dict[str, float]]])
    assert_type(trainers.train.call(1, 2.0).get(), ValueMesh[dict[str, float]])
    assert_type(trainers.train.call_one(1).get(), dict[str, float])
    assert_type(trainers.train.choose(1).get(timeout=1.0), dict[str, float])
    assert_type(trainers.train.options(timeout=3.0).call_one(1), Future[dict[str, float]])
    for future in trainers.train.stream(1):
        assert_type(future, Future[dict[str, float]])
    assert_type(trainers.forget.call_one().get(), None)


def results_of_async_and_concurrent_endpoints(trainers: Trainer) -> None:
    assert_type(trainers.save.call_one("a").get(), bytes)
    assert_type(trainers.save.call("a").get(), ValueMesh[bytes])
    assert_type(trainers.watch.call_one("a").get(), int)
    assert_type(trainers.quiet.call_one(1).get(), str)


def results_by_an_explicit_port(trainers: Trainer) -> None:
    assert_type(trainers.later.call_one(1).get(), int)
    assert_type(trainers.much_later.call(1).get(), ValueMesh[str])


async def awaited(trainers: Trainer) -> None:
    assert_type(await trainers.train.call_one(1), dict[str, float])
    assert_type(await trainers.train.call(1), ValueMesh[dict[str, float]])
    async for value in trainers.train.stream(1):
        assert_type(value, dict[str, float])


def values(mesh: ValueMesh[int]) -> None:
    assert_type(mesh.item(gpus=0), int)
    assert_type(mesh.get(0), int)
    assert_type(list(mesh.values()), list[int])
    for point, value in mesh.items():
        assert_type(point, Point)
        assert_type(value, int)
    for point, value in mesh:
        assert_type(point, Point)
        assert_type(value, int)
    assert_type(mesh.slice(gpus=slice(0, 2)), ValueMesh[int])


def ports() -> None:
    pair: tuple[Port[int], PortReceiver[int]] = Channel[int].open()
    port, receiver = pair
    port.send(1)
    assert_type(receiver.recv(), Future[int])
    assert_type(receiver.recv().get(), int)


def any_mesh_is_a_mesh(mesh: ActorMesh, trainers: Trainer) -> None:
    assert_type(current_rank(), Point)
    assert_type(context().message_rank, Point)
    assert_type(this_host().spawn_procs({"gpus": 8}), ProcMesh)


def folded(trainers: Trainer) -> None:
    def longer(sofar: int, value: bytes) -> int:
        return max(sofar, len(value))

    assert_type(Accumulator(trainers.save, 0, longer).accumulate("a").get(), int)
    assert_type(as_endpoint(trainers.plain).call_one(1).get(), float)
    assert_type(as_endpoint(trainers.plain_later, explicit_response_port=True).call_one(1).get(), bytes)


def generic(method: Endpoint[[int, float], dict[str, float]]) -> None:
    assert_type(method.call_one(1, 2.0).get(), dict[str, float])


class Counter(Actor):
    @endpoint
    def up_to(self, limit: int) -> Iterator[int]:
        yield from range(limit)

    @endpoint
    async def slowly_up_to(self, limit: int) -> AsyncIterator[int]:
        for number in range(limit):
            yield number


def mistakes_are_found(trainers: Trainer, procs: ProcMesh) -> None:
    trainers.train.call(step="one")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    trainers.train.call_one()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    trainers.train.call_one(1, sclae=2.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    trainers.train.send(1)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType]
    trainers.later.call_one("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    wrong: Future[int] = trainers.train.call_one(1)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    del wrong
