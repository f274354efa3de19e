"""What is checked while the tests run, on functions of this file."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("beartype")

import jaxtyping
from beartype import beartype
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from wellposed.kernels.products import product


@jaxtyping.jaxtyped(typechecker=beartype)
def cut(x: Float[Tensor, "batch n"], y: Float[Tensor, " n"], keep: int) -> Float[Tensor, "batch n"]:
    return (x * y)[:, :keep] if keep else x


def test_sizes_belong_together_in_arguments_and_result():
    x, y = torch.ones(2, 3), torch.ones(3)
    assert torch.equal(cut(x, y, 3), x)
    assert cut(torch.ones(2, 5), torch.ones(5), 5).shape == (2, 5)  # another call, other sizes
    with pytest.raises(TypeCheckError, match="y"):
        cut(x, torch.ones(4), 3)
    with pytest.raises(TypeCheckError, match="return"):
        cut(x, y, 2)
    with pytest.raises(TypeCheckError, match="keep"):
        cut(x, y, 1.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeCheckError, match="x"):
        cut(x.int(), y, 3)


def test_functions_of_the_library_are_checked():
    with pytest.raises(TypeCheckError, match=r"product.* b"):
        product(torch.ones(2, 3), torch.ones(4, 5))
