"""The build settings: what they accept, and how they refuse the rest."""

import pytest
from monarch_build.settings import Settings, SettingsError, cargo_arguments


def test_without_variables_nothing_is_overridden() -> None:
    assert Settings.from_environment({}) == Settings()
    assert Settings.from_environment({"MONARCH_VERSION": "", "USE_TENSOR_ENGINE": ""}) == Settings()


@pytest.mark.parametrize("version", ["0.8.0", "0.8.0.dev20270131", "0.9.0rc1", "1.0+local.2"])
def test_versions_of_pep_440_are_accepted(version: str) -> None:
    settings = Settings.from_environment({"MONARCH_VERSION": version})
    assert settings.version == version
    assert settings.environment == {"MONARCH_VERSION": version}


def test_the_version_reaches_the_native_core_in_its_normal_spelling() -> None:
    settings = Settings.from_environment({"MONARCH_VERSION": "0.8.0-dev20270131"})
    assert settings.environment["MONARCH_VERSION"] == "0.8.0.dev20270131"


def test_a_leading_v_is_refused_with_the_right_spelling() -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_environment({"MONARCH_VERSION": "v0.8.0"})
    assert str(refused.value) == "MONARCH_VERSION is `v0.8.0`: write it without the `v`, as `0.8.0`"


def test_what_is_no_version_is_refused_with_an_example() -> None:
    with pytest.raises(SettingsError, match=r"`nightly`, which is no Python version .* `0\.8\.0\.dev20270131`"):
        Settings.from_environment({"MONARCH_VERSION": "nightly"})


@pytest.mark.parametrize("platform", ["cuda", "rocm", "none"])
def test_the_three_gpu_platforms_reach_the_native_core(platform: str) -> None:
    settings = Settings.from_environment({"MONARCH_GPU_PLATFORM": platform})
    assert settings.environment == {"MONARCH_GPU_PLATFORM": platform}


@pytest.mark.parametrize("platform", ["metal", "CUDA"])
def test_another_gpu_platform_is_refused_naming_the_three(platform: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_environment({"MONARCH_GPU_PLATFORM": platform})
    assert str(refused.value) == f"MONARCH_GPU_PLATFORM is `{platform}`: it must be `cuda`, `rocm` or `none`"


@pytest.mark.parametrize("name", ["USE_TENSOR_ENGINE", "MONARCH_PORTABLE"])
def test_a_switch_is_0_or_1(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is `yes`: it must be `0` or `1`"):
        Settings.from_environment({name: "yes"})


@pytest.mark.parametrize("name", ["-monarch", "torch monarch", "monarch/x"])
def test_a_name_that_no_index_would_take_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"MONARCH_PACKAGE_NAME is `.*`, which is no distribution name"):
        Settings.from_environment({"MONARCH_PACKAGE_NAME": name})


def test_the_actors_only_flavour_compiles_without_the_tensor_engine() -> None:
    assert "tensor-engine" in cargo_arguments(Settings())[-1].split(",")
    assert "tensor-engine" not in cargo_arguments(Settings(tensor_engine=False))[-1].split(",")


def test_the_portable_layer_is_a_feature_of_the_native_core() -> None:
    assert "portable" in cargo_arguments(Settings(portable=True))[-1].split(",")
    assert "portable" not in cargo_arguments(Settings())[-1].split(",")
