"""A wheel of another flavour, name and version, built the way a front end builds it, and installed."""

import email
import os
import subprocess
import sys
import zipfile
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.builds, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An actors-only nightly wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    settings = {
        "USE_TENSOR_ENGINE": "0",
        "MONARCH_GPU_PLATFORM": "rocm",
        "MONARCH_PACKAGE_NAME": "torchmonarch-nightly",
        "MONARCH_VERSION": "0.8.0.dev20270131",
        "PYTHONPATH": str(ROOT / "build_backend"),
    }
    subprocess.run(
        [sys.executable, "-c", f"import monarch_build; monarch_build.build_wheel({str(folder)!r})"],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **settings},
        check=True,
        cwd=ROOT,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def python(installed: Path, code: str) -> str:
    """What a fresh interpreter prints that sees this installation first."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_the_wheel_has_at_most_15_megabytes(wheel: Path) -> None:
    assert wheel.stat().st_size <= 15_000_000


def test_the_wheel_serves_this_python_or_it_and_all_newer_ones(wheel: Path) -> None:
    tag = "cp310-cp310" if sys.version_info < (3, 11) else "cp311-abi3"
    assert f"-{tag}-" in wheel.name


def test_name_and_version_are_as_asked_for(wheel: Path, metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("torchmonarch-nightly", "0.8.0.dev20270131")
    assert wheel.name.startswith("torchmonarch_nightly-0.8.0.dev20270131-")


def test_the_actors_only_wheel_never_asks_for_torch(metadata: Message) -> None:
    assert metadata.get_all("Requires-Dist") == ["cloudpickle>=3.0"]
    assert metadata.get_all("Provides-Extra") is None


def test_the_actors_only_wheel_has_no_tensor_or_rdma_modules(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(("monarch/rdma", "monarch/tensor"))]
    assert names == ["monarch/rdma/__init__.py"]


def test_the_native_core_knows_how_it_was_built(installed: Path) -> None:
    code = "from monarch._native import build_info; print(sorted(build_info().items()))"
    info = python(installed, code)
    assert "('version', '0.8.0.dev20270131')" in info
    assert "('gpu_platform', 'rocm')" in info
    assert "('tensor_engine', '0')" in info


def test_importing_rdma_from_the_actors_only_flavour_says_how_to_get_it(installed: Path) -> None:
    code = "try: import monarch.rdma\nexcept ImportError as error: print(error)"
    text = python(installed, code)
    assert "monarch.rdma is not in the actors-only flavour" in text
    assert "build it again without USE_TENSOR_ENGINE=0" in text


def test_the_actors_only_flavour_has_the_actor_api(installed: Path) -> None:
    assert python(installed, "import monarch.actor; print(monarch.actor.__file__)").startswith(str(installed))


def test_a_refused_setting_ends_the_build_with_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import monarch_build; monarch_build.build_wheel('unused')"],
        env={**os.environ, "MONARCH_VERSION": "v0.8.0", "PYTHONPATH": str(ROOT / "build_backend")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == "error: MONARCH_VERSION is `v0.8.0`: write it without the `v`, as `0.8.0`\n"
