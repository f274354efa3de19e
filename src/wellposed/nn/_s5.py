"""Layers with one system for all channels: S5, and S5-PTD, which starts from a perturbed matrix."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.linalg import Diagonalization
from wellposed.nn._initial import Hippo, Modes, normal_part
from wellposed.nn._initial import blocks as copies
from wellposed.nn._kernels import DiagonalBank, Discretisation, convolve, discretize, scan, times, wide
from wellposed.nn._layer import Mode, SequenceLayer
from wellposed.nn._lengths import Lengths
from wellposed.nn._s4d import ptd_modes
from wellposed.nn._siso import check_dt, generator_of, pairs_of, placed, random_log_dt
from wellposed.systems import DiagonalSystem

CInit = Literal["lecun_normal", "truncated_normal", "complex_normal"]
_C_INITS = ("lecun_normal", "truncated_normal", "complex_normal")
_SPREAD = 0.8796256610342398  # standard deviation of a standard normal number cut off at 2


class MIMOLayer(SequenceLayer):
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
        dt_min: float,
        dt_max: float,
        disc: Discretisation,
        bidirectional: bool,
        C_init: CInit,
        mode: Mode,
        seed: int | None,
        device: Any,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(d_model, bidirectional=bidirectional)
        check_dt(dt_min, dt_max)
        for kind, name, known in (
            ("disc", disc, ("zoh", "bilinear")),
            ("mode", mode, ("auto", "scan", "conv")),
            ("C_init", C_init, _C_INITS),
        ):
            if not isinstance(name, str) or name not in known:
                raise UnknownNameError(kind, name if isinstance(name, str) else type(name).__name__, known)
        self.d_state = n = modes.V.shape[0]
        self.disc: Discretisation = disc
        self.mode: Mode = mode
        draw = generator_of(seed)

        def parameter(value: Tensor) -> nn.Parameter:
            return nn.Parameter(placed(value, device, dtype))

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, dtype=torch.float64, generator=draw, device="cpu")

        stored = len(modes.Lambda)
        self.log_dt = parameter(random_log_dt(stored, dt_min, dt_max, draw))
        self.A_log_real = parameter((-modes.Lambda.real).log())
        self.A_imag = parameter(modes.Lambda.imag.clone())
        self.B = parameter(pairs_of(modes.V_inv @ _lecun((n, d_model), n, draw).to(modes.V.dtype)))
        directions = 2 if bidirectional else 1
        if C_init == "complex_normal":
            self.C = parameter(normal(directions, d_model, stored, 2) / 2**0.5)
        else:
            fan = n * d_model if C_init == "lecun_normal" else n
            c = torch.view_as_complex(_lecun((directions, d_model, n, 2), fan, draw))
            self.C = parameter(pairs_of(c @ modes.V))
        self.D = parameter(normal(d_model))
        self.register_buffer("count", placed(modes.count, device, dtype))
        self.count: Tensor

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Real numbers: two for every stored mode."""
        return (2 * self.count.shape[-1],)

    @property
    def dt(self) -> Float[Tensor, " mode"]:
        """Step of every mode."""
        return self.log_dt.exp()

    def _discrete(self, dtype: torch.dtype) -> tuple[DiagonalBank, Tensor, list[Tensor]]:
        """Modes in discrete time (one channel), ``B`` as ``(channel, state)``, ``C`` of each direction likewise."""
        real, imag = -wide(self.A_log_real).exp(), wide(self.A_imag)
        decay, angle, factor = discretize(real, imag, wide(self.log_dt).exp(), self.disc)
        (f, g), (re, im) = factor.unbind(-1), wide(self.B).unbind(-1)
        B = torch.stack([f[:, None] * re - g[:, None] * im, f[:, None] * im + g[:, None] * re], 1).flatten(0, 1)
        C = wide(self.C) * wide(self.count)[:, None]
        C = torch.stack([C[..., 0], -C[..., 1]], -1).flatten(-2)  # Re(C x) as rows
        none = torch.zeros(1, len(decay), 2, dtype=decay.dtype, device=decay.device)
        bank = DiagonalBank(decay[None], angle[None], none, none)
        return bank, B.mT.to(dtype), list(C.to(dtype).unbind(0))

    def _states(self, bank: DiagonalBank, v: Tensor, x0: Tensor | None) -> Tensor:
        """Every state, ``(batch, length, state)``."""
        first = torch.zeros_like(v[:, 0]) if x0 is None else x0
        if self._convolves(v):
            return _convolved(bank, v, first)
        return scan(v[None], bank.transition, first[None])[0]

    def _sequence(
        self, u: Tensor, lengths: Lengths | None, state: Tensor | None, want_state: bool
    ) -> tuple[Tensor, Tensor | None]:
        bank, B, C = self._discrete(u.dtype)
        v = u @ B
        x = self._states(bank, v, state)
        y, last = x @ C[0].mT + self.D * u, None
        if self.bidirectional:
            flipped = v.flip(1) if lengths is None else lengths.reverse(v)
            back = self._states(bank, flipped, None) @ C[1].mT
            y = y + (back.flip(1) if lengths is None else lengths.reverse(back))
        if want_state:
            last = x[:, -1] if lengths is None else x[torch.arange(len(u), device=u.device), lengths.values - 1]
        return y, last

    def _one_step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self._advance(self._constants(), u, state)

    def _constants(self) -> tuple[Tensor, ...]:
        """What a step needs of the parameters: ``A, B, C, D``."""
        bank, B, C = self._discrete(self.compute_dtype)
        return bank.transition.to(self.compute_dtype), B, C[0].mT, self.D

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

    def extra_repr(self) -> str:
        """Sizes, as the constructor takes them."""
        text = f"d_model={self.d_model}, d_state={self.d_state}, disc={self.disc!r}"
        return text + (", bidirectional=True" if self.bidirectional else "")


def _convolved(bank: DiagonalBank, v: Tensor, x0: Tensor) -> Tensor:
    """Every state by FFT: a complex convolution for each mode, made of real ones."""
    batch, length, _ = v.shape
    powers = bank._powers(0, length + 1)[0].to(v.dtype)  # (mode, 2, length + 1)
    modes = v.unflatten(-1, (-1, 2)).permute(2, 3, 0, 1).flatten(1, 2)  # (mode, 2 batch, length)
    re, im = (convolve(modes, powers[:, k, :length]).unflatten(1, (2, batch)) for k in (0, 1))
    x = torch.stack([re[:, 0] - im[:, 1], re[:, 1] + im[:, 0]], 1)  # (mode, 2, batch, length)
    x = x.permute(2, 3, 0, 1).flatten(2)
    first = powers[:, :, 1:].permute(2, 0, 1).flatten(1)  # lambda^(t+1), (length, state)
    (a, b), (p, q) = (t.unflatten(-1, (-1, 2)).unbind(-1) for t in (first, x0[:, None]))
    return x + torch.stack([a * p - b * q, a * q + b * p], -1).flatten(-2)


def _lecun(shape: tuple[int, ...], fan: int, draw: torch.Generator | None) -> Tensor:
    """Variance ``1 / fan``, normal but for what lies beyond two standard deviations, which is drawn again."""
    x = torch.randn(shape, dtype=torch.float64, generator=draw, device="cpu")
    while bool((outside := x.abs() > 2).any()):
        x = torch.where(outside, torch.randn(shape, dtype=torch.float64, generator=draw, device="cpu"), x)
    return x / (_SPREAD * fan**0.5)


def _split_blocks(d_state: int, J: int) -> int:
    if d_state % positive_int(J, "blocks"):
        raise ArgumentError(f"blocks = {J} must divide d_state = {d_state}")
    return d_state // J


class S5(MIMOLayer):
    """S5: HiPPO-LegS without its low-rank part, in ``blocks`` copies of size ``d_state / blocks``.

    >>> S5(4, 64, blocks=4)(torch.randn(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    def __init__(
        self,
        d_model: int,
        d_state: int = 64,
        *,
        blocks: int = 1,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        disc: Discretisation = "zoh",
        bidirectional: bool = False,
        C_init: CInit = "lecun_normal",
        mode: Mode = "auto",
        seed: int | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        d_state = positive_int(d_state, "d_state")
        super().__init__(
            d_model,
            copies(normal_part(_split_blocks(d_state, blocks)), blocks),
            dt_min=dt_min,
            dt_max=dt_max,
            disc=disc,
            bidirectional=bidirectional,
            C_init=C_init,
            mode=mode,
            seed=seed,
            device=device,
            dtype=dtype,
        )


class S5PTD(MIMOLayer):
    """S5-PTD: the whole HiPPO matrix, perturbed and diagonalised, in ``blocks`` copies of size ``d_state / blocks``.

    The perturbation is real, so eigenvalues come in pairs and half the states suffice. Of ``hippo=(A, B)`` only ``A``
    is used: the input matrix of an S5 layer is drawn.

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
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        disc: Discretisation = "zoh",
        bidirectional: bool = False,
        C_init: CInit = "lecun_normal",
        mode: Mode = "auto",
        seed: int | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if d_state is None and isinstance(hippo, str) and perturbation is None:
            d_state = 64
        size = None if d_state is None else _split_blocks(positive_int(d_state, "d_state"), blocks)
        super().__init__(
            d_model,
            copies(ptd_modes(size, hippo, perturbation, rel, cond), positive_int(blocks, "blocks")),
            dt_min=dt_min,
            dt_max=dt_max,
            disc=disc,
            bidirectional=bidirectional,
            C_init=C_init,
            mode=mode,
            seed=seed,
            device=device,
            dtype=dtype,
        )
