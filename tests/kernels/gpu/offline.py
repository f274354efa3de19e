"""Compile the kernels of ``wellposed.kernels.gpu`` for an H100, on whatever machine this is.

The interpreter runs kernels as Python, and never sees what the compiler refuses: kinds that do not agree between two
branches, a size of 1, which is taken for a constant, or shapes that no matrix unit has. Run as a program, with
``TRITON_INTERPRET`` not set. ``--seconds`` says how long each took, without Triton's cache.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from wellposed.kernels.gpu import (
    batch_norm,
    discretize,
    gate,
    gradients,
    layer_norm,
    low_rank,
    low_rank_gradients,
    mode_kernels,
    norm_skip,
    outputs,
    skip,
    states,
    sums,
    tables,
    transpose,
)
from wellposed.kernels.gpu import product as matrix_product

TARGET = GPUTarget("cuda", 90, 32)
F, D, I, H = "*fp32", "*fp64", "*i64", "*bf16"


class Variant(NamedTuple):
    """A kernel, its arguments in order (kinds of pointers, numbers, ``None``), and what it is compiled for."""

    kernel: Any
    arguments: list[Any]
    constants: dict[str, Any]
    warps: int = 4
    stages: int = 2


def compile_offline(variant: Variant) -> Any:
    """As a launch would, of tensors that begin at multiples of 16."""
    kernel, arguments, constants, warps, stages = variant
    names = kernel.arg_names
    given = dict(zip(names, arguments, strict=False)) | constants
    signature, values, attributes = {}, {}, {}
    for i, name in enumerate(names):
        value = given[name]
        if name in constants or value is None or (isinstance(value, int) and value == 1):
            signature[name], values[i,] = "constexpr", value
        elif isinstance(value, str):
            signature[name], attributes[i,] = value, [["tt.divisibility", 16]]
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            signature[name] = "i32" if value < 2**31 else "i64"
            if value % 16 == 0:
                attributes[i,] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs=values, attrs=attributes)
    return triton.compile(source, target=TARGET, options={"num_warps": warps, "num_stages": stages})


def chunk_variants(size: int, precisions: tuple[str, ...]) -> Iterator[Variant]:
    """Kernels of systems of one channel; ``size`` stands for every size there is."""
    one = size == 1
    modes, H_, T, S = (1 if one else 32), size, 64, 64
    yield Variant(tables._modes, [F, F, F, F, D, H_, modes, H_, size],
                  {"BLOCK": 128, "LOG_T": 6, "BILINEAR": one, "JUMPS": True})  # fmt: skip
    yield Variant(tables._modes_backward, [F, F, F, F, D, F, F, F, F, F, F, H_, modes, H_],
                  {"T": T, "NP": S // 2, "BILINEAR": one, "HAS_D": True}, 1)  # fmt: skip
    for d in (1, 2):
        shared = {"T": T, "LOG_T": 6, "NP": S // 2, "DIRECTIONS": d}
        yield Variant(tables._tables, [D, F, F, F, F, H_, modes], shared | {"HAS_D": True, "JUMPS": True}, 8)
        yield Variant(tables._tables_backward, [D, F, F, F, D, F, H_, modes], shared | {"TILE": 16}, 8)
        for dense in (False, True):
            constants = {"T": T, "S": S, "DIRECTIONS": d, "HAS_STATES": True, "DENSE": dense, "PIECE": 8}
            yield Variant(gradients._summed, [F, F, F, H_, size, size], constants)
        for precision in precisions:
            # Padding is zero, but for what is normalised on the way; how it is found does not depend on the precision.
            kinds = [(False, False), (True, False), *([(True, True)] if precision == precisions[0] else [])]
            for normed, padded in kinds:
                yield from _sequences(size, d, T, S, precision, normed, padded)


def _sequences(
    size: int, directions: int, T: int, S: int, precision: str, normed: bool, padded: bool
) -> Iterator[Variant]:
    X = H if precision == "bf16" else F
    U, norm = (F, [F, I if padded else None]) if normed else (X, [None, None])
    shared = {"T": T, "S": S, "DIRECTIONS": directions, "PRECISION": precision, "NORMED": normed, "PADDED": padded}
    for adjoint in (False, True):
        other, partial = (X, F) if adjoint else (None, None)
        for dense in (False, True):
            yield Variant(
                states._walk,
                [U, *norm, F, None, F, X, other, F, partial, *[size] * 7],
                shared
                | {"BATCH": 16, "DENSE": dense, "ADJOINT": adjoint, "HAS_START": False, "ENDS_ONLY": False}
                | {"SEGMENTS": True, "HAS_END": True, "STAGES": states._STAGES[precision]},
                2,
            )
        tile = outputs._TILES[precision, directions]
        constants = shared | {"ROWS": tile.rows, "ADJOINT": adjoint, "HAS_STATES": True}
        yield Variant(outputs._outputs, [U, *norm, X, F, X, *[size] * 9], constants, tile.warps, tile.stages)
    tile, together = gradients._TILES[precision, directions], (precision, directions) in gradients._TOGETHER
    constants = shared | {"WITH_INPUT": together, "ROWS": tile.rows, "HAS_STATES": True}
    given = [U, *norm, F if normed else None, X, X, X, F, X, F]
    yield Variant(gradients._gradients, [*given, *[size] * 11], constants, tile.warps, tile.stages)


def low_rank_variants(size: int) -> Iterator[Variant]:
    """Tables of S4."""
    T, S, modes = 64, 64, (1 if size == 1 else 32)
    for rank, d in ((1, 1), (2, 2)):
        vectors = {"T": T, "RANK": rank, "RP": low_rank.padded(rank), "NP": S // 2}
        matrices = {"T": T, "S": S, "RANK": rank, "DIRECTIONS": d, "COLUMNS": 32, "TERMS": 32}
        yield Variant(low_rank._chains, [*[F] * 7, D, D, size, modes, size], vectors, 1)
        yield Variant(low_rank._tables, [D, D, F, F, D, size], matrices | {"LOG_T": 6, "HAS_D": True, "JUMPS": True})
        yield Variant(low_rank_gradients._to_chains, [D, F, F, size], matrices)
        yield Variant(low_rank_gradients._along_chains, [D, D, F, D], vectors | {"CHAINS": 2 * rank + 1 + d}, 1)
        constants = vectors | {"LOG_T": 6, "DIRECTIONS": d, "HAS_D": True}
        yield Variant(low_rank_gradients._to_parameters, [*[F] * 7, D, *[F] * 7, size, modes, size], constants, 1)


def mode_variants(size: int) -> Iterator[Variant]:
    """One system for all channels."""
    P, n = (1 if size == 1 else 192), size
    wide = min(32, triton.next_power_of_2(P))
    for d in (1, 2):
        tile = {"P": P, "DIRECTIONS": d, "T": 16, "ROWS": 4, "MODES": wide}
        for adjoint in (False, True):
            yield Variant(mode_kernels.fold, [F, F, F, n, n, n], tile | {"ADJOINT": adjoint})
            constants = {"P": P, "DIRECTIONS": d, "ADJOINT": adjoint, "STATE": True, "STEPS": 16, "MODES": min(8, wide)}
            yield Variant(mode_kernels.carry, [F, D, F, n], constants)
        yield Variant(mode_kernels.run, [F, F, F, F, I, F, n, n, n], tile | {"PADDED": True, "LAST": True})
        yield Variant(mode_kernels.run_back, [F, F, F, F, F, F, n, n, n], tile | {"AHEAD": 8})
    constants = {"DIRECTIONS": 2, "BILINEAR": False, "MODES": min(16, wide), "CHANNELS": 64}
    yield Variant(discretize._tables, [*[F] * 7, D, F, F, P, n], constants | {"DOUBLINGS": 4})
    yield Variant(discretize._gradients, [*[F] * 6, D, *[F] * 7, P, n], constants)
    yield Variant(sums._sum_of_parts, [F, D, n, n], {"ROWS": 512, "COLUMNS": 4}, 8)
    yield Variant(skip._skip, [*[F] * 5, *[n] * 8], {"SUM": True, "ROWS": 64, "CHANNELS": 64}, 8)


def block_variants(size: int) -> Iterator[Variant]:
    """What stands around a layer."""
    sizes = [size] * 3
    for padded in (False, True):
        lengths = I if padded else None
        flags = {"PADDED": padded, "BLOCK": 4096}
        for counted in (False, True):
            yield Variant(batch_norm._statistics, [F, lengths, F, I, *sizes, size], flags | {"COUNT_PADDING": counted})
        training = {"TRAINING": True, "SHARES": 16}
        yield Variant(batch_norm._normalise, [F, F, F, lengths, F, F, F, I, F, F, *sizes, 1e-5, 0.1, size],
                      flags | training | {"CUMULATIVE": padded})  # fmt: skip
        found = [F, F, F, F, F, I, F, size, 1e-5, 0.1, size]
        yield Variant(batch_norm._moments, found, training | {"CUMULATIVE": padded}, 1)
        laid = {"LAID": not padded}
        yield Variant(batch_norm._gradient_sums, [F, *sizes, F, F, lengths, F, *sizes, size], flags | laid)
        yield Variant(batch_norm._gradient, [F, *sizes, F, F, F, F, lengths, F, F, F, *sizes, size],
                      flags | training | laid | {"ADD": True})  # fmt: skip
        yield from _around_skip(size, lengths)
        tile = {"PADDED": padded, "CHANNELS": 128, "STEPS": 32}
        yield Variant(layer_norm._forward, [F, F, F, lengths, F, F, *sizes, 1e-5], tile)
        yield Variant(layer_norm._backward, [F, *sizes, F, F, F, F, lengths, F, F, *sizes, size, size],
                      tile | laid | {"ADD": True}, 8)  # fmt: skip
        for dropout, activation in product(("tied", "untied"), ("gelu", "gelu_tanh")):
            tile = {"DROPOUT": dropout, "PADDED": padded, "ROWS": 2, "STEPS": 1024}
            shape = [0.1, *sizes, size]
            other = tile | {"ACTIVATION": activation, "ADD": True}
            yield Variant(gate._activate, [F, F, I, lengths, F, *shape], other)
            yield Variant(gate._activate_backward, [F, F, F, I, lengths, F, F, *shape], other | {"AGAIN": True})
            for full in (False, True):
                value, own = (None if full else F), tile | {"FULL": full}
                yield Variant(gate._gate, [F, F, value, F, I, lengths, F, *shape], own | {"ADD": True})
                own |= {"ACTIVATION": None if full else activation}
                yield Variant(gate._gate_backward, [F, F, F, value, I, lengths, F, value, F, *shape], own)
    yield Variant(transpose._transpose, [F, F, *sizes], {"TILE": 32}, 2)


def product_variants(size: int) -> Iterator[Variant]:
    """Dense products, in each of the layouts that they are tiled for."""
    for (name, tile), add in product(matrix_product._TILES.items(), (False, True)):
        constants = {"ROWS": tile.rows, "COLUMNS": tile.columns, "TERMS": tile.terms, "STAGES": tile.stages, "ADD": add}
        first = [1, size] if "rows" in name else [size, 1]
        strides = [*first, 1, size, size, size, 1]
        yield Variant(matrix_product._product, [F, F, F, *[size] * 4, *strides], constants, tile.warps, tile.stages)


def _around_skip(size: int, lengths: str | None) -> Iterator[Variant]:
    """In both precisions: the input is float32, all else is that of the layer."""
    sizes, padded = [size] * 3, {"PADDED": lengths is not None}
    for X, other in product((F, H), (False, True)):
        block, warps = norm_skip._NORMALISE
        yield Variant(norm_skip._norm_and_skip, [F, F, F, lengths, X, X, *sizes], padded | {"BLOCK": block}, warps)
        block, warps = norm_skip._SUMS
        arrays = [X, X, F, F, F, lengths, F, X if other else None]
        yield Variant(
            norm_skip._norm_skip_sums, [*arrays, *sizes, size], padded | {"WRITE": other, "BLOCK": block}, warps
        )
        block, warps = norm_skip._GRADIENT
        flags = padded | {"ADD": not other, "TRAINING": other, "SHARES": 16, "BLOCK": block}
        arrays = [X, X, None if other else F, F, F, F, lengths, F, F, F]
        yield Variant(norm_skip._norm_skip_gradient, [*arrays, *sizes, size], flags, warps)


def variants(precisions: tuple[str, ...]) -> Iterator[Variant]:
    """All of them, at an ordinary size and at a size of 1."""
    for size in (48, 1):
        yield from chunk_variants(size, precisions)
        yield from low_rank_variants(size)
        yield from mode_variants(size)
        yield from block_variants(size)
        yield from product_variants(size)


def main() -> None:
    """Compile all, or those whose name is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="kernels, as they are called in their files")
    parser.add_argument("--precisions", default="tf32,tf32x3,bf16")
    parser.add_argument("--seconds", action="store_true")
    options, count = parser.parse_args(), 0
    for variant in variants(tuple(options.precisions.split(","))):
        name = variant.kernel.__name__
        if options.names and name not in options.names:
            continue
        began = time.perf_counter()
        compile_offline(variant)
        count += 1
        if options.seconds:
            print(f"{time.perf_counter() - began:6.2f} s  {name}  {variant.constants}", flush=True)
    print(f"{count} variants")


if __name__ == "__main__":
    main()
