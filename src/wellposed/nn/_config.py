"""Options are written down once, as fields of a frozen dataclass; constructors take them as their own arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from wellposed.errors import UnknownNameError

Arguments = ParamSpec("Arguments")
Config = TypeVar("Config")


def built_from(
    config: Callable[Arguments, Config],
) -> Callable[[Callable[[Any, Config], None]], Callable[Concatenate[Any, Arguments], None]]:
    """Make ``__init__(self, config)`` take the fields of ``config`` as arguments, with its signature and its checks.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Size:
    ...     width: int = 3
    >>> class Box:
    ...     @built_from(Size)
    ...     def __init__(self, config: Size) -> None:
    ...         self.width = config.width
    >>> Box(width=4).width
    4
    >>> Box(widht=4)
    Traceback (most recent call last):
    wellposed.errors.UnknownNameError: unknown option of Box 'widht'; did you mean 'width'?
    """
    fields = inspect.signature(config)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def decorate(build: Callable[[Any, Config], None]) -> Callable[Concatenate[Any, Arguments], None]:
        @wraps(build)
        def __init__(self: Any, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
            for name in kwargs:
                if name not in fields.parameters:
                    raise UnknownNameError(f"option of {type(self).__name__}", name, fields.parameters)
            try:
                fields.bind(*args, **kwargs)
            except TypeError as error:  # in the name of what was called
                raise TypeError(f"{type(self).__name__}(): {error}") from None
            build(self, config(*args, **kwargs))

        signature = fields.replace(parameters=[itself, *fields.parameters.values()], return_annotation=None)
        vars(__init__)["__signature__"] = signature
        __init__.__doc__ = (
            f"The arguments are the fields of ``{getattr(config, '__name__', config)}``, explained there."
        )
        return __init__

    return decorate
