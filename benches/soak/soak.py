"""All kinds of traffic at once, at full load, for a while: does the memory of the program and its workers stay flat?

    python soak.py [--minutes 10] [--processes 3] [--every 5]

Each kind of traffic has a thread that does nothing else: calls awaited and not, casts, streams, ports, large payloads,
a flood of a receiver that is too slow for it, actors and processes that come and go, processes that are killed and
replaced. Meanwhile memory (proportional set size), descriptors and threads of the client and of the workers that stay
are sampled. The first half fills caches; a line is fitted to each in the second one. Exit status 1 if one of them
grows, or if any step of any traffic failed.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import statistics
import sys
import threading
import time
import traceback

import monarch.actor
from monarch.actor import Actor, Channel, SupervisionError, endpoint, this_host
from monarch.config import configure

PATIENCE_S = 60
# As much as a line may rise over the second half without being growth: allocators and samples are not still.
MOST_GROWTH = {"memory_MB": 0.03, "descriptors": 0.02, "threads": 0.02}


class Worker(Actor):
    """Takes part in all kinds of traffic."""

    def __init__(self):
        self.kept = None

    @endpoint
    def pid(self):
        return os.getpid()

    @endpoint
    def echo(self, value):
        return value

    @endpoint
    def keep(self, value):
        self.kept = value

    @endpoint
    def send_to(self, port, count):
        for number in range(count):
            port.send(number)

    @endpoint
    def call_peer(self, peer, count):
        return sum(peer.echo.call_one(number).get() for number in range(count))


class Slow(Actor):
    """Works longer on a message than it takes to send it."""

    @endpoint
    def take(self, data):
        sum(data[:20_000])

    @endpoint
    def rest(self):
        return None


class Traffic:
    """One step of each kind; each is called again and again by a thread of its own."""

    def __init__(self, processes):
        self.procs = this_host().spawn_procs({"gpus": processes}, name="workers")
        self.workers = self.procs.spawn("workers", Worker)
        self.first, self.last = self.workers.slice(gpus=0), self.workers.slice(gpus=processes - 1)
        self.slow = self.procs.spawn("slow", Slow).slice(gpus=0)
        self.failing = this_host().spawn_procs({"gpus": 2}, name="failing")
        self.mortals = self.failing.spawn("mortals", Worker)
        self.blob = os.urandom(1 << 20) * 8
        self.count = 0

    def pids(self):
        return [os.getpid(), *self.workers.pid.call().get(PATIENCE_S).values()]

    def calls(self):
        assert self.first.echo.call_one(7).get(PATIENCE_S) == 7
        assert len(self.workers.echo.call("all").get(PATIENCE_S)) == self.procs.size()

    def awaited_calls(self):
        async def all_of_them():
            return await asyncio.gather(*(self.last.echo.call_one(number) for number in range(50)))

        assert asyncio.run(all_of_them()) == list(range(50))

    def pipelined_calls(self):
        futures = [self.first.echo.call_one(number) for number in range(500)]
        assert [future.get(PATIENCE_S) for future in futures] == list(range(500))

    def casts(self):
        for number in range(500):
            self.workers.keep.broadcast(number)
        self.workers.echo.call(None).get(PATIENCE_S)

    def streams(self):
        assert len([future.get(PATIENCE_S) for future in self.workers.echo.stream("part")]) == self.procs.size()

    def ports(self):
        port, receiver = Channel.open()
        self.workers.send_to.broadcast(port, 100)
        for _ in range(100 * self.procs.size()):
            receiver.recv().get(PATIENCE_S)

    def payloads(self):
        for size in (100, 70_000, 1 << 20, 8 << 20):
            data = self.blob[:size]
            assert self.first.echo.call_one(data).get(PATIENCE_S) == data
            self.workers.keep.call(bytearray(data)).get(PATIENCE_S)

    def between_workers(self):
        assert self.first.call_peer.call_one(self.last, 50).get(PATIENCE_S) == sum(range(50))

    def flood(self):
        for _ in range(200):
            self.slow.take.broadcast(self.blob[: 256 << 10])
        self.slow.rest.call_one().get(PATIENCE_S)

    def comings_and_goings(self):
        actors = self.procs.spawn("passing", Worker)
        actors.echo.call(1).get(PATIENCE_S)
        actors.stop().get(PATIENCE_S)
        procs = this_host().spawn_procs({"gpus": 1}, name="passing")
        procs.spawn("passing", Worker).echo.call(1).get(PATIENCE_S)
        procs.stop().get(PATIENCE_S)

    def deaths(self):
        victim = self.mortals.slice(gpus=0).pid.call_one().get(PATIENCE_S)
        os.kill(victim, signal.SIGKILL)
        with contextlib.suppress(SupervisionError):
            self.mortals.slice(gpus=0).echo.call_one(1).get(PATIENCE_S)
        self.failing.respawn().get(PATIENCE_S)
        self.mortals.respawn().get(PATIENCE_S)
        assert len(self.mortals.echo.call(1).get(PATIENCE_S)) == 2

    KINDS = (
        calls,
        awaited_calls,
        pipelined_calls,
        casts,
        streams,
        ports,
        payloads,
        between_workers,
        flood,
        comings_and_goings,
        deaths,
    )


class Load:
    """The threads that keep all kinds of traffic going."""

    def __init__(self, traffic):
        self.is_over = threading.Event()
        self.steps = dict.fromkeys((kind.__name__ for kind in Traffic.KINDS), 0)
        self.failures = []
        self.threads = [threading.Thread(target=self.repeat, args=(traffic, kind)) for kind in Traffic.KINDS]
        for thread in self.threads:
            thread.start()

    def repeat(self, traffic, kind):
        while not self.is_over.is_set():
            try:
                kind(traffic)
            except Exception:
                self.failures.append(f"{kind.__name__}:\n{traceback.format_exc()}")
                return
            self.steps[kind.__name__] += 1

    def end(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def sample(pids):
    """What these processes have now, all together."""
    memory = descriptors = threads = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            memory += next(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) / 1e3
        descriptors += len(os.listdir(f"/proc/{pid}/fd"))
        threads += len(os.listdir(f"/proc/{pid}/task"))
    return {"memory_MB": memory, "descriptors": descriptors, "threads": threads}


def growth(times, values):
    """What a line through the second half rises by in that time, as a part of its mean, and a minute's worth of it."""
    times, values = times[len(times) // 2 :], values[len(values) // 2 :]
    slope = statistics.linear_regression(times, values).slope
    return slope * (times[-1] - times[0]) / statistics.mean(values), slope * 60


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--every", type=float, default=5, help="seconds between samples")
    args = parser.parse_args()
    if not os.path.exists("/proc/self/smaps_rollup"):
        sys.exit("soak.py reads /proc, which this system does not have")
    monarch.actor.unhandled_fault_hook = lambda failure: None  # those that are killed are replaced
    configure(send_window_bytes=16 << 20)
    traffic = Traffic(args.processes)
    pids = traffic.pids()
    load = Load(traffic)
    times, samples = [], []
    begin = time.monotonic()
    while time.monotonic() - begin < args.minutes * 60 and not load.failures:
        time.sleep(args.every)
        times.append(time.monotonic() - begin)
        samples.append(sample(pids))
        print(f"{times[-1]:7.0f} s", *(f"{name} {value:.0f}" for name, value in samples[-1].items()), flush=True)
    load.end()
    print("steps:", ", ".join(f"{kind} {count}" for kind, count in load.steps.items()))
    print("\n".join(load.failures), end="")
    status = 1 if load.failures else 0
    for name, most in MOST_GROWTH.items() if len(times) >= 4 else ():
        part, a_minute = growth(times, [sample[name] for sample in samples])
        print(
            f"{name}: {part:+.1%} over the second half, {a_minute:+.3f} a minute{'  <-- grows' if part > most else ''}"
        )
        status |= part > most
    traffic.failing.stop().get(PATIENCE_S)
    traffic.procs.stop().get(PATIENCE_S)
    return status


if __name__ == "__main__":
    sys.exit(main())
