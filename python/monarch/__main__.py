"""`python -m monarch`: the `monarch` command."""

import sys

from monarch._cli import main

sys.exit(main())
