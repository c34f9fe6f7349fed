"""What pyproject.toml says, and what the build settings make of it."""

import re
from pathlib import Path

import pytest
from monarch_build.settings import Settings
from monarch_build.staging import describe, project_tree

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def project() -> str:
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_python_and_rust_sources_have_the_same_version(project: str) -> None:
    cargo = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    versions = [re.findall(r'(?m)^version = "(.*)"$', text) for text in (project, cargo)]
    assert versions[0] == versions[1] and len(versions[0]) == 1


def test_another_name_and_version_change_just_these_lines(project: str) -> None:
    described = describe(project, Settings(package_name="torchmonarch-nightly", version="0.8.0.dev20270131"))
    changed = set(described.splitlines()) - set(project.splitlines())
    assert changed == {'name = "torchmonarch-nightly"', 'version = "0.8.0.dev20270131"'}


def test_the_actors_only_flavour_has_no_torch_extra(project: str) -> None:
    described = describe(project, Settings(tensor_engine=False))
    assert set(project.splitlines()) - set(described.splitlines()) == {'torch = ["torch>=2.4", "numpy"]'}


def test_without_overrides_the_sources_are_built_where_they_are() -> None:
    with project_tree(ROOT, Settings(gpu_platform="rocm"), editable=False) as tree:
        assert tree == ROOT


def test_an_overridden_build_leaves_the_sources_alone_and_cleans_up(project: str) -> None:
    with project_tree(ROOT, Settings(version="9.9"), editable=False) as tree:
        assert tree != ROOT
        assert 'version = "9.9"' in (tree / "pyproject.toml").read_text(encoding="utf-8")
        assert not (tree / "target").exists()
    assert not tree.exists()
    assert (ROOT / "pyproject.toml").read_text(encoding="utf-8") == project


def test_an_editable_install_shows_the_sources_whatever_is_overridden() -> None:
    with project_tree(ROOT, Settings(version="9.9"), editable=True) as tree:
        described = (tree / "pyproject.toml").read_text(encoding="utf-8")
    assert f'python-source = "{ROOT / "python"}"' in described
