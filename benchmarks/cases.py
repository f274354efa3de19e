"""What the GPU's benchmark measures: sizes of the papers' models, published times, and bars to stay below."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from textbook import How, Textbook
from wellposed import nn


@dataclass(frozen=True)
class Case:
    """One layer, or the training step of a model of ``depth`` of them, at one size."""

    name: str
    layer: str
    batch: int
    length: int
    channels: int
    published: float | None = None
    """Milliseconds of the fastest published implementation on one H200."""
    bars: dict[str, float] = field(default_factory=dict)
    """Milliseconds to stay below, replayed from a graph, by precision."""
    eager_bar: float | None = None
    """Milliseconds to stay below when called, in tf32."""
    options: dict[str, Any] = field(default_factory=dict)
    """Of the layer."""
    depth: int = 0
    inputs: int = 1
    classes: int = 10
    block: dict[str, Any] = field(default_factory=dict)
    """Options of the blocks of the model."""

    def make_layer(self) -> nn.SequenceLayer:
        """One layer, the same at each call."""
        return nn.LAYERS[self.layer](self.channels, seed=0, **self.options)

    def make_model(self, how: How | None = None) -> nn.SequenceClassifier:
        """A model of such layers, or of the textbook's."""
        torch.manual_seed(0)
        make = nn.LAYERS[self.layer]
        layer = self.layer if how is None else lambda d_model, **options: Textbook(make(d_model, **options), how)
        sizes = {"d_model": self.channels, "n_layers": self.depth, "layer_options": self.options}
        return nn.SequenceClassifier(self.inputs, self.classes, layer=layer, **sizes, **self.block)


# Published: S4 and S4D in PyTorch, S5 in JAX; models of LRA read in both directions.
# 256 states of S5 are two blocks of 128, which are diagonalised sooner and cost the same.
BOTH = {"bidirectional": True}
S4_64, S5_384, S5_256 = {"d_state": 64}, {"d_state": 384, "blocks": 3} | BOTH, {"d_state": 256, "blocks": 2} | BOTH
S4_BLOCK = {"norm": "batch", "dropout": 0.1}
S5_BLOCK = S4_BLOCK | {"activation": "gelu_tanh", "glu": "half"}
LAYERS = (
    Case("S4-PTD, 64 x 1024 x 128", "s4ptd", 64, 1024, 128, 2.75, {"high": 0.40, "highest": 0.60}, 0.8, S4_64),
    Case("S4-PTD, 16 x 16384 x 128", "s4ptd", 16, 16384, 128, 6.97, {"high": 1.0, "highest": 2.0}, options=S4_64),
    Case("S4-PTD, 50 x 1024 x 512", "s4ptd", 50, 1024, 512, 3.76, {"high": 0.9, "highest": 1.6}, options=S4_64),
    Case("S4, 64 x 1024 x 128", "s4", 64, 1024, 128, 3.8, {"high": 0.8, "highest": 1.2}, options=S4_64),
    Case("S5-PTD both ways, 50 x 1024 x 512", "s5ptd", 50, 1024, 512, 3.53, {"high": 1.6}, options=S5_384),
    Case("S5-PTD both ways, 32 x 16384 x 128", "s5ptd", 32, 16384, 128, 13.3, {"high": 5.0}, options=S5_256),
)
SCIFAR: dict[str, Any] = {"batch": 64, "length": 1024, "channels": 128, "depth": 4, "inputs": 3}
IMAGE: dict[str, Any] = {"batch": 50, "length": 1024, "channels": 512, "depth": 6}
PATHX: dict[str, Any] = {"batch": 32, "length": 16384, "channels": 128, "depth": 6, "classes": 2}
S4_BOTH: dict[str, Any] = {"layer": "s4ptd", "options": S4_64 | BOTH, "block": S4_BLOCK}
STEPS = (
    Case(
        "sCIFAR step, S4-PTD 4 x 128",
        "s4ptd",
        **SCIFAR,
        options=S4_64,
        block=S4_BLOCK,
        published=10.0,
        bars={"high": 2.5, "highest": 3.5},
        eager_bar=8.0,
    ),
    Case("LRA-Image step, S4-PTD 6 x 512", **IMAGE, **S4_BOTH, published=40.9, bars={"high": 14}),
    Case(
        "LRA-Image step, S5-PTD 6 x 512",
        "s5ptd",
        **IMAGE,
        options=S5_384,
        block=S5_BLOCK,
        published=28.1,
        bars={"high": 14},
    ),
    Case("Path-X step, S4-PTD 6 x 128", **PATHX, **S4_BOTH, published=86, bars={"high": 30}),
    Case(
        "Path-X step, S5-PTD 6 x 128",
        "s5ptd",
        **PATHX,
        options=S5_256,
        block=S5_BLOCK,
        published=93,
        bars={"high": 36},
    ),
)
ERRORS = (
    Case("S4-PTD, 2 x 16384 x 128", "s4ptd", 2, 16384, 128, options=S4_64),
    Case("S4-PTD both ways, 2 x 16384 x 128", "s4ptd", 2, 16384, 128, options=S4_64 | BOTH),
    Case("S4, 2 x 16384 x 32", "s4", 2, 16384, 32, options=S4_64),
    # With its usual C of 1/sqrt(n) a thousandth of the output would be the system's, and all else D u.
    Case("S5-PTD both ways, 2 x 16384 x 128", "s5ptd", 2, 16384, 128, options=S5_256 | {"C_init": "complex_normal"}),
)
STREAMS = tuple(
    Case(f"{name} 4 x 128, batch {batch}", layer, batch, 1, 128, options=options, depth=4, block={"norm": "batch"})
    for name, layer, options in (("S4-PTD", "s4ptd", S4_64), ("S5-PTD", "s5ptd", {"d_state": 256, "blocks": 2}))
    for batch in (1, 256)
)
LONG = (Case("S4-PTD 4 x 64, 1 x 1048576", "s4ptd", 1, 2**20, 64, options=S4_64, depth=4),)
COMPILE = (Case("S4-PTD 4 x 128, 64 x 1024", "s4ptd", 64, 1024, 128, options=S4_64, depth=4, block=S4_BLOCK),)
PROFILES = (*LAYERS[:2], STEPS[0])
