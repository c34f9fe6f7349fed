"""The build settings: environment variables, read once into a value that cannot be wrong."""

import re
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

GPU_PLATFORMS = ("cuda", "rocm", "none")


class SettingsError(ValueError):
    """A build setting has a value that it cannot have; the text names the setting, the value and what is allowed."""


@dataclass(frozen=True)
class Settings:
    """What to build. `None` means: as `pyproject.toml` and the native core say."""

    package_name: str | None = None
    version: str | None = None
    gpu_platform: str | None = None
    tensor_engine: bool = True
    portable: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Read the settings; an empty variable counts as one that is not set. Raises `SettingsError`."""

        def setting(name: str) -> str | None:
            return environment.get(name, "").strip() or None

        return cls(
            package_name=_package_name(setting("MONARCH_PACKAGE_NAME")),
            version=_version(setting("MONARCH_VERSION")),
            gpu_platform=_gpu_platform(setting("MONARCH_GPU_PLATFORM")),
            tensor_engine=_switch("USE_TENSOR_ENGINE", setting("USE_TENSOR_ENGINE"), default=True),
            portable=_switch("MONARCH_PORTABLE", setting("MONARCH_PORTABLE"), default=False),
        )

    @property
    def environment(self) -> dict[str, str]:
        """What the native core reads when it is compiled, in its normal spelling."""
        values = {"MONARCH_VERSION": self.version, "MONARCH_GPU_PLATFORM": self.gpu_platform}
        return {name: value for name, value in values.items() if value is not None}


def cargo_arguments(settings: Settings) -> list[str]:
    """The features of the native core, for these settings and this interpreter."""
    features = [
        name
        for name, wanted in {
            "abi3": _has_buffers_in_limited_api(),
            "tensor-engine": settings.tensor_engine,
            "portable": settings.portable,
        }.items()
        if wanted
    ]
    return ["--no-default-features", "--features", ",".join(features)] if features else ["--no-default-features"]


def _has_buffers_in_limited_api() -> bool:
    """Whether one abi3 binary can serve this interpreter.

    The limited API has the buffer protocol from CPython 3.11 on; free-threaded builds do not offer that API.
    """
    return (
        sys.implementation.name == "cpython"
        and sys.version_info >= (3, 11)
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
    )


def _package_name(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", value):
        raise SettingsError(
            f"MONARCH_PACKAGE_NAME is `{value}`, which is no distribution name: use letters, digits, `.`, `_` and `-`, "
            "with a letter or digit at both ends"
        )
    return value


def _version(value: str | None) -> str | None:
    if value is None:
        return None
    if value[0] in "vV":
        raise SettingsError(f"MONARCH_VERSION is `{value}`: write it without the `{value[0]}`, as `{value[1:]}`")
    try:
        return str(Version(value))
    except InvalidVersion:
        raise SettingsError(
            f"MONARCH_VERSION is `{value}`, which is no Python version (PEP 440): "
            "write it like `0.8.0`, or `0.8.0.dev20270131` for a nightly build"
        ) from None


def _gpu_platform(value: str | None) -> str | None:
    if value is not None and value not in GPU_PLATFORMS:
        raise SettingsError(f"MONARCH_GPU_PLATFORM is `{value}`: it must be `cuda`, `rocm` or `none`")
    return value


def _switch(name: str, value: str | None, *, default: bool) -> bool:
    if value is None:
        return default
    if value not in ("0", "1"):
        raise SettingsError(f"{name} is `{value}`: it must be `0` or `1`")
    return value == "1"
