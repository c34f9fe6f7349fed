"""Actors that write, in every way there is."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading

from monarch.actor import Actor, ProcMesh, current_rank, endpoint, this_host


class Printer(Actor):
    @endpoint
    def say(self, text: str) -> None:
        print(text)

    @endpoint
    def complain(self, text: str) -> None:
        print(text, file=sys.stderr)

    @endpoint
    def say_own(self, texts: list[str]) -> None:
        print(texts[current_rank().rank])

    @endpoint
    def write(self, descriptor: int, data: bytes) -> None:
        os.write(descriptor, data)

    @endpoint
    def run(self, command: str) -> None:
        subprocess.run(command, shell=True, check=True)

    @endpoint
    def say_by_c(self, text: str) -> None:
        import ctypes

        ctypes.CDLL(None).printf(b"%s\n", text.encode())

    @endpoint
    def die(self, last_words: str) -> None:
        sys.stdout.write(last_words)
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    @endpoint
    def log(self, level: int, text: str, *values: object) -> None:
        logging.getLogger("printing").log(level, text, *values)

    @endpoint
    def log_by_own(self, text: str) -> None:
        self.logger.info(text)

    @endpoint
    def log_by_basic_config(self, text: str) -> None:
        logging.basicConfig(format="MINE %(message)s", force=True)
        logging.getLogger("printing").info(text)

    @endpoint
    def log_by_thread(self, text: str) -> None:
        thread = threading.Thread(target=logging.getLogger("printing").info, args=(text,))
        thread.start()
        thread.join()

    @endpoint
    def start_own(self) -> None:
        self.procs: ProcMesh = this_host().spawn_procs(name="inner")
        self.inner = self.procs.spawn("inner", Printer)
        self.inner.say.call_one("from a worker's worker").get()

    @endpoint
    def count(self, lines: int) -> None:
        """Numbered lines, each flushed, alternately on both streams."""
        rank = current_rank().rank
        for number in range(lines):
            print(f"rank {rank} line {number}", file=sys.stderr if number % 2 else sys.stdout)

    @endpoint
    def count_and_die(self, lines: int) -> None:
        rank = current_rank().rank
        for number in range(lines):
            print(f"rank {rank} line {number}", file=sys.stderr if number % 2 else sys.stdout)
        os.kill(os.getpid(), signal.SIGKILL)

    @endpoint
    def kill_host_program(self) -> None:
        """Kill what looks after this process's host: the parent of the keeper."""
        with open(f"/proc/{os.getppid()}/status") as status:
            program = next(line.split()[1] for line in status if line.startswith("PPid:"))
        os.kill(int(program), signal.SIGKILL)
        signal.pause()
