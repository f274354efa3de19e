"""Layers among compilers and exporters, and on a device without numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from subprocesses import run_python
from wellposed.nn import S4, S4D, S4PTD, S5PTD, LiquidS4

LAYERS: dict[str, Any] = {
    "s4d": lambda **o: S4D(3, 6, seed=0, **o),
    "s4ptd": lambda **o: S4PTD(3, 6, seed=0, **o),
    "s4": lambda **o: S4(3, 6, seed=0, **o),
    "s5ptd": lambda **o: S5PTD(3, 6, seed=0, **o),
    "liquid": lambda **o: LiquidS4(3, 6, seed=0, kernel="kb", **o),
}


# Compilers read the code itself: these run without the checks of annotations that tests add. PyTorch's own
# deprecations are let through; a UserWarning, such as the one about complex numbers, is an error.
SLOW = pytest.mark.slow  # a whole model is compiled and exported at each change (test_models.py), layers later
QUIET = """
import warnings
for kind in (DeprecationWarning, FutureWarning, ImportWarning, ResourceWarning):
    warnings.simplefilter("ignore", kind)
import numpy as np, torch
from wellposed.nn import S4, S4D, S4PTD, S5PTD, FlexConv, HierarchicalAttention, LiquidS4, LunaAttention
u = torch.randn(2, 150, 3, generator=torch.Generator().manual_seed(0))
"""


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param("S4PTD(3, 6, seed=0)", marks=SLOW),
        pytest.param("S5PTD(3, 6, seed=0, bidirectional=True)", marks=SLOW),
        pytest.param("S4(3, 6, seed=0, mode='conv')", marks=SLOW),
        pytest.param("LunaAttention(3, 1, packed=8, seed=0)", marks=SLOW),
        pytest.param("HierarchicalAttention(3, 1, block=4, seed=0)", marks=SLOW),
        pytest.param("FlexConv(3, length=100, omega_0=3, seed=0)", marks=SLOW),
    ],
)
def test_compiles_whole_and_without_complex_numbers(layer: str):
    code = f"""
layer = {layer}
parameters = list(layer.parameters())
lengths = torch.tensor([150, 70])
right = torch.autograd.grad(layer(u, lengths=lengths).pow(2).sum(), parameters)
compiled = torch.compile(layer, fullgraph=True)
found = torch.autograd.grad(compiled(u, lengths=lengths).pow(2).sum(), parameters)
print(max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(found, right)))
"""
    assert float(run_python(QUIET + code)) < 1e-4


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param("S4PTD(3, 6)", marks=SLOW),
        pytest.param("S4(3, 6, mode='conv')", marks=SLOW),
        pytest.param("S5PTD(3, 6)", marks=SLOW),
        pytest.param("LunaAttention(3, 1, packed=8)", marks=SLOW),
        pytest.param("HierarchicalAttention(3, 1, block=4, causal=True)", marks=SLOW),
        pytest.param("FlexConv(3, length=100)", marks=SLOW),
    ],
)
def test_compiles_for_lengths_that_change(layer: str):
    """The compiler then keeps sizes open; the generated code is not needed to see that it can."""
    code = f"""
layer, worst = {layer}, 0.0
compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
for batch, length in ((2, 150), (2, 97), (2, 131), (2, 149)):
    part = u[:batch, :length]
    worst = max(worst, (compiled(part) - layer(part)).abs().max().item())
print(worst)
"""
    assert float(run_python(QUIET + code)) < 1e-4


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param("S4D(3, 6)", marks=SLOW),
        pytest.param("S4PTD(3, 6, bidirectional=True)", marks=SLOW),
        pytest.param("S4(3, 6)", marks=SLOW),
        pytest.param("S5PTD(3, 6)", marks=SLOW),
        pytest.param("LiquidS4(3, 6, kernel='kb')", marks=SLOW),
        pytest.param("LunaAttention(3, 1, packed=8)", marks=SLOW),
        pytest.param("HierarchicalAttention(3, 1, block=4)", marks=SLOW),
        pytest.param("FlexConv(3, length=100)", marks=SLOW),
    ],
)
def test_exports(layer: str):
    """``torch.export`` and ONNX agree with the layer, and a step exported alone streams the same outputs."""
    pytest.importorskip("onnxruntime", exc_type=ImportError)
    pytest.importorskip("onnxscript")
    code = f"""
layer = {layer}
import logging, tempfile, onnxruntime as ort
logging.disable(logging.WARNING)
warnings.simplefilter("ignore", UserWarning)  # the exporter's own
class Step(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
    def forward(self, u, state):
        return self.layer.step(u, state)
def session(module, inputs):
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        torch.onnx.export(module.eval(), inputs, dynamo=True, verbose=False).save(file.name)
        return ort.InferenceSession(file.name)
right = layer(u).detach()
size = right.abs().max().item()
program = torch.export.export(layer, (u,))
worst = (program.module()(u) - right).abs().max().item() / size
run = session(layer, (u,))
(found,) = run.run(None, {{run.get_inputs()[0].name: u.numpy()}})
worst = max(worst, np.abs(found - right.numpy()).max() / size)
if not layer.bidirectional:
    x, outputs = layer.initial_state(2).numpy(), []
    run = session(Step(layer), (u[:, 0], torch.from_numpy(x)))
    names = [i.name for i in run.get_inputs()]
    for t in range(u.shape[1]):
        y, x = run.run(None, dict(zip(names, (u[:, t].numpy(), x))))
        outputs.append(y)
    worst = max(worst, np.abs(np.stack(outputs, 1) - right.numpy()).max() / size)
print(worst)
"""
    assert float(run_python(QUIET + code).split()[-1]) < 1e-4


def test_on_the_meta_device():
    """Shapes without numbers, as large models are laid out, by argument or by default."""
    u = torch.empty(2, 10, 3, device="meta")
    assert LAYERS["s4ptd"](device="meta")(u).shape == (2, 10, 3)
    with torch.device("meta"):
        assert all(p.is_meta for p in LAYERS["s5ptd"]().parameters())
        assert LAYERS["s4"]()(u).shape == (2, 10, 3)
