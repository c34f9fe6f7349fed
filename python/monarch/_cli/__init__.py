"""The `monarch` command."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status. What a user got wrong is one line on standard error."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.run is None:
        parser.print_help()
        return 1
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return 130
    except (OSError, ValueError) as error:
        print(f"monarch: error: {_text(error)}", file=sys.stderr)
        return 1


def _parser() -> ArgumentParser:
    from argparse import SUPPRESS, ArgumentParser

    from monarch._native import __version__

    parser = ArgumentParser("monarch", description="One program that drives a whole cluster. See docs/clusters.md.")
    parser.add_argument("--version", action="version", version=f"monarch {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    worker = commands.add_parser("worker", help="be a host, on which a client starts processes", description=_WORKER)
    worker.add_argument("--listen", required=True, metavar="ADDRESS", help="tcp://HOST:PORT, tcp://*:PORT, ipc:///PATH")
    worker.add_argument("--key-file", metavar="FILE", help="the cluster key; default: see docs/clusters.md")
    worker.add_argument("--name", metavar="NAME", help="what the host is called in messages; default: its hostname")
    worker.add_argument("--idle-timeout", type=float, metavar="SECONDS", help="end when no client comes for so long")
    worker.add_argument("--with-process", type=int, metavar="PID", help="end when this process of the machine ends")
    worker.add_argument("--quiet", action="store_true", help="say nothing but warnings and errors")
    worker.add_argument("--job-directory", metavar="DIRECTORY", help=SUPPRESS)
    worker.set_defaults(run=_worker)

    key = commands.add_parser("key", help="make a cluster key")
    key_commands = key.add_subparsers(title="commands", metavar="COMMAND", required=True)
    create = key_commands.add_parser("create", help="make a new key, in a file that only this user may read")
    create.add_argument("path", nargs="?", metavar="PATH", help="default: where clients and workers look for it")
    create.set_defaults(run=_create_key)
    return parser


_WORKER = """Listens at ADDRESS and serves one client after the other, each as long as it likes. Ends with status 0 when
a client shuts the host down. Over TCP it demands the cluster key."""


def _worker(options: Namespace) -> int:
    from monarch._cli.worker import run

    return run(
        options.listen,
        options.key_file,
        name=options.name,
        idle_timeout_s=options.idle_timeout,
        with_process=options.with_process,
        job_directory=options.job_directory,
        quiet=options.quiet,
    )


def _create_key(options: Namespace) -> int:
    from monarch import _native
    from monarch._actor.hosts.keys import default_path

    path = options.path or default_path()
    _native.ClusterKey.create(path)
    print(f"made the cluster key {path}; copy it to every host, readable by its user only (mode 0600)")
    return 0


def _text(error: BaseException) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
