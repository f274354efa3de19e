"""What the points of the ablation come to: claims, and the same in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean
from typing import Any

from wellposed.records import Claim

_STEEPEST, _FLATTEST = -1.0, -0.75
_SIZES = 10
"""That tell how accuracy goes with the size."""


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the line through the logarithms, by least squares.

    >>> round(slope([1.0, 10.0, 100.0], [5.0, 0.5, 0.05]), 6)
    -1.0
    """
    u, v = ([math.log(value) for value in values] for values in (x, y))
    centred = [each - mean(u) for each in u]
    return sum(a * b for a, b in zip(centred, v, strict=True)) / sum(a * a for a in centred)


def of_condition(data: dict[str, Any]) -> tuple[list[Claim], str]:
    """Condition numbers against sizes: the slope, and random perturbations of the same sizes beside."""
    points = {p["name"]: p for p in data["points"]}
    mine = [p for p in points.values() if p["kind"] == "gamma"]
    if len({p["rel"] for p in mine}) < 3:
        return [], "Nothing is measured yet." if not mine else "Too few sizes are measured yet for a slope."
    claims, words = [], []
    for kind, name in (("gamma", "HiPPO-LegS"), ("legt", "HiPPO-LegT")):
        some = [p for p in points.values() if p["kind"] == kind]
        if len(some) < 3:
            continue
        found = slope([p["rel"] for p in some], [p["kappa"] for p in some])
        text = f"slope of log kappa against log ||E||/||A||, {name}"
        claims += [
            Claim(text, found, _FLATTEST, 0.0, "roughly -1", kind="at most"),
            Claim(f"{text}, from below", found, _STEEPEST, 0.0, "roughly -1", kind="at least"),
        ]
        words.append(f"{found:.3f} over {len(some)} sizes of {name}")
    random = data["random"]
    by_size = {p["rel"]: p["condition"] for p in mine}
    stable = [each for each in random if each["abscissa"] < 0]
    factors = [each["condition"] / _nearest(by_size, each["rel"]) for each in stable]
    if factors:
        text = "condition number of a random perturbation over that of the minimiser of the same size, smallest"
        claims.append(Claim(text, min(factors), 3.0, 0.0, "-", kind="at least"))
    unstable = len(random) - len(stable)
    finding = (
        f"kappa(V) falls with ||E||/||A|| as a power: {'; '.join(words)}. A random perturbation of the same size is "
        f"unstable for {unstable} of {len(random)} sizes, and elsewhere"
    )
    return claims, f"{finding} {min(factors):.0f} to {max(factors):.0f} times worse conditioned." if factors else words[
        0
    ]


def _nearest(values: dict[float, float], at: float) -> float:
    return values[min(values, key=lambda rel: abs(math.log(rel / at)))]


def of_accuracy(points: Sequence[dict[str, Any]]) -> list[Claim]:
    """The paper's description of its curve, once there are as many sizes as it has."""
    mine = _means([p for p in points if p["kind"] == "gamma"], "rel")
    if len(mine) < _SIZES:
        return []
    best = max(mine, key=lambda rel: mine[rel])
    at = "||E||/||A|| at which S4-PTD is most accurate"
    lost = "points S4-PTD is less accurate than at best with the {} perturbation"
    least = 2.0  # three deviations of a difference between accuracies on 10,000 pictures are 1.7
    return [
        Claim(at, best, 0.01, 0.0, "between 0.01 and 1", kind="at least"),
        Claim(f"{at}, from above", best, 1.0, 0.0, "between 0.01 and 1", kind="at most"),
        *(
            Claim(lost.format(which), mine[best] - mine[rel], least, 0.0, "accuracy drops", kind="at least")
            for which, rel in (("smallest", min(mine)), ("largest", max(mine)))
        ),
    ]


def _means(points: Sequence[dict[str, Any]], by: str) -> dict[Any, float]:
    """Accuracies in per cent over the seeds."""
    found: dict[Any, list[float]] = {}
    for p in points:
        found.setdefault(p[by], []).append(100 * p["accuracy"])
    return {key: mean(values) for key, values in found.items()}


def best_size(points: Sequence[dict[str, Any]]) -> str:
    """Accuracies beside the paper's description: best between 0.01 and 1, less on both sides."""
    mine = _means([p for p in points if p["kind"] == "gamma"], "rel")
    if not mine:
        return ""
    best, worst = (choose(mine, key=lambda rel: mine[rel]) for choose in (max, min))
    words = (
        f" Test accuracy is best, {mine[best]:.2f} %, at ||E||/||A|| = {best:.2g} and lowest, {mine[worst]:.2f} %, at "
        f"{worst:.2g}"
    )
    inside, outside = ([value for rel, value in mine.items() if (rel >= 0.01) == large] for large in (True, False))
    if inside and outside:
        words += f"; on average {mean(inside):.2f} % from 0.01 on and {mean(outside):.2f} % below"
    others = _means([p for p in points if p["kind"] != "gamma"], "name")
    listed = ", ".join(f"{name} {value:.2f}" for name, value in others.items())
    return words + (f". Controls: {listed} %." if others else ".")


def responses(points: Sequence[dict[str, Any]]) -> str:
    """What training made of the largest response of any layer, smallest perturbation last."""
    known = sorted((p for p in points if p.get("response")), key=lambda p: -p["rel"])
    mine = [p for p in known if p["kind"] == "gamma"]
    if len(mine) < 2:
        return ""
    grown = [
        f"{p['response']['after']['value']:.3g} at {p['rel']:.2g}" for p in (mine[0], mine[len(mine) // 2], mine[-1])
    ]
    before = [p["response"]["before"]["value"] for p in mine]
    words = (
        f" Before training the largest response of any layer is {min(before):.3g} to {max(before):.3g} whatever the "
        f"size; after it {', '.join(grown)}"
    )
    others = [f"{p['name']} {p['response']['after']['value']:.3g}" for p in known if p["kind"] != "gamma"]
    return words + (f" (controls: {', '.join(others)})." if others else ".")
