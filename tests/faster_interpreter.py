"""Triton's interpreter, spared two things that it does at every operation or call and that change nothing."""

from __future__ import annotations

import dataclasses
from typing import Any


def spare_what_changes_nothing() -> None:
    """Half of its time, where it works as the releases 3.6 and 3.7 do; else it is left as it is."""
    import triton.language as tl
    from triton.runtime import interpreter

    # Conditions of an overflow, in 64 bits, are asserted in debug mode alone, and computed in any.
    options: Any = interpreter.interpreter_builder.options
    if not options.debug:
        interpreter.interpreter_builder.options = dataclasses.replace(options, sanitize_overflow=False)
    # A function that a kernel calls replaces the operations of the language once more, as the kernel did before.
    patch, is_builtin, nothing = interpreter._patch_lang, tl.core.is_builtin, interpreter._LangPatchScope

    def patch_once(function: Any) -> Any:
        languages = [value for value in function.__globals__.values() if value is tl or value is tl.core]
        done = languages and not any(is_builtin(language.load) for language in languages)
        return nothing() if done else patch(function)

    interpreter._patch_lang = patch_once
