"""Test doubles: another class, or another tensor engine, for as long as a test wants it."""

from __future__ import annotations

from monarch._actor import mocking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from typing_extensions import Self

    F = TypeVar("F", bound=Callable[..., Any])


class _Patch:
    """Replaces an entry of a registry: `with`, `async with`, or a decorator of a function, sync or async."""

    def __init__(self, registry: dict[type, Any], original: type, replacement: Any) -> None:
        self._registry = registry
        self._original = original
        self._replacement = replacement
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        self._before.append(self._registry.get(self._original))
        self._registry[self._original] = self._replacement
        return self

    def __exit__(self, *error: object) -> None:
        before = self._before.pop()
        if before is None:
            del self._registry[self._original]
        else:
            self._registry[self._original] = before

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self.__exit__(*error)

    def __call__(self, function: F) -> F:
        import functools
        import inspect

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return run_async  # type: ignore[return-value]

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run  # type: ignore[return-value]


class patch_actor(_Patch):
    """Within it, `spawn(…, original)` makes actors of `mock`: `with patch_actor(Trainer, FakeTrainer): …`.

    Also in processes that are spawned meanwhile. Raises `ValueError` where one of the two is no class of actors.
    """

    def __init__(self, original: type, mock: type) -> None:
        from monarch._actor.actor import Actor

        for cls in (original, mock):
            if not (isinstance(cls, type) and issubclass(cls, Actor)):
                raise ValueError(f"{cls!r} is not a class derived from monarch.actor.Actor")
        super().__init__(mocking.stand_ins, original, mock)


class patch_tensor_engine(_Patch):
    """Within it, `context().actor_instance.spawn_tensor_engine(procs)` in actors of a class gives `factory(procs)`.

    Also in processes that are spawned meanwhile. Raises `NotImplementedError` without a factory: the simulator that
    would be the default comes with the tensor engine.
    """

    def __init__(self, actor_class: type, mock_factory: Callable[[Any], Any] | None = None) -> None:
        if mock_factory is None:
            raise NotImplementedError("there is no simulator of the tensor engine in this version: give a factory")
        super().__init__(mocking.tensor_engines, actor_class, mock_factory)
