"""The tree that maturin builds: the sources themselves, or a copy that describes another project."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .settings import Settings

# What the actors-only flavour leaves out. The packages' `__init__.py` stay: they say how to get the rest.
TENSOR_ENGINE_PACKAGES = ("rdma", "tensor")

# Neither sources nor small: what builds, tests and tools leave behind.
LEFTOVERS = shutil.ignore_patterns(
    "target", "dist", "wheelhouse", ".git", ".venv*", ".*_cache", "__pycache__", "*.so", "*.egg-info"
)


@contextmanager
def project_tree(root: Path, settings: Settings, *, editable: bool) -> Iterator[Path]:
    """The tree for these settings. An editable install of it always shows the Python sources below `root`."""
    if settings.package_name is None and settings.version is None and settings.tensor_engine:
        yield root
        return
    with tempfile.TemporaryDirectory(prefix="monarch-build-") as folder:
        tree = Path(folder) / "source"
        shutil.copytree(root, tree, ignore=LEFTOVERS)
        project = tree / "pyproject.toml"
        described = describe(project.read_text(encoding="utf-8"), settings)
        if editable:
            described = _replace(described, r'python-source = "python"', f'python-source = "{root / "python"}"')
        elif not settings.tensor_engine:
            _remove_tensor_engine(tree / "python" / "monarch")
        project.write_text(described, encoding="utf-8")
        yield tree


def describe(project: str, settings: Settings) -> str:
    """The text of `pyproject.toml`, changed to describe the project of these settings."""
    if settings.package_name is not None:
        project = _replace(project, r'(?m)^name = ".*"$', f'name = "{settings.package_name}"')
    if settings.version is not None:
        project = _replace(project, r'(?m)^version = ".*"$', f'version = "{settings.version}"')
    if not settings.tensor_engine:
        project = _replace(project, r"(?<=\n\[project\.optional-dependencies\]\n)torch = .*\n", "")
    return project


def _remove_tensor_engine(package: Path) -> None:
    for name in TENSOR_ENGINE_PACKAGES:
        for path in (package / name).glob("*"):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "__init__.py":
                path.unlink()


def _replace(text: str, pattern: str, replacement: str) -> str:
    """Replace the one place that matches; more or none means that the file no longer has the form known here."""
    changed, count = re.subn(pattern, lambda _: replacement, text)
    if count != 1:
        raise RuntimeError(f"pyproject.toml has {count} lines like `{pattern}`; the build backend expects one")
    return changed
