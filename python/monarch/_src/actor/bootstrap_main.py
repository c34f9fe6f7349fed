"""Entry point of worker processes: `python -m monarch._src.actor.bootstrap_main [FD]`.

The control socket is descriptor 3 where none is named, as in commands that users write.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if sys.version_info < (3, 11):
        # There `-m` puts the working directory first, whatever PYTHONSAFEPATH says.
        del sys.path[0]

    from monarch._actor.worker import main

    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
