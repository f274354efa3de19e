"""What kernels are given, and how precisely they multiply."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton")

from covering import covering
from subprocesses import run_python
from wellposed.errors import ArgumentError
from wellposed.nn import S4, S4D, S4PTD, S5PTD, SequenceClassifier

DEVICE = os.environ.get("WELLPOSED_TEST_DEVICE", "cpu")
LAYERS: list[Any] = [S4D, S4PTD, S4, S5PTD]
NEWER = "torch.backends.cuda.matmul.fp32_precision"


@pytest.mark.parametrize(
    ("switched", "found"),
    [
        (f"{NEWER} = 'tf32'", "tf32"),
        (f"torch.set_float32_matmul_precision('high'); {NEWER} = 'ieee'", "tf32x3"),
        pytest.param("", "tf32x3", marks=pytest.mark.slow),
        pytest.param("torch.set_float32_matmul_precision('high')", "tf32", marks=pytest.mark.slow),
        pytest.param("torch.set_float32_matmul_precision('medium')", "tf32", marks=pytest.mark.slow),
        pytest.param("torch.backends.fp32_precision = 'tf32'", "tf32", marks=pytest.mark.slow),
        pytest.param(
            f"{NEWER} = 'tf32'; torch.set_float32_matmul_precision('highest')", "tf32x3", marks=pytest.mark.slow
        ),
    ],
)
def test_either_of_pytorchs_switches_is_followed(switched, found):
    """The older one raises when it is asked after the newer one was set. Training leaves both as they were."""
    code = f"""
import torch
from wellposed.kernels.device import dot_precision
from wellposed.train._machine import arithmetic
{switched}
newer = {NEWER}
try:
    older = torch.get_float32_matmul_precision()
except RuntimeError:
    older = None
with arithmetic("float32"):
    inside = dot_precision(torch.float32)
with arithmetic("tf32"):
    inside += " " + dot_precision(torch.float32)
kept = {NEWER} == newer and (older is None or torch.get_float32_matmul_precision() == older)
print(dot_precision(torch.float32), inside, kept)
"""
    assert run_python(code).split() == [found, "tf32x3", "tf32", "True"]


def gradients(layer: nn.Module, u: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(layer(u).pow(2).sum(), list(layer.parameters())))


@pytest.mark.parametrize(("make", "kind"), covering(LAYERS, [torch.bfloat16, torch.float16], every=2))
def test_parameters_of_half_the_width(make, kind):
    """Their gradients are those of the same numbers in float64, rounded once."""
    layer = make(2, 4, seed=0, mode="triton", device=DEVICE).to(kind)
    twin = copy.deepcopy(layer).double()
    twin.mode = "conv"
    u = torch.randn(1, 20, 2, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    for found, right in zip(gradients(layer, u), gradients(twin, u.double()), strict=True):
        assert found.dtype == kind
        assert (found - right).abs().max() < 2 * torch.finfo(kind).eps * right.abs().max()


class Named(Tensor):
    """A class of its own, as libraries have them that quantise or distribute."""


@pytest.mark.parametrize("make", LAYERS)
def test_what_a_kernel_does_not_know_it_is_not_given(make):
    layer = make(3, 8, seed=0, mode="triton", device=DEVICE)
    C = layer._parameters.pop("C")
    layer.C = C.detach().as_subclass(Named)
    with pytest.raises(ArgumentError, match=r"mode='triton' cannot do this \(float32 on"):
        layer(torch.zeros(1, 5, 3, device=DEVICE))


@pytest.mark.parametrize("make", [S4PTD, S5PTD])
def test_traced_by_plain_operations(make):
    code = f"""
import warnings, torch
from wellposed.nn import {make.__name__}
layer = {make.__name__}(3, 8, seed=0, mode="triton", device={DEVICE!r})
u = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0)).to({DEVICE!r})
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the tracer, about every shape
    traced = torch.jit.trace(layer, u, check_trace=False)
print((traced(u) - layer(u)).abs().max().item())
"""
    assert float(run_python(code)) < 1e-5


def test_several_processes_through_kernels(tmp_path: Path):
    """One process of a group gives the gradients of the model itself."""
    model = SequenceClassifier(1, 2, d_model=4, n_layers=2, layer_options={"mode": "triton"}, seed=0).to(DEVICE)
    twin, u = copy.deepcopy(model), torch.randn(3, 40, 1, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(model)
        for net in (wrapped, twin):
            net(u).pow(2).sum().backward()
    finally:
        torch.distributed.destroy_process_group()
    for found, right in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(found.grad, right.grad)
