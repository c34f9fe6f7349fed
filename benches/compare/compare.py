"""Run the workloads on two interpreters in turn and print medians and ratios.

    python compare.py --ours .venv/bin/python --peer peer-venv/bin/python [--runs 3] [latency fan_out:8 ...]

A workload may carry its size after a colon, and end in ``@1`` to run client and workers on one core.
The two interpreters run A B A B …, so that a drift of the machine's speed meets both. A ratio above 1 means that ours
is better, whatever the unit. Exit status 1 if a measurement of ours is missing.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DEFAULT = (
    "floor",
    "floor@1",
    "import_time",
    "spawn:1",
    "spawn:8",
    "spawn:32",
    "spawn_torch:8",
    "idle:8",
    "whole_program:8",
    "latency",
    "latency@1",
    "async_client",
    "fan_out:8",
    "fan_out:32",
    "ports",
    "many_actors:100",
    "payload",
    "failure",
    "supervise",
    "recover:8",
    "rdma",
    "tensors:2",
)


def run(python, workload, torch, timeout):
    workload, _, cores = workload.partition("@")
    name, _, size = workload.partition(":")
    command = [python, os.path.join(HERE, "workloads.py"), name]
    if cores == "1":
        command += ["--one-core"]
    if size:
        command += ["--n", size]
    if torch and name == "payload":
        command += ["--torch"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None, f"no answer in {timeout} s"
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:]), None
    return None, (done.stderr.strip().splitlines() or ["it printed nothing"])[-1][:160]


def better(metric, ours, peer):
    more_is_better = metric.removesuffix("_one_core").endswith(("_per_s", "_GBps"))
    if not ours or not peer:
        return math.nan
    return ours / peer if more_is_better else peer / ours


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", required=True, help="interpreter with this package")
    parser.add_argument("--peer", help="interpreter with the package to compare with; none: ours alone")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=240, help="seconds for one run of one workload")
    parser.add_argument("--torch", action="store_true", help="payload: time CPU tensors too")
    parser.add_argument("--json", help="write all samples here")
    parser.add_argument("workloads", nargs="*", default=DEFAULT)
    args = parser.parse_args()

    sides = {"ours": args.ours, **({"peer": args.peer} if args.peer else {})}
    everything, gaps = {}, 0
    for workload in args.workloads:
        samples = {side: {} for side in sides}
        for _ in range(args.runs):
            for side, python in sides.items():
                result, why = run(python, workload, args.torch, args.timeout)
                if result is None:
                    print(f"# {workload} on {side}: {why}", flush=True)
                    gaps += side == "ours"
                    continue
                for metric, value in result.items():
                    samples[side].setdefault(metric, []).append(value)
        for metric in dict.fromkeys(m for side in samples.values() for m in side):
            medians = {side: statistics.median(found[metric]) for side, found in samples.items() if metric in found}
            gaps += "ours" not in medians
            ratio = better(metric, medians.get("ours"), medians.get("peer"))
            shown = "  ".join(f"{side} {medians.get(side, math.nan):>12.4g}" for side in sides)
            print(f"{metric:<44} {shown}  {'' if math.isnan(ratio) else f'ours is {ratio:.2f}x'}", flush=True)
            everything[metric] = {side: found.get(metric) for side, found in samples.items()}
    if args.json:
        with open(args.json, "w") as out:
            json.dump(everything, out, indent=1)
    if gaps:
        print(f"# {gaps} measurements of ours are missing")
    return bool(gaps)


if __name__ == "__main__":
    sys.exit(main())
