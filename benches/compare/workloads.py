"""Workloads that time one implementation of the ``monarch`` API.

Run one workload in a fresh interpreter; it prints one JSON object, metric -> value:

    python workloads.py latency
    python workloads.py spawn --n 32

Only public names are used, so the same file runs on any package that offers
``monarch.actor`` (and, for two workloads, ``monarch.rdma`` and distributed tensors).
Metric names end in their unit: _us, _ms, _s (less is better), _per_s, _GBps (more is better),
_MB (less is better). ``compare.py`` runs two interpreters in turn and prints the ratios.

On an idle virtual machine most of a round trip is the time that a sleeping core takes to wake
(50 us and more); ``--one-core`` takes that away and leaves what the software itself costs.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
# Workers must find bench_actors too.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))

perf = time.perf_counter


def floor(args):
    """The machine's own limits: a raw socket round trip, a memory copy, a bare interpreter start."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        while data := theirs.recv(64):
            theirs.send(data)
        os._exit(0)
    theirs.close()
    samples = []
    for i in range(21000):
        start = perf()
        ours.send(b"x" * 64)
        ours.recv(64)
        if i >= 1000:
            samples.append((perf() - start) * 1e6)
    ours.close()
    os.waitpid(child, 0)
    source = bytearray(os.urandom(1 << 20) * 128)
    target = bytearray(len(source))
    copies = []
    for _ in range(5):
        start = perf()
        target[:] = source
        copies.append(len(source) / (perf() - start) / 1e9)
    starts = []
    for _ in range(5):
        start = perf()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        starts.append((perf() - start) * 1e3)
    return {
        "floor_socket_round_trip_p50_us": statistics.median(samples),
        "floor_memory_copy_GBps": statistics.median(copies),
        "floor_bare_interpreter_start_ms": statistics.median(starts),
    }


def import_time(args):
    times = []
    for _ in range(5):
        start = perf()
        subprocess.run(
            [sys.executable, "-c", "import monarch.actor"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        times.append((perf() - start) * 1e3)
    return {"import_ms": statistics.median(times)}


def spawn(args):
    """Processes and one actor in each, from nothing to the first reply of all; then memory at rest."""
    from bench_actors import Sync
    from monarch.actor import this_host

    host = this_host()
    start = perf()
    procs = host.spawn_procs(per_host={"gpus": args.n})
    actors = procs.spawn("bench", Sync)
    pids = [pid for _, pid in actors.pid.call().get().items()]
    first = perf() - start
    start = perf()
    procs.spawn("bench_two", Sync).nop.call().get()
    second = perf() - start
    return {
        f"spawn_{args.n}_first_reply_ms": first * 1e3,
        f"spawn_{args.n}_second_actor_ms": second * 1e3,
        f"spawn_{args.n}_worker_pss_MB": statistics.median(_pss_mb(p) for p in pids),
    }


def spawn_torch(args):
    """As `spawn`, with actors that use torch, from a client that has imported it."""
    import torch  # noqa: F401
    from bench_actors import UsesTorch
    from monarch.actor import this_host

    host = this_host()
    start = perf()
    pids = [
        pid for _, pid in host.spawn_procs(per_host={"gpus": args.n}).spawn("bench", UsesTorch).pid.call().get().items()
    ]
    return {
        f"spawn_torch_{args.n}_first_reply_ms": (perf() - start) * 1e3,
        f"spawn_torch_{args.n}_worker_pss_MB": statistics.median(_pss_mb(p) for p in pids),
    }


def idle(args):
    """Processor time that a client and its workers use while nobody asks anything of them."""
    from bench_actors import Sync
    from monarch.actor import this_host

    marker = f"bench-idle-{os.getpid()}"
    os.environ["BENCH_IDLE"] = marker
    this_host().spawn_procs(per_host={"gpus": args.n}).spawn("idle", Sync).nop.call().get()
    time.sleep(2)
    before, start = _ticks(marker), perf()
    time.sleep(30)
    return {
        f"idle_{args.n}_cpu_ms_per_minute_ms": (_ticks(marker) - before)
        * 1e3
        / os.sysconf("SC_CLK_TCK")
        * 60
        / (perf() - start)
    }


def _ticks(marker):
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                ours = int(pid) == os.getpid() or marker.encode() in environ.read()
            if ours:
                with open(f"/proc/{pid}/stat") as stat:
                    total += sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))
        except OSError:
            pass
    return total


def _pss_mb(pid):
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        for line in rollup:
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return float("nan")


def latency(args):
    """One call at a time, many in flight, and between two workers."""
    from bench_actors import Async, Sync, timed_calls
    from monarch.actor import this_host, this_proc

    procs = this_host().spawn_procs(per_host={"gpus": 2})
    out = {}
    for kind, cls in (("sync", Sync), ("async", Async)):
        mesh = procs.spawn(f"lat_{kind}", cls)
        one = mesh.slice(gpus=0)
        out[f"call_one_{kind}_p50_us"], out[f"call_one_{kind}_p99_us"] = timed_calls(
            lambda: one.nop.call_one().get(), 3000
        )
        count = 3000
        for _ in range(2):
            start = perf()
            futures = [one.nop.call_one() for _ in range(count)]
            for f in futures:
                f.get()
            rate = count / (perf() - start)
        out[f"pipelined_{kind}_per_s"] = rate
        out[f"actor_to_actor_{kind}_p50_us"] = one.ping_peer.call_one(mesh.slice(gpus=1), 1000).get()[0]
    local = this_proc().spawn("lat_local", Sync)
    out["call_one_same_process_p50_us"] = timed_calls(lambda: local.nop.call_one().get(), 2000)[0]
    return out


def async_client(args):
    """A client that awaits in its own asyncio loop: one at a time, then gathered."""
    from bench_actors import Async, percentiles
    from monarch.actor import this_host

    one = this_host().spawn_procs(per_host={"gpus": 1}).spawn("aio", Async)

    async def awaited():
        return await one.nop.call_one()

    async def body():
        for _ in range(100):
            await awaited()
        samples = []
        for _ in range(2000):
            start = perf()
            await awaited()
            samples.append((perf() - start) * 1e6)
        start = perf()
        await asyncio.gather(*(awaited() for _ in range(2000)))
        return percentiles(samples)[0], 2000 / (perf() - start)

    p50, rate = asyncio.run(body())
    return {"await_call_one_p50_us": p50, "gathered_calls_per_s": rate}


def fan_out(args):
    """A call to every member of a mesh, and a stream of one-way messages to it."""
    from bench_actors import Sync, timed_calls
    from monarch.actor import this_host

    mesh = this_host().spawn_procs(per_host={"gpus": args.n}).spawn("fan", Sync)
    p50, p99 = timed_calls(lambda: mesh.nop.call().get(), 300, 30)
    count = 1000
    start = perf()
    for _ in range(count):
        mesh.bump.broadcast()
    totals = [total for _, total in mesh.total.call().get().items()]
    elapsed = perf() - start
    assert totals == [count] * args.n, totals
    return {
        f"call_mesh_{args.n}_p50_us": p50,
        f"call_mesh_{args.n}_p99_us": p99,
        f"broadcast_mesh_{args.n}_deliveries_per_s": count * args.n / elapsed,
    }


def payload(args):
    """Large arguments and results: bytes, a NumPy array and a CPU tensor."""
    from bench_actors import Sync
    from monarch.actor import this_host

    mesh = this_host().spawn_procs(per_host={"gpus": 4}).spawn("load", Sync)
    one = mesh.slice(gpus=0)
    makers = {"bytes": lambda n: os.urandom(1 << 16) * (n >> 16)}
    try:
        import numpy

        makers["numpy"] = lambda n: numpy.frombuffer(makers["bytes"](n), dtype=numpy.uint8).copy()
    except ImportError:
        pass
    if args.torch:
        import torch

        makers["tensor"] = lambda n: torch.frombuffer(bytearray(makers["bytes"](n)), dtype=torch.uint8)
    out = {}
    for kind, make in makers.items():
        for size, label, repeat in (
            (1 << 16, "64K", 200),
            (1 << 20, "1M", 60),
            (1 << 24, "16M", 12),
            (1 << 27, "128M", 4),
        ):
            value = make(size)
            ways = [
                ("send", lambda: one.keep.call_one(value).get(), 1),
                ("round_trip", lambda: one.echo.call_one(value).get(), 2),
                ("to_4", lambda: mesh.keep.call(value).get(), 4),
            ]
            if kind != "bytes":
                ways.append(("written", lambda: one.add_one.call_one(value).get(), 1))
            for name, call, copies in ways:
                metric = f"{kind}_{label}_{name}_GBps"
                try:
                    call()
                    start = perf()
                    for _ in range(repeat):
                        call()
                except Exception as error:
                    print(f"{metric}: {error!r}", file=sys.stderr)
                    continue
                out[metric] = size * copies / ((perf() - start) / repeat) / 1e9
    return out


def ports(args):
    """One receiver fed by streams of small messages from four processes."""
    from bench_actors import Sync
    from monarch.actor import Channel, this_host

    mesh = this_host().spawn_procs(per_host={"gpus": 4}).spawn("feed", Sync)
    mesh.nop.call().get()
    count = 2000
    port, receiver = Channel.open()
    start = perf()
    mesh.stream_to.broadcast(port, count)
    for _ in range(count * 4):
        receiver.recv().get()
    return {"port_receive_per_s": count * 4 / (perf() - start)}


def many_actors(args):
    """Many actor meshes on one small process mesh."""
    from bench_actors import Sync
    from monarch.actor import this_host

    procs = this_host().spawn_procs(per_host={"gpus": 2})
    procs.spawn("first", Sync).nop.call().get()
    start = perf()
    meshes = [procs.spawn(f"many_{i}", Sync) for i in range(args.n)]
    for future in [mesh.nop.call() for mesh in meshes]:
        future.get()
    return {f"spawn_{args.n}_actor_meshes_per_s": args.n / (perf() - start)}


def failure(args):
    """From SIGKILL of a worker to the caller's exception: a call under way, then a new one."""
    import monarch.actor
    from bench_actors import Sync
    from monarch.actor import this_host

    monarch.actor.unhandled_fault_hook = lambda failure: None
    pending_ms, next_ms = [], []
    for i in range(3):
        procs = this_host().spawn_procs(per_host={"gpus": 2})
        mesh = procs.spawn(f"victim_{i}", Sync)
        pids = [pid for _, pid in mesh.pid.call().get().items()]
        pending = mesh.slice(gpus=0).sleep.call_one(600)
        time.sleep(0.3)
        start = perf()
        os.kill(pids[0], signal.SIGKILL)
        for call, times in ((lambda: pending, pending_ms), (lambda: mesh.nop.call(), next_ms)):
            try:
                call().get(timeout=90)
            except TimeoutError:
                times.append(float("inf"))
            except Exception:
                times.append((perf() - start) * 1e3)
            start = perf()
    return {
        "killed_worker_pending_call_fails_ms": statistics.median(pending_ms),
        "killed_worker_next_call_fails_ms": statistics.median(next_ms),
    }


def supervise(args):
    """From SIGKILL of a worker to its owner's ``__supervise__``."""
    from bench_actors import Owner
    from monarch.actor import this_host

    times = []
    for i in range(3):
        owner = this_host().spawn_procs(per_host={"gpus": 1}).spawn(f"owner_{i}", Owner)
        victim = owner.own.call_one().get()
        time.sleep(0.3)
        start = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        while (seen := owner.when.call_one().get()) is None:
            time.sleep(0.02)
        times.append((seen - start) * 1e3)
    return {"killed_worker_owner_told_ms": statistics.median(times)}


def recover(args):
    """From SIGKILL of one of the workers to the moment when its owner has them all again, and they have answered."""
    from bench_actors import Crew
    from monarch.actor import this_host

    crew = this_host().spawn_procs(per_host={"gpus": 1}).spawn("owner", Crew, args.n)
    times = []
    for i in range(3):
        victim = crew.pids.call_one().get()[i % args.n]
        time.sleep(0.3)
        start = perf()
        os.kill(victim, signal.SIGKILL)
        while crew.recoveries.call_one().get() == i:
            time.sleep(0.005)
        times.append((perf() - start) * 1e3)
    return {f"killed_worker_of_{args.n}_replaced_ms": statistics.median(times)}


def whole_program(args):
    """A first program as its user times it, from start to exit."""
    program = os.path.join(HERE, "trainer_program.py")
    times = []
    for _ in range(3):
        start = perf()
        subprocess.run(
            [sys.executable, program, str(args.n)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        times.append(perf() - start)
    return {f"trainer_program_{args.n}_procs_s": statistics.median(times)}


def rdma(args):
    """One-sided reads and writes between two processes of one host, whatever the backend."""
    from bench_actors import Holder, Reader
    from monarch.actor import this_host

    host = this_host()
    holder = host.spawn_procs(per_host={"gpus": 1}).spawn("holder", Holder)
    reader = host.spawn_procs(per_host={"gpus": 1}).spawn("reader", Reader)
    out = {}
    for size, label, repeat in ((1 << 12, "4K", 200), (1 << 20, "1M", 50), (1 << 28, "256M", 4)):
        buffer = holder.make.call_one(size).get()
        for way, write in (("read", False), ("write", True)):
            seconds = reader.move.call_one(buffer, size, repeat, write).get()
            if size >= 1 << 20:
                out[f"rdma_{way}_{label}_GBps"] = size / seconds / 1e9
            else:
                out[f"rdma_{way}_{label}_us"] = seconds * 1e6
    buffers = holder.make_many.call_one(100, 1 << 12).get()
    out["rdma_batch_100_reads_of_4K_us"] = reader.batch.call_one(buffers, 1 << 12, 20).get() * 1e6
    return out


def tensors(args):
    """Dispatch rate of distributed tensor operations, a fetch, and a small training step."""
    import torch
    from monarch import fetch_shard
    from monarch.actor import this_host

    procs = this_host().spawn_procs(per_host={"gpus": args.n})
    with procs.activate():
        a = torch.ones(8, 8)
        fetch_shard(a).get()
        samples = []
        for _ in range(100):
            start = perf()
            fetch_shard(a).get()
            samples.append((perf() - start) * 1e6)
        count = 2000
        start = perf()
        b = a
        for _ in range(count):
            b = b + a
        issued = perf() - start
        value = fetch_shard(b).get()
        done = perf() - start
        weight = torch.randn(64, 64)
        x = torch.randn(32, 64)
        steps = 50
        start = perf()
        for _ in range(steps):
            y = torch.relu(x @ weight)
            weight = weight - 0.001 * (x.T @ (y * 2))
        fetch_shard(weight).get()
        step = (perf() - start) / steps
    assert float(value[0, 0]) == count + 1
    weight, x = torch.randn(64, 64), torch.randn(32, 64)
    for timed in range(2 * steps):
        if timed == steps:
            start = perf()
        y = torch.relu(x @ weight)
        weight = weight - 0.001 * (x.T @ (y * 2))
    local = (perf() - start) / steps
    return {
        "floor_local_training_step_us": local * 1e6,
        f"tensor_{args.n}_fetch_shard_p50_us": statistics.median(samples),
        f"tensor_{args.n}_ops_issued_per_s": count / issued,
        f"tensor_{args.n}_ops_completed_per_s": count / done,
        f"tensor_{args.n}_training_step_us": step * 1e6,
    }


WORKLOADS = {
    workload.__name__: workload
    for workload in (
        floor,
        import_time,
        spawn,
        spawn_torch,
        idle,
        latency,
        async_client,
        fan_out,
        payload,
        ports,
        many_actors,
        failure,
        supervise,
        recover,
        whole_program,
        rdma,
        tensors,
    )
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--n", type=int, default=8, help="processes, or actor meshes for many_actors")
    parser.add_argument("--torch", action="store_true", help="payload: time CPU tensors too")
    parser.add_argument("--one-core", action="store_true", help="keep client and workers on one core (Linux)")
    args = parser.parse_args()
    if args.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    suffix = "_one_core" if args.one_core else ""
    print(
        "RESULT " + json.dumps({name + suffix: value for name, value in WORKLOADS[args.workload](args).items()}),
        flush=True,
    )


if __name__ == "__main__":
    main()
