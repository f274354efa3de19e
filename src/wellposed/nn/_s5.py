"""Layers with one system for all channels: S5, and S5-PTD, which starts from a perturbed matrix."""

from __future__ import annotations

from typing import Any, Literal, Unpack

import torch
from torch import Tensor

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.linalg import Diagonalization
from wellposed.nn._initial import Hippo, Modes, normal_part
from wellposed.nn._initial import blocks as copies
from wellposed.nn._kernels import Spectrum, convolve, discretize, joined, scan, segment, times, wide
from wellposed.nn._lengths import Lengths
from wellposed.nn._s4d import ptd_modes
from wellposed.nn._state_space import Draw, Options, StateSpaceLayer, Timing
from wellposed.systems import DiagonalSystem

CInit = Literal["lecun_normal", "truncated_normal", "complex_normal"]
_C_INITS = ("lecun_normal", "truncated_normal", "complex_normal")
_SPREAD = 0.8796256610342398  # standard deviation of a standard normal number cut off at 2


class MIMOOptions(Options, total=False):
    """What the layers with one system for all channels take besides."""

    C_init: CInit
    """How the read-out starts; see ``MIMOLayer``."""


class MIMOLayer(StateSpaceLayer):
    """One diagonal system with ``d_model`` inputs and outputs; every state has its own step ``dt``.

    At the start ``B`` is ``V^-1 b`` and ``C`` is ``c V``, with real ``b`` and complex ``c`` drawn from normal
    distributions cut off at two standard deviations: variance ``1/n`` for ``b``; for the parts of ``c`` it is ``1/n``
    (``C_init="truncated_normal"``) or ``1/(n d_model)`` (``"lecun_normal"``). ``"complex_normal"`` draws ``C`` itself,
    standard complex normal. These are the scales of the published code (Smith et al., 2023).
    """

    def __init__(
        self,
        d_model: int,
        modes: Modes,
        *,
        C_init: CInit = "lecun_normal",
        seed: int | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
        **timing: Unpack[Timing],
    ) -> None:
        draw, n, stored = Draw(seed, device, dtype), modes.V.shape[0], len(modes.Lambda)
        super().__init__(d_model, modes, draw, steps=stored, **timing)
        if not isinstance(C_init, str) or C_init not in _C_INITS:
            raise UnknownNameError("C_init", C_init if isinstance(C_init, str) else type(C_init).__name__, _C_INITS)
        self.A_log_real = draw.parameter((-modes.Lambda.real).log())
        self.A_imag = draw.parameter(modes.Lambda.imag)
        self.B = draw.parameter(modes.V_inv @ _lecun((n, d_model), n, draw).to(modes.V.dtype))
        directions = 2 if self.bidirectional else 1
        if C_init == "complex_normal":
            self.C = draw.parameter(draw.normal(directions, d_model, stored, 2) / 2**0.5)
        else:
            fan = n * d_model if C_init == "lecun_normal" else n
            c = torch.view_as_complex(_lecun((directions, d_model, n, 2), fan, draw))
            self.C = draw.parameter(c @ modes.V)
        self.D = draw.parameter(draw.normal(d_model))

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Real numbers: two for every stored mode."""
        return (2 * self.count.shape[-1],)

    def _discrete(self, dtype: torch.dtype) -> tuple[Spectrum, Tensor, list[Tensor]]:
        """Modes in discrete time, ``B`` as ``(channel, state)``, ``C`` of each direction likewise."""
        real, imag = -wide(self.A_log_real).exp(), wide(self.A_imag)
        decay, angle, factor = discretize(real, imag, wide(self.log_dt).exp(), self.disc)
        (f, g), (re, im) = factor.unbind(-1), wide(self.B).unbind(-1)
        B = torch.stack([f[:, None] * re - g[:, None] * im, f[:, None] * im + g[:, None] * re], 1).flatten(0, 1)
        C = wide(self.C) * wide(self.count)[:, None]
        C = torch.stack([C[..., 0], -C[..., 1]], -1).flatten(-2)  # Re(C x) as rows
        return Spectrum(decay[None], angle[None]), B.mT.to(dtype), list(C.to(dtype).unbind(0))

    def _filter(
        self, modes: Spectrum, u: Tensor, B: Tensor, C: Tensor, x: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Outputs, and every state ``(batch, length, state)`` in as many pieces as the sequence went through."""
        last = u.new_zeros(len(u), *self.state_shape) if x is None else x
        outputs, states = [], []
        for part in u.split(segment(u, max(u.shape[-1], last.shape[-1])), 1):
            states.append(self._states(modes, part @ B, last))
            outputs.append(states[-1] @ C.mT)
            last = states[-1][:, -1]
        return joined(outputs), states

    def _states(self, modes: Spectrum, v: Tensor, x0: Tensor) -> Tensor:
        return _convolved(modes, v, x0) if self._convolves(v) else scan(v[None], modes.transition, x0[None])[0]

    def _sequence(
        self, u: Tensor, lengths: Lengths | None, state: Tensor | None, want_state: bool
    ) -> tuple[Tensor, Tensor | None]:
        modes, B, C = self._discrete(u.dtype)
        y, states = self._filter(modes, u, B, C[0], state)
        y, last = y + self.D * u, states[-1][:, -1]
        if self.bidirectional:
            flipped = u.flip(1) if lengths is None else lengths.reverse(u)
            back, _ = self._filter(modes, flipped, B, C[1], None)
            y = y + (back.flip(1) if lengths is None else lengths.reverse(back))
        if want_state and lengths is not None:
            last = joined(states)[torch.arange(len(u), device=u.device), lengths.values - 1]
        return y, last

    def _constants(self) -> tuple[Tensor, ...]:
        """What a step needs of the parameters: ``A, B, C, D``."""
        modes, B, C = self._discrete(self.compute_dtype)
        return modes.transition.to(self.compute_dtype), B, C[0].mT, self.D

    def _advance(self, constants: tuple[Tensor, ...], u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        A, B, C, D = constants
        x = times(A, state[None])[0] + u @ B
        return x @ C + D * u, x

    def system(self) -> DiagonalSystem:
        """The layer as it stands: a system of continuous time, in which one step takes one unit of time.

        Every mode has its own step; counting time in steps gives all of them the same.
        """
        dt = wide(self.log_dt).exp()
        Lambda = torch.complex(-wide(self.A_log_real).exp(), wide(self.A_imag)) * dt
        B = torch.view_as_complex(wide(self.B).contiguous()) * dt[:, None]
        C = torch.view_as_complex((wide(self.C[0]) * wide(self.count)[:, None] / 2).contiguous())
        return DiagonalSystem(
            torch.cat([Lambda, Lambda.conj()]),
            torch.cat([B, B.conj()]),
            torch.cat([C, C.conj()], -1),
            torch.diag(wide(self.D)),
        )


def _convolved(modes: Spectrum, v: Tensor, x0: Tensor) -> Tensor:
    """Every state by FFT: a complex convolution for each mode, made of real ones."""
    batch, length, _ = v.shape
    powers = modes.powers(length + 1)[0].to(v.dtype)  # (mode, 2, length + 1)
    inputs = v.unflatten(-1, (-1, 2)).permute(2, 3, 0, 1).flatten(1, 2)  # (mode, 2 batch, length)
    re, im = (convolve(inputs, powers[:, k, :length]).unflatten(1, (2, batch)) for k in (0, 1))
    x = torch.stack([re[:, 0] - im[:, 1], re[:, 1] + im[:, 0]], 1)  # (mode, 2, batch, length)
    x = x.permute(2, 3, 0, 1).flatten(2)
    first = powers[:, :, 1:].permute(2, 0, 1).flatten(1)  # lambda^(t+1), (length, state)
    (a, b), (p, q) = (t.unflatten(-1, (-1, 2)).unbind(-1) for t in (first, x0[:, None]))
    return x + torch.stack([a * p - b * q, a * q + b * p], -1).flatten(-2)


def _lecun(shape: tuple[int, ...], fan: int, draw: Draw) -> Tensor:
    """Variance ``1 / fan``, normal but for what lies beyond two standard deviations, which is drawn again."""
    x = draw.normal(*shape)
    while bool((outside := x.abs() > 2).any()):
        x = torch.where(outside, draw.normal(*shape), x)
    return x / (_SPREAD * fan**0.5)


def _split_blocks(d_state: int, J: int) -> int:
    if d_state % positive_int(J, "blocks"):
        raise ArgumentError(f"blocks = {J} must divide d_state = {d_state}")
    return d_state // J


class S5(MIMOLayer):
    """S5: HiPPO-LegS without its low-rank part, in ``blocks`` copies of size ``d_state / blocks``.

    Further options, the same for all of its kind: ``MIMOOptions``.

    >>> S5(4, 64, blocks=4)(torch.randn(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    def __init__(self, d_model: int, d_state: int = 64, *, blocks: int = 1, **options: Unpack[MIMOOptions]) -> None:
        size = _split_blocks(positive_int(d_state, "d_state"), blocks)
        super().__init__(d_model, copies(normal_part(size), blocks), **options)
        self.blocks = blocks


class S5PTD(MIMOLayer):
    """S5-PTD: the whole HiPPO matrix, perturbed and diagonalised, in ``blocks`` copies of size ``d_state / blocks``.

    The perturbation is real, so eigenvalues come in pairs and half the states suffice. Of ``hippo=(A, B)`` only ``A``
    is used: the input matrix of an S5 layer is drawn.

    Further options, the same for all of its kind: ``MIMOOptions``.

    >>> S5PTD(4, 64, blocks=4, rel=0.05)(torch.randn(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    def __init__(
        self,
        d_model: int,
        d_state: int | None = None,
        *,
        blocks: int = 1,
        hippo: Hippo = "legs",
        perturbation: Diagonalization | None = None,
        rel: float | int | None = None,
        cond: float | int | None = None,
        **options: Unpack[MIMOOptions],
    ) -> None:
        if d_state is None and isinstance(hippo, str) and perturbation is None:
            d_state = 64
        size = None if d_state is None else _split_blocks(positive_int(d_state, "d_state"), blocks)
        modes = ptd_modes(size, hippo, perturbation, rel, cond)
        super().__init__(d_model, copies(modes, positive_int(blocks, "blocks")), **options)
        self.blocks = blocks
