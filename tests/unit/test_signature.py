"""The check of arguments at the caller says what Python's own call would."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from monarch._actor.signature import Signature


def plain(self, a, b=2): ...
def keyword_only(self, a, *, b, c=3): ...
def positional_only(self, a, b=2, /, c=3): ...
def variadic(self, a, *rest, b=2): ...
def open_ended(self, a, **others): ...
def anything(*args, **kwargs): ...
def nothing(self): ...


def passing_through(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


FUNCTIONS = [
    plain,
    keyword_only,
    positional_only,
    variadic,
    open_ended,
    anything,
    nothing,
    passing_through(passing_through(keyword_only)),
    functools.partial(plain, b=7),
]


def accepts(check: Callable[[], object]) -> bool:
    try:
        check()
    except TypeError:
        return False
    return True


@given(
    st.sampled_from(FUNCTIONS),
    st.lists(st.none(), max_size=4).map(tuple),
    st.dictionaries(st.sampled_from(["a", "b", "c", "self", "zz"]), st.none()),
)
def test_accepts_exactly_what_the_function_accepts(
    function: Callable[..., Any], args: tuple[None, ...], kwargs: dict[str, None]
) -> None:
    signature = Signature.of(function)
    assert accepts(lambda: signature.check(args, kwargs)) == accepts(lambda: function(None, *args, **kwargs))


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "trainers.train(): missing a required argument: 'a'"),
        ((1, 2, 3), {}, "trainers.train(): too many positional arguments"),
        ((1,), {"zz": 1}, "trainers.train(): got an unexpected keyword argument 'zz'"),
        ((1,), {"a": 1}, "trainers.train(): multiple values for argument 'a'"),
    ],
)
def test_says_which_endpoint_and_what_is_wrong(args: tuple[int, ...], kwargs: dict[str, int], text: str) -> None:
    with pytest.raises(TypeError) as caught:
        Signature.of(plain).check(args, kwargs, "trainers.train")
    assert str(caught.value) == text


def test_without_a_name_says_the_name_of_the_function() -> None:
    with pytest.raises(TypeError, match=r"plain\(\): missing a required argument: 'a'"):
        Signature.of(plain).check((), {})


def test_skips_what_the_runtime_fills_in() -> None:
    signature = Signature.of(plain, skip=2)
    assert signature.parameters == ("b",)
    signature.check((), {})
    signature.check((1,), {})
    with pytest.raises(TypeError):
        signature.check((1, 2), {})
    with pytest.raises(TypeError):
        signature.check((), {"a": 1})


def test_names_the_positional_parameters() -> None:
    assert Signature.of(plain).parameters == ("a", "b")
    assert Signature.of(keyword_only).parameters == ("a",)
    assert Signature.of(passing_through(plain)).parameters == ("a", "b")
    assert Signature.of(functools.partial(plain, 1), skip=0).parameters == ("a", "b")
    assert Signature.of(anything).parameters == ()


def test_a_class_without_a_constructor_takes_no_arguments() -> None:
    class Bare: ...

    signature = Signature.of(Bare.__init__)
    signature.check((), {})
    with pytest.raises(TypeError, match=r"Bare\(\): too many positional arguments"):
        signature.check((1,), {}, "Bare")


def test_a_builtin_that_does_not_tell_takes_anything() -> None:
    Signature.of(max, skip=0).check((1, 2, 3), {"key": None})


def test_a_declared_signature_wins() -> None:
    import inspect

    def declared(*args: Any, **kwargs: Any) -> None: ...

    declared.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        Signature.of(declared).check((), {})
