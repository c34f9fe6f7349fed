"""Count the instructions of the inner parts of a message's way, and compare them with those on record.

    python count.py [--record] [WORKLOAD ...]

Each workload of `rust/hyperactor/benches/instructions.rs` runs in callgrind, once and with twice as much to do; the
difference is what it costs each time. Exit status 1 if one of them takes a tenth more than `counts.json` says.
`--record` writes what was counted there, after a change for the better as well: the next change is held to it.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RECORD = HERE / "counts.json"
TOLERANCE = 0.10
TIMES = 300


def build() -> str:
    """The program with the workloads, as optimised as what is shipped."""
    command = ["cargo", "bench", "--locked", "--package", "hyperactor", "--bench", "instructions", "--no-run"]
    lines = subprocess.run(
        [*command, "--message-format=json-render-diagnostics"],
        cwd=HERE.parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.splitlines()
    return str(next(path for path in (json.loads(line).get("executable") for line in reversed(lines)) if path))


def instructions(program: str, workload: str, times: int) -> int:
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    run = subprocess.run([*valgrind, program, workload, str(times)], capture_output=True, text=True)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or collected is None:
        sys.exit(f"{workload} did not run to its end:\n{run.stderr}")
    return int(collected[1])


def count(program: str, workload: str) -> int:
    once, twice = (instructions(program, workload, times) for times in (TIMES, 2 * TIMES))
    return round((twice - once) / TIMES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="only these")
    parser.add_argument("--record", action="store_true", help="write the counts to counts.json")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("instructions are not counted: there is no valgrind here")
        return 0
    program = build()
    known = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    if unknown := set(arguments.workloads) - set(known):
        parser.error(f"there is no workload {', '.join(sorted(unknown))}; there are {', '.join(known)}")

    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    status = 0
    for workload in arguments.workloads or known:
        counted, before = count(program, workload), record.get(workload)
        change = None if before is None else counted / before - 1
        is_dearer = change is None or change > TOLERANCE
        shown = "not on record" if change is None else f"{change:+.1%}"
        mark = "  <--" if is_dearer and not arguments.record else ""
        print(f"{workload:42} {counted:12,}  {shown}{mark}", flush=True)
        status |= is_dearer
        record[workload] = counted
    if arguments.record:
        RECORD.write_text(json.dumps({name: record[name] for name in known if name in record}, indent=2) + "\n")
        return 0
    if status:
        print("what takes more than a tenth more has to be mended, or put on record with its reason: count.py --record")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
