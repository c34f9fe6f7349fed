"""What it costs a worker that its output is shown: its throughput with and without, and the time of calls beside it.

    python printing.py [--workers 1] [--hosts 0] [--lines 50000] [--rounds 9] > /dev/null

With `--hosts` the workers are on so many other hosts: worker programs on this machine, reached by TCP. Rounds with and
without forwarding alternate, so that a drift of the machine's speed meets both; medians and their ratio are printed on
standard error. The lines themselves go to standard output, and how fast that takes them is part of the measurement.
"""

import argparse
import statistics
import subprocess
import sys
import threading
import time

from monarch.actor import Actor, attach_to_workers, endpoint, this_host


class Printer(Actor):
    """Prints as fast as it can."""

    @endpoint
    def lines(self, count):
        """Lines a second, as the worker itself sees it."""
        begin = time.perf_counter()
        for number in range(count):
            print(f"step {number}: loss {number / count:.4f}, a line as programs print them")
        return count / (time.perf_counter() - begin)


class Quiet(Actor):
    """Answers calls."""

    @endpoint
    def nop(self):
        return None


def start_hosts(count):
    """Worker programs on this machine, and their addresses."""
    command = [sys.executable, "-m", "monarch", "worker", "--listen", "tcp://127.0.0.1:0"]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    return programs, [program.stdout.readline().split()[-1] for program in programs]


def call_time_us(quiet):
    """The median of some calls."""
    samples = []
    for _ in range(200):
        begin = time.perf_counter()
        quiet.nop.call_one().get()
        samples.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(samples)


def one_round(procs, printer, quiet, lines, shown):
    """Throughput of all workers together, and the time of a call meanwhile."""
    procs.logging_option(stream_to_client=shown).get()
    speeds = []
    printing = printer.lines.call(lines)
    done = threading.Thread(target=lambda: speeds.extend(speed for _, speed in printing.get().items()))
    done.start()
    times = [call_time_us(quiet)]
    while done.is_alive():
        times.append(call_time_us(quiet))
    done.join()
    return sum(speeds), statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=1, help="on each host")
    parser.add_argument("--hosts", type=int, default=0, help="other hosts; 0: this one")
    parser.add_argument("--lines", type=int, default=50_000, help="of each worker in a round")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()

    programs, addresses = start_hosts(args.hosts)
    hosts = attach_to_workers(ca="trust_all_connections", workers=addresses) if addresses else this_host()
    procs = hosts.spawn_procs({"gpus": args.workers}, name="printers")
    printer = procs.spawn("printer", Printer)
    first = {"gpus": 0, "hosts": 0} if addresses else {"gpus": 0}
    quiet = hosts.spawn_procs({"gpus": 1}, name="quiet").spawn("quiet", Quiet).slice(**first)

    one_round(procs, printer, quiet, args.lines // 10, shown=True)
    found = {shown: [] for shown in (False, True)}
    for _ in range(args.rounds):
        for shown, samples in found.items():
            samples.append(one_round(procs, printer, quiet, args.lines, shown))
    silent, shown = ([statistics.median(column) for column in zip(*found[key], strict=True)] for key in (False, True))
    ratio = shown[0] / silent[0]
    print(f"lines a second: {silent[0]:.0f} not shown, {shown[0]:.0f} shown, {ratio:.3f}", file=sys.stderr)
    print(f"a call beside it: {silent[1]:.0f} us, {shown[1]:.0f} us, {shown[1] / silent[1]:.2f}", file=sys.stderr)
    if addresses:
        hosts.shutdown().get()
    for program in programs:
        program.wait()
        program.stdout.close()


if __name__ == "__main__":
    main()
