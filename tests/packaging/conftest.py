"""The build backend, importable as a build front end would import it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "build_backend"))
