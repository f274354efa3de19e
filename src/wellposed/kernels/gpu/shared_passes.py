"""Forward and backward of one system for all channels: dense products, and scans by ``mode_scan``.

With ``U`` a matrix of all steps of all sequences, ``V = U B^T``, ``X`` the states of both directions side by side and
``Y = X C^T + D U`` one product; nine products of that size forward and backward. They round as PyTorch's own switch for
float32 says. docs/devdocs/gpu.md
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from wellposed.kernels.discretize import Discretisation
from wellposed.kernels.gpu import discretize, mode_scan
from wellposed.kernels.gpu.discretize import Parameters, Tables
from wellposed.kernels.gpu.mode_scan import Modes
from wellposed.kernels.gpu.skip import write_skip, write_skip_gradient
from wellposed.kernels.gpu.tiles import new_sequences
from wellposed.kernels.layout import is_channels_first
from wellposed.kernels.products import product, sum_over_steps
from wellposed.kernels.work import Sequences

State = Float[Tensor, "batch state"]


class Saved(NamedTuple):
    """What backward needs besides the inputs; one list of tensors, as operators return it."""

    states: Tensor
    """Of every step, the largest thing a layer keeps: found anew they cost a product, a read and a write of them."""
    one: Float[Tensor, "2 mode"]
    tile: Float[Tensor, "2 mode"]
    B: Float[Tensor, "state channel"]
    C: Float[Tensor, "channel wide"]

    @property
    def tables(self) -> Tables:
        """As the products and scans take them."""
        return Tables(Modes(self.one, self.tile), self.B, self.C)


def forward(
    u: Sequences,
    D: Float[Tensor, " channel"] | None,
    state: State | None,
    lengths: Int[Tensor, " batch"] | None,
    parameters: Parameters,
    disc: Discretisation,
    want_state: bool,
) -> tuple[Sequences, Float[Tensor, "wanted state"], Saved]:
    """Outputs, the last state (without entries where it is not wanted), and what backward needs."""
    tables = discretize.tables(parameters, disc, u.dtype)
    directions, size = len(parameters.C), tables.B.shape[0]
    y = empty_like(u)
    last = torch.empty(len(u) if want_state else 0, size, dtype=torch.float32, device=u.device)
    x = states_of(u, tables, directions, state, lengths, last if want_state else None)
    out = y.flatten(0, 1)
    if D is not None:
        write_skip(u.flatten(0, 1), D.contiguous(), out)
    product(x.flatten(0, 1), tables.C.t(), out=out, add=D is not None)
    return y, last, Saved(x, *tables.modes, tables.B, tables.C)


def states_of(
    u: Sequences,
    tables: Tables,
    directions: int,
    state: State | None = None,
    lengths: Int[Tensor, " batch"] | None = None,
    last: State | None = None,
) -> Float[Tensor, "batch length wide"]:
    """Every state, of both directions side by side; also ``last``, where it is given."""
    v = _by_sequence(product(u.flatten(0, 1), tables.B.t()), u)
    carries = mode_scan.carried(v, tables.modes, directions, None if state is None else state.contiguous())
    return mode_scan.states(v, tables.modes, directions, carries, lengths, last)


def backward(
    dy: Sequences,
    d_last: State | None,
    u: Sequences,
    D: Float[Tensor, " channel"] | None,
    state: State | None,
    lengths: Int[Tensor, " batch"] | None,
    parameters: Parameters,
    disc: Discretisation,
    saved: Saved,
) -> list[Tensor]:
    """Gradients of ``u, D, state`` (without entries where there is none) and of the parameters but their weight."""
    tables, directions = saved.tables, len(parameters.C)
    dv, d_modes, dC, first = adjoint(dy, saved.states, tables, directions, d_last, lengths)
    d_state = torch.empty(0, device=u.device)
    if state is not None:
        d_state, more = _gradient_of_state(first, tables.modes, state)
        d_modes = d_modes + more
    rows, du = u.flatten(0, 1), empty_like(u)  # after the adjoint, where memory is at its peak
    out, dD = du.flatten(0, 1), torch.empty(0, device=u.device)
    if D is not None:
        dD = write_skip_gradient(dy.flatten(0, 1), rows, D.contiguous(), out)
    dB = sum_over_steps(dv.t(), rows.t())
    product(dv, tables.B, out=out, add=D is not None)
    return [du, dD, d_state, *discretize.gradients(parameters, disc, d_modes, dB, dC)]


def adjoint(
    dy: Sequences,
    x: Float[Tensor, "batch length wide"],
    tables: Tables,
    directions: int,
    d_last: State | None = None,
    lengths: Int[Tensor, " batch"] | None = None,
) -> tuple[Float[Tensor, "row state"], Float[Tensor, "2 mode"], Float[Tensor, "channel wide"], Tensor]:
    """Gradients of ``V``, of ``lambda`` (but for what an initial state adds) and of ``C``; adjoints before step 0."""
    d_rows = dy.flatten(0, 1)
    dC = sum_over_steps(d_rows.t(), x.flatten(0, 1).t())
    g = _by_sequence(product(d_rows, tables.C), dy)
    if d_last is not None:
        _add_at_end(g, d_last, lengths)
    carries = mode_scan.carried(g, tables.modes, directions, adjoint=True)
    dv, d_modes = mode_scan.gradients(g, x, tables.modes, directions, carries)
    return dv.flatten(0, 1), d_modes, dC, carries[:, 0]


def empty_like(u: Sequences) -> Sequences:
    """Memory in the order of ``u``: channels first if that is how it lies, else last."""
    if is_channels_first(u) and not u.is_contiguous():
        return new_sequences(u.permute(2, 0, 1), u.dtype)
    return torch.empty(u.shape, dtype=u.dtype, device=u.device)


def _by_sequence(rows: Tensor, u: Sequences) -> Tensor:
    return rows.view(*u.shape[:2], rows.shape[1])


def _add_at_end(g: Tensor, d_last: State, lengths: Int[Tensor, " batch"] | None) -> None:
    """The last state is a state like others, that of the last step; it comes with both parts of a mode in turn."""
    halves = d_last.unflatten(1, (-1, 2)).mT.flatten(1).to(g.dtype)
    if lengths is None:
        g[:, -1, : halves.shape[1]] += halves
    else:
        g[torch.arange(len(g), device=g.device), lengths - 1, : halves.shape[1]] += halves


def _gradient_of_state(first: Tensor, modes: Modes, state: State) -> tuple[State, Float[Tensor, "2 mode"]]:
    """``conj(lambda) r_0`` for the initial state, and ``r_0 conj(x_{-1})``, its part in the gradient of ``lambda``."""
    (a, b), P = modes.one, modes.one.shape[1]
    p, q = first[:, :P], first[:, P : 2 * P]
    x, y = state.unflatten(1, (-1, 2)).unbind(-1)
    d_state = torch.stack([a * p + b * q, a * q - b * p], -1).flatten(1).to(state.dtype)
    return d_state, torch.stack([(p * x + q * y).sum(0), (q * x - p * y).sum(0)])
