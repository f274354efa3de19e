"""Some cases of a product in the quick tests, all of them in the slow ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest


def covering(*axes: Sequence[Any], every: int) -> list[Any]:
    """All combinations; slow are those whose places do not add up to a multiple of ``every``.

    So every value is in the quick ones, and two values of different axes meet there where a further axis has
    ``every`` values or more.
    """
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(axes, places, strict=True)),
            marks=() if sum(places) % every == 0 else pytest.mark.slow,
        )
        for places in itertools.product(*(range(len(axis)) for axis in axes))
    ]
