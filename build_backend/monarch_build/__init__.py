"""The build backend (PEP 517 and 660): maturin, told what the build settings ask for.

maturin builds the project that `pyproject.toml` describes. The settings (`settings.py`) may ask for another name or
version, or leave modules out; then it builds a copy of the sources that describes that project (`staging.py`).
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import maturin

from .settings import Settings, SettingsError, cargo_arguments
from .staging import project_tree

ConfigSettings = Mapping[str, Any] | None

ROOT = Path(__file__).resolve().parents[2]

get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
get_requires_for_build_editable = maturin.get_requires_for_build_editable


def get_requires_for_build_wheel(config_settings: ConfigSettings = None) -> list[str]:
    required: list[str] = maturin.get_requires_for_build_wheel(config_settings)
    # The linker that knows the C libraries of older Linux systems; a release needs it, a local build does not.
    return [*required, "ziglang"] if "--zig" in maturin.get_maturin_pep517_args(config_settings) else required


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: ConfigSettings = None) -> str:
    return _build(maturin.prepare_metadata_for_build_wheel, metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: ConfigSettings = None) -> str:
    return _build(maturin.prepare_metadata_for_build_editable, metadata_directory, config_settings, editable=True)


def build_wheel(
    wheel_directory: str, config_settings: ConfigSettings = None, metadata_directory: str | None = None
) -> str:
    return _build(maturin.build_wheel, wheel_directory, config_settings)


def build_editable(
    wheel_directory: str, config_settings: ConfigSettings = None, metadata_directory: str | None = None
) -> str:
    return _build(maturin.build_editable, wheel_directory, config_settings, editable=True)


def build_sdist(sdist_directory: str, config_settings: ConfigSettings = None) -> str:
    return _build(maturin.build_sdist, sdist_directory, config_settings)


def _build(
    hook: Callable[[str, dict[str, Any]], str],
    directory: str,
    config_settings: ConfigSettings,
    *,
    editable: bool = False,
) -> str:
    """Run one hook of maturin where, and with the arguments that, the settings ask for."""
    settings = _settings()
    os.environ.update(settings.environment)
    # Whatever tree is built, it shares the compiled dependencies of this one.
    os.environ.setdefault("CARGO_TARGET_DIR", str(ROOT / "target"))
    wanted = maturin.get_maturin_pep517_args(config_settings)
    arguments = {"maturin.build-args": [*cargo_arguments(settings), *wanted]}
    directory = os.path.abspath(directory)
    with project_tree(ROOT, settings, editable=editable) as tree:
        os.chdir(tree)
        try:
            return hook(directory, arguments)
        finally:
            os.chdir(ROOT)


def _settings() -> Settings:
    try:
        return Settings.from_environment(os.environ)
    except SettingsError as error:
        # A build front end shows what a failed build wrote last: the sentence, then, and no traceback.
        sys.exit(f"error: {error}")
