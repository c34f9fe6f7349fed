"""Entry point of worker processes: `python -m monarch._src.actor.bootstrap_main FD`."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from monarch._actor.worker import main

    sys.exit(main(int(sys.argv[1])))
