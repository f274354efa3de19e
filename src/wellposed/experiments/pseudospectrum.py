"""A_H's pseudospectra, and the perturbed eigenvalues on them: why the closed form works."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wellposed import hippo
from wellposed.experiments._experiment import Experiment, Result
from wellposed.linalg import pseudospectra, ptd
from wellposed.records import Claim

SIZE = 32
RELS = (1e-1, 1e-2, 1e-4)
POINTS = 121
BOX = (-420.0, 60.0, -260.0, 260.0)


def run(track: Callable) -> Result:
    """sigma_min on a grid, the eigenvalues of A + E for three sizes, and sigma_min at each of them."""
    A, _ = hippo.legs(SIZE)
    norm = float(np.linalg.norm(A.numpy(), 2))
    grid = pseudospectra(A, points=POINTS, box=BOX)
    clouds, ratios = [], []
    for rel in track(RELS):
        d = ptd(A, method="rank-one", rel=rel, stable=True)
        lam = np.asarray(d.Lambda.numpy(), dtype=complex)
        level = [float(np.linalg.svd(z * np.eye(SIZE) - A.numpy(), compute_uv=False)[-1]) / (rel * norm) for z in lam]
        clouds.append({"rel": rel, "real": np.real(lam).tolist(), "imag": np.imag(lam).tolist(), "level": level})
        ratios.append(max(level))
    claims = [
        Claim(
            "largest sigma_min(lambda - A) / ||E|| over all perturbed eigenvalues",
            max(ratios),
            1.0,
            1e-9,
            "an eigenvalue of A + E lies in the ||E||-pseudospectrum",
            kind="at most",
        ),
        Claim(
            "distance of the eigenvalues of A + E (rel 0.1) from those of A, over n",
            float(np.abs(np.array(clouds[0]["real"]) + 1j * np.array(clouds[0]["imag"])).max()) / SIZE,
            1.0,
            0.0,
            "the forward error is large",
            kind="at least",
        ),
    ]
    finding = (
        "The eigenvalues of A are -1 to -32; a matrix within 1e-4 of it has eigenvalues far from all of them. Those of "
        "A + E line up along the level curves of the resolvent, which is where they are well conditioned."
    )
    data = {
        "n": SIZE,
        "norm": norm,
        "x": [round(v, 4) for v in grid.x.tolist()],
        "y": [round(v, 4) for v in grid.y.tolist()],
        "log10_rel": [[round(v, 3) for v in row] for row in (grid.sigma / norm).log10().clamp(min=-14).tolist()],
        "clouds": clouds,
    }
    return Result(finding, claims, data)


EXPERIMENT = Experiment(
    title="Where the eigenvalues of nearby matrices are",
    source="Section 4, Appendix A",
    paper="The eigenvalues of A_H are ill-conditioned: a tiny perturbation moves them far, yet A + E is close to A.",
    run=run,
)
