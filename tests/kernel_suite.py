"""What every kernel backend must do, against a loop over time in complex float64.

A new backend is proved by a class that inherits ``KernelSuite`` and names it:

    class TestMine(KernelSuite):
        backend = "mine"

Work that the backend does not support is left out, and a test says if that is all of it; everything else must agree
with the loop, values and every gradient, at odd lengths, from states, into states, in both directions and behind
padding. A backend for a GPU, or for float32 alone, says so:

        device, dtype, tolerance = "cuda", torch.float32, 1e-5

The loop always runs on the CPU in float64, on the same numbers.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from covering import covering
from wellposed.kernels import (
    BACKENDS,
    DenseRecurrence,
    DiagonalParameters,
    LowRankParameters,
    LowRankRecurrence,
    SharedParameters,
    Spectrum,
    Work,
    run,
)

LENGTHS = (1, 2, 3, 15, 16, 17, 63, 64, 65, 129, 200)
KINDS = (
    "diagonal",
    "diagonal-bilinear",
    "diagonal-shared-systems",
    "low-rank",
    "low-rank-parameters",
    "low-rank-2-two-inputs",
    "dense",
    "dense-two-inputs",
    "shared",
    "shared-bilinear",
)
REAL = (DenseRecurrence, LowRankParameters, LowRankRecurrence)
"""Structures whose states are real numbers to the loop."""
DEVICE = os.environ.get("WELLPOSED_TEST_DEVICE", "cpu")


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def system(kind: str, *, channels: int = 3, modes: int = 2, directions: int = 1) -> Any:
    """Systems with slow, fast and real modes."""
    C = random(directions, channels, modes, 2, seed=4)
    weight = torch.tensor([2.0, 1.0, 2.0, 2.0], dtype=torch.float64)[:modes]
    disc: Any = "bilinear" if kind.endswith("bilinear") else "zoh"
    B = random(channels, 2 * modes, *[2] * kind.endswith("two-inputs"), seed=2)
    if kind.startswith("dense"):
        A = 0.9 * torch.linalg.qr(random(channels, 2 * modes, 2 * modes, seed=1)).Q
        return DenseRecurrence(A, B, C.flatten(2))
    if kind == "low-rank-parameters":  # one system for all channels
        real, imag, log_dt = random(1, modes, seed=1), 20 * random(1, modes, seed=2), random(channels, seed=5) - 3
        P, B = random(1, modes, 1, 2, seed=13), random(1, modes, 2, seed=3)
        return LowRankParameters(real, imag, P, B, C, log_dt, weight)
    if kind.startswith("low-rank"):
        decay, angle = -0.03 - 0.3 * random(channels, modes, seed=1) ** 2, 2 * random(channels, modes, seed=11)
        U, V = 0.3 * random(2, channels, 2 if kind.startswith("low-rank-2") else 1, 2 * modes, seed=12)
        return LowRankRecurrence(Spectrum(decay, angle), U, V, B, C.flatten(2))
    if kind.startswith("shared"):
        real, imag, log_dt = random(modes, seed=1), 20 * random(modes, seed=2), random(modes, seed=5) - 3
        return SharedParameters(real, imag, random(modes, channels, 2, seed=3), C, log_dt, weight, disc)
    systems = 1 if kind == "diagonal-shared-systems" else channels
    real, imag = random(systems, modes, seed=1), 20 * random(systems, modes, seed=2)
    log_dt = random(channels, seed=5) - 3
    return DiagonalParameters(real, imag, random(systems, modes, 2, seed=3), C, log_dt, weight, disc)


def work(kind: str, length: int, *, batch: int = 2, directions: int = 1, **options: Any) -> Work:
    made = system(kind, directions=directions)
    u = random(batch, length, 3 * (2 if kind.endswith("two-inputs") else 1), seed=6)
    if (lengths := options.get("lengths")) is not None:
        u = torch.where(torch.arange(length)[:, None] < lengths[:, None, None], u, 0.0)
    if options.pop("with_state", False):
        shape = (batch, made.states) if kind.startswith("shared") else (batch, 3, _states(made))
        options["state"] = random(*shape, seed=8)
    return Work(made, u, random(3, seed=7), **options)


def _states(made: Any) -> int:
    return made.states if isinstance(made, REAL) else 2 * made.A_imag.shape[-1]


# --- the loop


def _complex(pairs: Tensor) -> Tensor:
    return torch.complex(pairs[..., 0], pairs[..., 1])


def _discrete(lam: Tensor, dt: Tensor, disc: str) -> tuple[Tensor, Tensor]:
    """Eigenvalue and gain, straight from the formulas."""
    z = lam * dt
    return (z.exp(), (z.exp() - 1) / lam) if disc == "zoh" else ((1 + z / 2) / (1 - z / 2), dt / (1 - z / 2))


def _matrices(s: Any, channels: int) -> tuple[Tensor, Tensor, Tensor]:
    """``A, B`` and ``C`` (for real parts of ``C x``) with a state axis that all structures share."""
    if isinstance(s, LowRankParameters):
        return _by_inverses(s, channels)
    if isinstance(s, REAL):
        return _written_out(s), s.B if s.B.ndim == 3 else s.B[..., None], s.C
    lam, B, C = torch.complex(-s.A_log_real.exp(), s.A_imag), _complex(s.B), _complex(s.C) * s.weight
    if isinstance(s, SharedParameters):
        bar, gain = _discrete(lam, s.log_dt.exp(), s.disc)
        return torch.diag(bar), gain[:, None] * B, C
    index = torch.arange(channels) % len(lam)
    bar, gain = _discrete(lam[index], s.log_dt.exp()[:, None], s.disc)
    return torch.diag_embed(bar), (gain * B[index])[..., None], C


def _by_inverses(s: LowRankParameters, channels: int) -> tuple[Tensor, Tensor, Tensor]:
    """The bilinear rule with matrices that are written out and inverted."""
    index = torch.arange(channels) % len(s.A_imag)
    lam, P, B = torch.complex(-s.A_log_real.exp(), s.A_imag)[index], s.P[index], s.B[index]
    twice = s.weight.repeat_interleave(2)
    p = P.transpose(2, 3).flatten(1, 2)  # P^* x is the sum over both halves of every pair
    A, eye = _blocks(lam) - p @ (twice[:, None] * p).mT, torch.eye(len(twice), dtype=torch.float64)
    dt = s.log_dt.exp()[:, None, None]
    inverse = torch.linalg.inv(eye - dt / 2 * A)
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64)
    return inverse @ (eye + dt / 2 * A), dt * inverse @ B.flatten(1)[..., None], (s.C * sign).flatten(2) * twice


def _blocks(lam: Tensor) -> Tensor:
    """Complex diagonals in real coordinates."""
    blocks = torch.stack([torch.stack([lam.real, -lam.imag], -1), torch.stack([lam.imag, lam.real], -1)], -2)
    return torch.stack([torch.block_diag(*b) for b in blocks])


def _written_out(s: Any) -> Tensor:
    """``A`` as a matrix; one of low rank from its definition, mode by mode."""
    if isinstance(s, DenseRecurrence):
        return s.A
    return _blocks(torch.complex(s.modes.decay, s.modes.angle).exp()) + torch.einsum("hri,hrj->hij", s.U, s.V)


def loop(w: Work) -> tuple[Tensor, Tensor]:
    """Outputs and last states, sequence by sequence and step by step."""
    A, B, C = _matrices(w.system, w.u.shape[-1])
    rows, states = [], []
    for k in range(len(w.u)):
        length = w.u.shape[1] if w.lengths is None else int(w.lengths[k])
        u = w.u[k, :length]
        x0 = None if w.state is None else w.state[k]
        y, x = _one(w.system, A, B, C[0], u, x0)
        if len(C) == 2:
            y = y + _one(w.system, A, B, C[1], u.flip(0), None)[0].flip(0)
        y = y if w.D is None else y + w.D * u[:, : len(w.D)]
        rows.append(torch.nn.functional.pad(y, (0, 0, 0, w.u.shape[1] - length)))
        states.append(x)
    return torch.stack(rows), torch.stack(states)


def _one(s: Any, A: Tensor, B: Tensor, C: Tensor, u: Tensor, x0: Tensor | None) -> tuple[Tensor, Tensor]:
    shared, dense = isinstance(s, SharedParameters), isinstance(s, REAL)
    x = torch.zeros(B.shape[:1] if shared else B.shape[:2], dtype=A.dtype)
    if x0 is not None:
        x = x0 if dense else _complex(x0.unflatten(-1, (-1, 2)))
    ys = []
    for now in u:
        added = B @ now.to(B.dtype) if shared else (B * now.unflatten(0, (-1, len(B))).mT[:, None]).sum(-1)
        x = (A @ x[..., None])[..., 0] + added
        ys.append((C @ x).real if shared else (C * x).sum(-1).real)
    return torch.stack(ys), x if dense else torch.view_as_real(x.resolve_conj()).flatten(-2)


# --- comparisons


def leaves(w: Work) -> tuple[Work, dict[str, Tensor]]:
    """The same work with every tensor of floats a leaf of its own, and these by name."""
    named: dict[str, Tensor] = {}

    def fresh(thing: Any, prefix: str) -> Any:
        changes = {}
        for field in dataclasses.fields(thing):
            value = getattr(thing, field.name)
            if isinstance(value, Tensor) and value.is_floating_point() and field.name != "weight":
                named[prefix + field.name] = changes[field.name] = value.detach().clone().requires_grad_()
            elif dataclasses.is_dataclass(value):
                changes[field.name] = fresh(value, f"{field.name}.")
        return dataclasses.replace(thing, **changes)

    return fresh(w, ""), named


def moved(w: Work, device: str, dtype: torch.dtype) -> Work:
    """The same work there, in that precision."""

    def to(thing: Any) -> Any:
        if isinstance(thing, Tensor):
            return thing.to(device, dtype if thing.is_floating_point() else None)
        if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
            return thing
        return dataclasses.replace(thing, **{f.name: to(getattr(thing, f.name)) for f in dataclasses.fields(thing)})

    return to(w)


def off(found: Tensor, right: Tensor) -> float:
    found = found.cpu().double()
    return ((found - right).abs().max() / right.abs().max().clamp(min=1e-300)).item()


class KernelSuite:
    """Inherit and set ``backend``."""

    backend: ClassVar[str]
    device: ClassVar[str] = DEVICE
    dtype: ClassVar[torch.dtype] = torch.float64
    tolerance: ClassVar[float] = 1e-11
    """Relative to the largest entry; in float64 a few hundred roundings."""

    def run(self, w: Work) -> Any:
        return run(moved(w, self.device, self.dtype), self.backend)

    def rounded(self, w: Work) -> Work:
        """The numbers that the backend gets, for the loop."""
        return moved(moved(w, "cpu", self.dtype), "cpu", torch.float64)

    def supported(self, w: Work) -> bool:
        return BACKENDS[self.backend].supports(moved(w, self.device, self.dtype))

    def skip_unless_supported(self, w: Work) -> None:
        if not self.supported(w):
            pytest.skip(f"{self.backend} does not support this work: another backend does it")

    def test_supports_something(self):
        assert any(self.supported(work(kind, 64)) for kind in KINDS)

    def compare(self, w: Work) -> None:
        """Outputs, last state and every gradient of a weighted sum of both."""
        self.skip_unless_supported(w)
        found, right = [], []
        for results, compute in ((found, self.run), (right, loop)):
            own, named = leaves(self.rounded(w))
            y, state = compute(own)
            y, state = y.cpu().double(), None if state is None else state.cpu().double()
            y = self.without_padding(w, y)
            loss = (y * random(*y.shape, seed=9)).sum()
            assert (state is None) == (not w.want_state) or compute is loop
            if w.want_state:
                assert state is not None
                loss = loss + (state * random(*state.shape, seed=10)).sum()
                results.append(state.detach())
            # At length 1 nothing depends on A: PyTorch says None or zeros, and means the same.
            gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True, materialize_grads=True)
            gradients = dict(zip(named, gradients, strict=True))
            gradients["u"] = self.without_padding(w, gradients["u"])
            results += [y.detach(), *gradients.values()]
        for a, b in zip(found, right, strict=True):
            assert off(a, b) < self.tolerance

    def without_padding(self, w: Work, x: Tensor) -> Tensor:
        """What comes out behind the end, and the gradient that goes there, are not looked at."""
        if w.lengths is None:
            return x
        return torch.where(torch.arange(x.shape[1])[:, None] < w.lengths[:, None, None], x, 0.0)

    @pytest.mark.parametrize(("length", "kind"), covering(LENGTHS, KINDS, every=3))
    def test_is_the_recurrence(self, kind: str, length: int):
        self.compare(work(kind, length))

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("length", [1, 65])
    def test_both_directions(self, kind: str, length: int):
        self.compare(work(kind, length, directions=2))

    @pytest.mark.parametrize(("with_state", "length", "kind"), covering([False, True], [1, 2, 64, 130], KINDS, every=4))
    def test_states(self, kind: str, length: int, with_state: bool):
        """The last state on request, with and without one to begin from; and an initial one alone."""
        self.compare(work(kind, length, with_state=with_state, want_state=True))
        if with_state:
            self.compare(work(kind, length, with_state=True))

    @pytest.mark.parametrize(("directions", "with_state", "kind"), covering([1, 2], [False, True], KINDS, every=2))
    def test_padding(self, kind: str, with_state: bool, directions: int):
        lengths = torch.tensor([1, 100, 37])
        more = {"with_state": with_state, "want_state": True} if directions == 1 else {}
        self.compare(work(kind, 100, batch=3, lengths=lengths, directions=directions, **more))

    @pytest.mark.parametrize("kind", KINDS)
    def test_no_skip(self, kind: str):
        self.compare(dataclasses.replace(work(kind, 40), D=None))

    @pytest.mark.parametrize("kind", KINDS)
    def test_layouts(self, kind: str):
        """Sequences and states lie anywhere in memory, and are not written to."""
        w = work(kind, 40, with_state=True, want_state=True)
        assert w.state is not None
        u = w.u.transpose(0, 2).contiguous().transpose(0, 2)
        odd = torch.zeros(w.state.numel() + 1, dtype=w.state.dtype)[1:].view(w.state.shape).copy_(w.state)
        before = u.clone(), odd.clone()
        self.compare(dataclasses.replace(w, u=u, state=odd))
        assert torch.equal(u, before[0])
        assert torch.equal(odd, before[1])

    @pytest.mark.parametrize("kind", KINDS)
    def test_same_bits_again(self, kind: str):
        w = work(kind, 130, want_state=True)
        if self.supported(w):
            for a, b in zip(self.run(w), self.run(w), strict=True):
                assert torch.equal(a, b)

    @pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # by PyTorch itself
    @pytest.mark.parametrize("kind", covering(KINDS, every=2))
    def test_tangents(self, kind: str):
        """Forward-mode derivatives against those of the loop."""
        self.skip_unless_supported(w := self.rounded(work(kind, 70, directions=2)))

        def outputs(compute: Any, u: Tensor, C: Tensor) -> Tensor:
            return compute(dataclasses.replace(w, u=u, system=dataclasses.replace(w.system, C=C)))[0]

        primals = (w.u, w.system.C)
        tangents = tuple(random(*p.shape, seed=11) for p in primals)
        results = [torch.func.jvp(lambda u, C, f=f: outputs(f, u, C), primals, tangents) for f in (self.run, loop)]
        for a, b in zip(*results, strict=True):
            assert off(a, b) < self.tolerance

    @pytest.mark.parametrize("kind", KINDS)
    def test_float32(self, kind: str):
        """Rounding stays relative to the largest entry, and the precision is that of the sequence."""
        w = moved(work(kind, 200, want_state=True), self.device, torch.float32)
        if not BACKENDS[self.backend].supports(w):
            pytest.skip(f"{self.backend} does not support this work: another backend does it")
        for a, b in zip(run(w, self.backend), loop(moved(w, "cpu", torch.float64)), strict=True):
            assert a is not None
            assert a.dtype == torch.float32
            assert off(a, b) < 1e-5
