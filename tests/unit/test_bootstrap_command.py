"""The command that starts a worker, as a value."""

from __future__ import annotations

import pickle
import sys

from monarch.actor import BootstrapCommand, default_bootstrap_cmd


def test_the_default_is_this_interpreter_with_our_module() -> None:
    command = default_bootstrap_cmd()
    assert (command.program, command.arg0, command.env, command.inherit_env) == (sys.executable, None, {}, True)
    assert command.args == ["-m", "monarch._src.actor.bootstrap_main"]


def test_more_variables_make_another_command() -> None:
    command = BootstrapCommand("/bin/x", "x", ["-v"], {"KEPT": "1", "CHANGED": "1"})
    more = command.with_env({"CHANGED": "2", "REMOVED": None})
    assert more == BootstrapCommand("/bin/x", "x", ["-v"], {"KEPT": "1", "CHANGED": "2", "REMOVED": None})
    assert command.env == {"KEPT": "1", "CHANGED": "1"}


def test_it_travels() -> None:
    command = BootstrapCommand("/bin/x", None, ["-v"], {"A": "1"}, inherit_env=False)
    assert pickle.loads(pickle.dumps(command)) == command


def test_its_repr_shows_no_values_of_variables() -> None:
    shown = repr(BootstrapCommand("/bin/x", None, [], {"TOKEN": "secret", "GONE": None}))
    assert "TOKEN, -GONE" in shown and "secret" not in shown
