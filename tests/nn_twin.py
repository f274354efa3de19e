"""The slow twin of every layer: dense complex matrices, a matrix exponential or a linear solve, a loop over time.

Written from the equations and from the names of the parameters, in float64, without any code of ``wellposed.nn``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Parameters = Mapping[str, Tensor]


def parameters_of(layer: Any) -> dict[str, Tensor]:
    """Parameters and buffers by name, in float64 on the CPU, ready to be differentiated."""
    named = {name: p.detach().cpu().double().requires_grad_() for name, p in layer.named_parameters()}
    return named | {name: b.cpu().double() for name, b in layer.named_buffers()}


def simulate(layer: Any, p: Parameters, u: Tensor, x0: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """``(batch, length, d_model)`` through the equations; returns the state too, as the layer lays it out."""
    u, x0 = u.cpu(), None if x0 is None else x0.cpu()
    run = _mimo if "A_log_real" in p and p["A_log_real"].ndim == 1 else _siso
    y, x = run(layer, p, u, 0, x0)
    if layer.bidirectional:
        y = y + run(layer, p, u.flip(1), 1, None)[0].flip(1)
    return y + p["D"] * u, x


def _complex(pairs: Tensor) -> Tensor:
    return torch.complex(pairs[..., 0], pairs[..., 1])


def _discretize(A: Tensor, B: Tensor, dt: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """One channel: ``A`` (n, n), ``B`` (n, m)."""
    eye = torch.eye(len(A), dtype=A.dtype)
    if method == "zoh":
        A_bar = torch.linalg.matrix_exp(torch.stack([A * dt, A * dt]))[0]  # a batch: pytorch issue 196592
        return A_bar, torch.linalg.solve(A, (A_bar - eye) @ B)
    inverse = torch.linalg.inv(eye - dt / 2 * A)
    return inverse @ (eye + dt / 2 * A), inverse @ (dt * B)


def _siso(layer: Any, p: Parameters, u: Tensor, direction: int, x0: Tensor | None) -> tuple[Tensor, Tensor]:
    count = p["count"]
    outputs, states = [], []
    for h in range(layer.d_model):
        k = h % layer.n_ssm
        half = torch.complex(-p["A_log_real"][k].exp(), p["A_imag"][k])
        # All modes written out: a mode that counts once is split into two halves of weight 1/2.
        both = torch.cat([half, half.conj()])
        A = torch.diag(both)
        if "P" in p:
            P = _complex(p["P"][k])
            P = torch.cat([P, P.conj()])
            A = A - P @ (P.conj() * torch.cat([count, count])[:, None] / 2).T
        B = _complex(p["B"][k])
        C = _complex(p["C"][direction, h]) * count / 2
        A_bar, B_bar = _discretize(A, torch.cat([B, B.conj()])[:, None], p["log_dt"][h].exp(), layer.disc)
        C = torch.cat([C, C.conj()])
        start = None if x0 is None else x0[:, h]
        y, x = _loop(layer, A_bar, B_bar[:, 0], C, u[..., h], start)
        outputs.append(y)
        states.append(x)
    return torch.stack(outputs, -1), torch.stack(states, 1)


def _loop(layer: Any, A: Tensor, B: Tensor, C: Tensor, u: Tensor, x0: Tensor | None) -> tuple[Tensor, Tensor]:
    """One channel over time, with the products of Liquid-S4 if the layer has them."""
    degree = getattr(layer, "degree", 1)
    n = len(B) // 2
    x = torch.zeros(len(u), len(B), dtype=A.dtype)
    past = [torch.zeros_like(u[:, 0]) for _ in range(degree - 1)]
    if x0 is not None:
        half = _complex(x0[:, : 2 * n].unflatten(-1, (n, 2)))
        x = torch.cat([half, half.conj()], -1)
        past = list(x0[:, 2 * n :].unbind(-1))
    ys = []
    for t in range(u.shape[1]):
        inputs = [u[:, t]]
        for back in range(1, degree):
            inputs.append(inputs[-1] * past[-back])
        x = x @ A.T + inputs[0][:, None] * B
        extra = torch.zeros_like(u[:, 0])
        for power, v in enumerate(inputs[1:], start=2):
            if layer.kernel == "kb":
                x = x + v[:, None] * B**power
            else:
                extra = extra + v * (C @ B**power).real
        ys.append((x @ C).real + extra)
        past = [*past, u[:, t]][1:] if degree > 1 else past
    state = torch.view_as_real(x[:, :n].resolve_conj()).flatten(1)
    return torch.stack(ys, 1), torch.cat([state, *(p[:, None] for p in past)], -1)


def _mimo(layer: Any, p: Parameters, u: Tensor, direction: int, x0: Tensor | None) -> tuple[Tensor, Tensor]:
    half = torch.complex(-p["A_log_real"].exp(), p["A_imag"])
    B, C = _complex(p["B"]), _complex(p["C"][direction]) * p["count"] / 2
    steps = p["log_dt"].exp()
    discrete = [_discretize(half[k].reshape(1, 1), B[k].reshape(1, -1), steps[k], layer.disc) for k in range(len(half))]
    lam = torch.cat([a[0] for a, _ in discrete])
    B_bar = torch.cat([b for _, b in discrete])
    x = torch.zeros(len(u), len(lam), dtype=lam.dtype) if x0 is None else _complex(x0.unflatten(-1, (-1, 2)))
    ys = []
    for t in range(u.shape[1]):
        x = lam * x + u[:, t].to(lam.dtype) @ B_bar.T
        ys.append(2 * (x @ C.T).real)
    return torch.stack(ys, 1), torch.view_as_real(x.resolve_conj()).flatten(1)
