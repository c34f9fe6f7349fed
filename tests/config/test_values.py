"""`monarch.config`: what a key's value is, where it comes from, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest
from monarch import config
from monarch.config import Encoding, configure, configured, explain, get_global_config, get_runtime_config


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for setting in explain():
        monkeypatch.delenv(setting.variable, raising=False)
    config.clear_runtime_config()
    yield
    config.clear_runtime_config()


def test_an_unknown_key_is_a_value_error_that_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="invalid configuration key: 'cleanup_timout'; did you mean 'cleanup_timeout'"):
        configure(cleanup_timout="3s")
    with pytest.raises(ValueError, match="invalid configuration key"):
        explain("no_such_key_at_all")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup_timeout", 3),
        ("cleanup_timeout", "soon"),
        ("cleanup_timeout", "3 parsecs"),
        ("cleanup_timeout", None),
        ("tail_log_lines", "20"),
        ("tail_log_lines", True),
        ("prefix_with_rank", 1),
        ("message_latency_sampling_rate", "often"),
        ("channel_tcp_congestion", 5),
        ("default_encoding", "Multipart"),
        ("default_transport", 4),
    ],
)
def test_a_value_of_another_type_is_a_type_error_that_names_key_and_value(key: str, value: object) -> None:
    with pytest.raises(TypeError, match=key) as caught:
        configure(**{key: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"), [("tail_log_lines", -1), ("max_cast_fanout", 0), ("default_transport", "carrier-pigeon")]
)
def test_a_value_out_of_range_is_a_value_error(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=key):
        configure(**{key: value})


def test_configure_sets_all_keys_or_none() -> None:
    with pytest.raises(TypeError):
        configure(tail_log_lines=5, cleanup_timeout=3)
    assert get_runtime_config() == {}


def test_code_beats_environment_beats_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def now() -> tuple[object, str]:
        setting = explain("tail_log_lines")
        return setting.value, setting.source

    assert now() == (20, "default")
    monkeypatch.setenv("HYPERACTOR_MESH_TAIL_LOG_LINES", "7")
    assert now() == (7, "environment")
    configure(tail_log_lines=3)
    assert now() == (3, "code")
    config.clear_runtime_config()
    assert now() == (7, "environment")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("90s", "1m 30s"),
        ("1h 30m", "1h 30m"),
        ("1500ms", "1s 500ms"),
        ("0s", "0s"),
        ("1.5s", "1s 500ms"),
        ("2days", "2d"),
    ],
)
def test_durations_are_kept_in_their_normal_form(given: str, kept: str) -> None:
    configure(cleanup_timeout=given)
    assert get_global_config()["cleanup_timeout"] == kept


def test_configured_puts_back_what_was_there() -> None:
    configure(tail_log_lines=3)
    with configured(tail_log_lines=4, cleanup_timeout="9s") as settings:
        assert (settings["tail_log_lines"], settings["cleanup_timeout"]) == (4, "9s")
        configure(prefix_with_rank=False)
    assert get_runtime_config() == {"tail_log_lines": 3, "prefix_with_rank": False}


def test_configured_puts_back_after_an_error_too() -> None:
    with pytest.raises(KeyError), configured(tail_log_lines=4):
        raise KeyError
    assert get_runtime_config() == {}


def test_the_runtime_layer_has_only_what_was_set() -> None:
    configure(default_encoding=Encoding.Json, tokio_worker_threads=None)
    assert get_runtime_config() == {"default_encoding": Encoding.Json, "tokio_worker_threads": None}
    assert get_global_config()["codec_max_frame_length"] == 10 << 30


@pytest.mark.parametrize(("text", "value"), [("1", True), ("True", True), ("0", False), ("no", False)])
def test_a_flag_is_read_from_the_usual_words(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    monkeypatch.setenv("HYPERACTOR_MESH_ENABLE_FILE_CAPTURE", text)
    assert (explain("enable_file_capture").value, explain("enable_file_capture").source) == (value, "environment")


def test_a_variable_that_cannot_be_read_is_ignored_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERACTOR_CLEANUP_TIMEOUT", "soon")
    with pytest.warns(UserWarning, match="HYPERACTOR_CLEANUP_TIMEOUT='soon' is ignored"):
        assert explain("cleanup_timeout").value == "3s"
    with warnings.catch_warnings():  # once is enough
        warnings.simplefilter("error")
        assert explain("cleanup_timeout").source == "default"


def test_explain_lists_every_key_and_marks_those_without_effect() -> None:
    settings = {setting.name: setting for setting in explain()}
    assert list(settings) == list(get_global_config())
    assert settings["cleanup_timeout"].has_effect
    assert "without effect here" not in repr(settings["cleanup_timeout"])
    assert not settings["message_ttl_default"].has_effect
    assert "without effect here" in repr(settings["message_ttl_default"])


def test_every_key_is_declared_once_with_a_default_of_its_kind_and_a_sentence() -> None:
    from monarch.config._table import KEYS

    variables = [key.variable for key in KEYS.values()]
    assert len(set(variables)) == len(variables)
    for key in KEYS.values():
        assert key.kind.check(key.default) == key.default, key.name
        assert key.doc.endswith("."), key.name


def test_an_unknown_variable_is_warned_of_once_with_the_nearest_name() -> None:
    code = "from monarch.actor import this_host; this_host(); this_host()"
    environment = {"PATH": "/usr/bin:/bin", "MONARCH_LOG_DIRR": "x", "MONARCH_WORKER": "y"}
    import monarch

    environment["PYTHONPATH"] = str(next(iter(monarch.__path__))).removesuffix("/monarch")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (
        done.stderr.count("MONARCH_LOG_DIRR is set, but Monarch has no such variable; did you mean MONARCH_LOG_DIR?")
        == 1
    )
    assert done.stderr.count("MONARCH_WORKER") == 0
