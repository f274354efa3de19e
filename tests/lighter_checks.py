"""The run-time checks of jaxtyping and beartype, with less around each call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jaxtyping
from jaxtyping import TypeCheckError, _storage


def lighten() -> None:
    """Let beartype check arguments and result in one wrapper, while jaxtyping holds the sizes of the axes.

    jaxtyping's own decorator checks arguments twice, in functions made for that, to say more about a mistake.
    """
    from beartype.roar import BeartypeCallHintViolation, BeartypeDecorHintException

    whole = jaxtyping.jaxtyped

    def jaxtyped(*, typechecker: Callable[..., Any]) -> Callable[..., Any]:
        def decorate(function: Any) -> Any:
            if not inspect.isfunction(function) or inspect.isgeneratorfunction(function) or not _known(function):
                return whole(function, typechecker=typechecker)
            try:
                checked = typechecker(function)
            except BeartypeDecorHintException:  # at an annotation that jaxtyping passes over
                return whole(function, typechecker=typechecker)
            if checked is function:  # nothing is annotated
                return function

            @functools.wraps(function)
            def with_sizes(*args: Any, **options: Any) -> Any:
                __tracebackhide__ = True
                _storage.push_shape_memo({})
                try:
                    return checked(*args, **options)
                except BeartypeCallHintViolation as wrong:
                    raise TypeCheckError(str(wrong)) from wrong
                finally:
                    _storage.pop_shape_memo()

            return with_sizes

        return decorate

    jaxtyping.jaxtyped = jaxtyped


def _known(function: Any) -> bool:
    """Whether all names in its annotations exist already; not those imported for type checkers alone."""
    try:
        inspect.get_annotations(function, eval_str=True)
    except Exception:
        return False
    return True
