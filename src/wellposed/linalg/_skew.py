"""The stable half of the story: a skew-symmetric matrix shifted by a multiple of the identity is normal."""

from __future__ import annotations

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from wellposed._checks import as_tensor, finite
from wellposed.errors import ShapeError


def eig_shifted_skew(N: Float[Tensor, "n n"]) -> tuple[Complex[Tensor, " n"], Complex[Tensor, "n n"]]:
    """Eigenvalues and unitary eigenvectors of a real ``N = c I + S`` with ``S`` skew-symmetric.

    Every eigenvalue gets the real part ``c`` exactly, and eigenvalues and eigenvectors come in exact conjugate
    pairs: ``Lambda[:h]`` has positive imaginary parts in ascending order, ``Lambda[h:2*h]`` their conjugates,
    and the rest (one for odd ``n``, more if ``S`` is singular) equal ``c`` with real eigenvectors.

    >>> Lambda, V = eig_shifted_skew(torch.tensor([[-0.5, 2.0], [-2.0, -0.5]], dtype=torch.float64))
    >>> Lambda.tolist()
    [(-0.5+2j), (-0.5-2j)]
    """
    N = finite(as_tensor(N, "N"), "N")
    if N.ndim != 2 or N.shape[0] != N.shape[1] or N.dtype not in (torch.float32, torch.float64):
        raise ShapeError(f"N must be one square matrix of float32 or float64, got {N.dtype} of shape {tuple(N.shape)}")
    n = N.shape[-1]
    c = N.diagonal().mean()
    S = N - c * torch.eye(n, dtype=N.dtype, device=N.device)
    defect = (S + S.mT).abs().max().item()
    scale = N.abs().max().item()
    if defect > 64 * torch.finfo(N.dtype).eps * scale:
        raise ShapeError(
            f"N - mean(diag(N)) I is not skew-symmetric: |S + S^T| reaches {defect:.2e} where |N| reaches {scale:.2e}"
        )
    mu, W = torch.linalg.eigh(-1j * (S - S.mT) / 2)
    h = int((mu > n * torch.finfo(N.dtype).eps * mu.abs().max()).sum())
    mu, W = mu[n - h :], W[:, n - h :]
    # The real and imaginary parts are orthogonal, up to eps |S| / mu: without that QR a small mu would cost V its
    # unitarity. What is left is the null space of S, which has a real basis, the complement of all the others.
    Q, R = torch.linalg.qr(torch.stack([W.real, W.imag], dim=2).flatten(1), mode="complete")
    parts = Q[:, : 2 * h] * R.diagonal().sign() / 2**0.5
    W = torch.complex(parts[:, ::2], parts[:, 1::2])
    real, null = c.expand(h), Q[:, 2 * h :].to(W.dtype)
    Lambda = torch.cat([torch.complex(real, mu), torch.complex(real, -mu), c.expand(n - 2 * h).to(W.dtype)])
    return Lambda, torch.cat([W, W.conj().resolve_conj(), null], dim=1)
