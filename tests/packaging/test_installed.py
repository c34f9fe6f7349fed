"""The installed package: what it weighs, what importing it brings along, what it says about itself."""

import importlib.metadata
import subprocess
import sys

import pytest

MEGABYTE = 1_000_000


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_the_readme_check_prints_its_line() -> None:
    code = "from monarch import actor; print('Monarch installed successfully')"
    assert python(code) == "Monarch installed successfully"


@pytest.mark.parametrize("module", ["torch", "numpy", "asyncio", "cloudpickle"])
def test_importing_the_actor_api_does_not_import(module: str) -> None:
    assert python(f"import sys, monarch.actor; print({module!r} in sys.modules)") == "False"


def test_the_installed_package_has_at_most_40_megabytes() -> None:
    files = importlib.metadata.files("torchmonarch") or []
    sizes = [file.locate().stat().st_size for file in files]
    assert sizes and sum(sizes) <= 40 * MEGABYTE


def test_type_checkers_see_the_types() -> None:
    names = {str(file) for file in importlib.metadata.files("torchmonarch") or []}
    assert {"monarch/py.typed", "monarch/_native.pyi"} <= names


def test_the_native_core_has_the_version_of_the_distribution() -> None:
    reported = python("from monarch._native import build_info; print(build_info()['version'])")
    assert reported == importlib.metadata.version("torchmonarch")


def test_torch_comes_only_with_its_extra() -> None:
    required = importlib.metadata.requires("torchmonarch") or []
    assert [line for line in required if "extra" not in line] == ["cloudpickle>=3.0"]
    assert any(line.startswith("torch>=") and "extra == 'torch'" in line.replace('"', "'") for line in required)


def test_one_sided_memory_is_there_without_pytorch() -> None:
    code = "import sys, monarch.rdma; print(monarch.rdma.get_rdma_backend(), 'torch' in sys.modules)"
    assert python(code) in ("tcp False", "none False")
