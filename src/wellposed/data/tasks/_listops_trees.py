"""Random ListOps expressions and their values, compiled: this module needs numba.

The grammar is that of the Long Range Arena's generator (Tay et al., 2021, after Nangia and Bowman, 2018): above depth
10 a node is an operator with probability 1/4, with 2 to 10 arguments, else a digit; expressions of 501 to 1999 tokens
are kept, counting digits, operators and closing brackets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from wellposed.data.tasks._compiled import compiled

TOKENS = (*"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]")
SHORTEST, LONGEST = 501, 1999
_DEPTH, _ARGUMENTS = 9, 10
_MIN, _MAX, _MED, _CLOSE = 10, 11, 12, 14


def trees(
    count: int, seed: np.random.SeedSequence
) -> tuple[UInt8[np.ndarray, " total"], Int[np.ndarray, " tree"], UInt8[np.ndarray, " tree"]]:
    """Tokens of ``count`` expressions one after the other, the length of each, and the value of each."""
    tokens = np.empty(count * LONGEST, dtype=np.uint8)
    lengths, values = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.uint8)
    _fill(np.random.Generator(np.random.PCG64(seed)), tokens, lengths, values)
    return tokens[: lengths.sum()].copy(), lengths, values


@compiled
def _fill(rng: Any, tokens: Any, lengths: Any, values: Any) -> None:
    stack = np.empty((_DEPTH, 3 + _ARGUMENTS), dtype=np.int64)
    start = 0
    for tree in range(len(lengths)):
        length, value = 0, 0
        while length < SHORTEST:
            length, value = _tree(rng, tokens[start:], stack)
        lengths[tree], values[tree] = length, value
        start += length


@compiled
def _tree(rng: Any, tokens: Any, stack: Any) -> tuple[int, int]:
    """One expression from the root on: its length, or 0 as soon as it is too long, and its value.

    ``stack`` holds the open operators, outermost first: which, how many arguments it takes, how many it has, and them.
    """
    at, depth = 0, 0
    while True:
        opens = depth < _DEPTH and rng.random() < 0.25
        if at + 1 + opens + depth > LONGEST:  # with the brackets that are still to come
            return 0, 0
        if opens:
            tokens[at] = stack[depth, 0] = _MIN + int(4 * rng.random())
            stack[depth, 1], stack[depth, 2] = 2 + int(9 * rng.random()), 0
            at, depth = at + 1, depth + 1
            continue
        value = int(10 * rng.random())
        tokens[at] = value
        at += 1
        while depth > 0:
            top = stack[depth - 1]
            top[3 + top[2]] = value
            top[2] += 1
            if top[2] < top[1]:
                break
            value = _applied(top[0], top[3 : 3 + top[2]])
            tokens[at] = _CLOSE
            at, depth = at + 1, depth - 1
        if depth == 0:
            return at, value


@compiled
def _applied(operator: int, arguments: Any) -> int:
    if operator == _MIN:
        return arguments.min()
    if operator == _MAX:
        return arguments.max()
    if operator == _MED:
        arguments.sort()
        return (arguments[(len(arguments) - 1) // 2] + arguments[len(arguments) // 2]) // 2
    return arguments.sum() % 10
