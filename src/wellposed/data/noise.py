"""Where noise was; it is in ``wellposed.nn`` now, and can still be had from here."""

from typing import Any


def __getattr__(name: str) -> Any:
    from wellposed import data

    return data.__getattr__(name)
