"""A linear system as plain matrices in numpy, written from the definitions: what every structure is compared with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg


class Twin(NamedTuple):
    """``(A, B, C, D)`` with any number of batch axes in front."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray

    def transfer(self, s: Any) -> np.ndarray:
        """``C (sI - A)^-1 B + D``, of shape ``(*batch, *s.shape, p, m)``."""
        s = np.asarray(s, dtype=complex)
        n = self.A.shape[-1]
        pencil = s.reshape(-1, 1, 1) * np.eye(n) - self.A[..., None, :, :]
        right = np.broadcast_to(self.B[..., None, :, :], (*pencil.shape[:-1], self.B.shape[-1]))
        G = self.C[..., None, :, :] @ np.linalg.solve(pencil, right) + self.D[..., None, :, :]
        return G.reshape(*self.A.shape[:-2], *s.shape, *G.shape[-2:])

    def bilinear(self, dt: Any) -> Twin:
        """The paper's formula: ``(I - dt/2 A)^-1 (I + dt/2 A)`` and ``dt (I - dt/2 A)^-1 B``."""
        h = np.asarray(dt)[..., None, None]
        eye = np.eye(self.A.shape[-1])
        inverse = np.linalg.inv(eye - h / 2 * self.A)
        return Twin(inverse @ (eye + h / 2 * self.A), h * inverse @ self.B, self.C, self.D)

    def zoh(self, dt: Any) -> Twin:
        """``exp(dt A)`` and ``integral_0^dt exp(t A) dt B``, both from the exponential of ``dt [[A, B], [0, 0]]``."""
        n, m = self.B.shape[-2:]
        block = np.concatenate([self.A, self.B], axis=-1)
        block = np.concatenate([block, np.zeros((*block.shape[:-2], m, n + m))], axis=-2)
        E = scipy.linalg.expm(np.asarray(dt)[..., None, None] * block)
        return Twin(E[..., :n, :n], E[..., :n, n:], self.C, self.D)

    def discretize(self, dt: Any, method: str) -> Twin:
        return {"bilinear": self.bilinear, "zoh": self.zoh}[method](dt)

    def simulate(self, u: np.ndarray, state: np.ndarray, convention: str) -> tuple[np.ndarray, np.ndarray]:
        """The recurrence, one step after the other: outputs and the state to continue from."""
        x, y = state, []
        for t in range(u.shape[-2]):
            u_t = u[..., t, :, None]
            ahead = (self.A @ x[..., None] + self.B @ u_t)[..., 0]
            read = ahead if convention == "usual" else x
            y.append((self.C @ read[..., None] + self.D @ u_t)[..., 0])
            x = ahead
        return np.stack(np.broadcast_arrays(*y), axis=-2), x

    def markov(self, length: int, convention: str) -> np.ndarray:
        """``D + CB, CAB, ...`` (usual) or ``D, CB, CAB, ...`` (delayed), one power after the other."""
        K, X = [], self.B
        for _ in range(length):
            K.append(self.C @ X)
            X = self.A @ X
        K = [np.zeros_like(K[0]), *K[:-1]] if convention == "delayed" else K
        return np.stack([K[0] + self.D, *K[1:]], axis=-3)


def assert_close(actual: Any, expected: Any, rtol: float) -> None:
    """Same shape, and the largest error is at most ``rtol`` times the largest entry."""
    actual = actual.detach().resolve_conj().numpy() if hasattr(actual, "detach") else np.asarray(actual)
    expected = expected.detach().resolve_conj().numpy() if hasattr(expected, "detach") else np.asarray(expected)
    assert actual.shape == expected.shape
    error, size = np.abs(actual - expected).max(initial=0), np.abs(expected).max(initial=0)
    assert error <= rtol * size, f"error {error:.1e} where the reference reaches {size:.1e}, allowed {rtol:.0e}"
