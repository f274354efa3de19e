"""What heads the page and the README: the claim, one picture, and how many verdicts of each kind there are."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean
from typing import Any

from wellposed.plot import bode
from wellposed.records import Record
from wellposed.report._style import S4D, THIRD, WIDTH, pyplot, to_svg

Data = dict[str, Any]


@dataclass(frozen=True)
class Opening:
    """The claim in one line, in a sentence with its numbers, and as a picture."""

    claim: str
    text: str
    figure: str


def opening(records: list[Record]) -> Opening | None:
    """By accuracy under noise where models have been trained, else by transfer functions; None without either."""
    found = {record.experiment: record for record in records}
    if "robustness-full" in found and _pair(found["robustness-full"].data):
        data = found["robustness-full"].data
        return Opening(
            "One wave inside its layers breaks S4D. S4-PTD hardly notices it.",
            _sentence(data),
            to_svg(noise_headline(data, wide=False), "opening"),
        )
    if "transfer-perturbation" in found:
        return Opening(
            "S4D answers some waves far too loudly. PTD, diagonal too, does not.",
            "HiPPO, from which S4 starts, cannot be diagonalised in floating point. S4D drops a part of it, and pays "
            "at some frequencies. Perturb-then-diagonalize (PTD) takes a neighbour of it, and follows S4 everywhere.",
            to_svg(response_headline(found["transfer-perturbation"].data, WIDTH), "opening"),
        )
    return None


def headline(records: list[Record]) -> Any:
    """The figure at the head of the README, two panels wide if models have been trained; None without records of it."""
    found = {record.experiment: record.data for record in records}
    if "robustness-full" in found and _pair(found["robustness-full"]):
        return noise_headline(found["robustness-full"], wide=True)
    if "transfer-perturbation" in found:
        return response_headline(found["transfer-perturbation"], 1.35 * WIDTH)
    return None


def noise_headline(data: Data, *, wide: bool) -> Any:
    """Accuracy of S4D and S4-PTD over the frequency of noise in their layers; if wide, over its amplitude besides."""
    plt = pyplot()
    size = (1.35 * WIDTH, 3.0) if wide else (WIDTH, 3.4)
    figure, axes = plt.subplots(
        1, 2 if wide else 1, figsize=size, sharey=True, squeeze=False, width_ratios=[1.5, 1][: 1 + wide]
    )
    pair = _pair(data)
    left = axes[0, 0]
    for name, models, colour in pair:
        at = models[0]["spectrum"]["frequency"]
        label = f"{name}, mean of {len(models)} seeds" if len(models) > 1 else name
        left.semilogx(at, _mean(models, "spectrum"), color=colour, lw=1.8, label=label)
        _seeds_at(left, models, data["spike"], colour)
    low = min(_mean(pair[0][1], "spectrum"))
    words = {"textcoords": "offset points", "ha": "right", "weight": "bold"}
    left.annotate("last spike of S4D", (data["spike"], low), (-8, 2), **words)
    left.set(xlabel="frequency of the noise", ylabel="accuracy, %", ylim=(0, 100), xlim=(1, 1000))
    left.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    dots = "" if wide or len(pair[0][1]) == 1 else "; dots: seeds"
    left.set_title(f"A wave of amplitude {data['amplitude']:g} inside the layers{dots}", loc="left")
    left.legend(loc="lower left")
    if wide:
        figure.get_layout_engine().set(wspace=0.07)
        _over_amplitude(axes[0, 1], pair, data["spike"])
    return figure


def _seeds_at(ax: Any, models: list[Data], frequency: float, colour: str) -> None:
    """A dot for each seed, where there are several: how far they differ at the one frequency that matters."""
    for spectrum in (m["spectrum"] for m in models if len(models) > 1):
        found = dict(zip(spectrum["frequency"], spectrum["accuracy"], strict=True))
        if frequency in found:
            ax.plot(frequency, 100 * found[frequency], "o", color=colour, ms=3.5)


def _over_amplitude(ax: Any, pair: list[tuple[str, list[Data], str]], spike: float) -> None:
    for _, models, colour in pair:
        swept = [m for m in models if len(m["amplitudes"]["amplitude"]) > 1]
        at = swept[0]["amplitudes"]["amplitude"]
        ax.semilogx(at, _mean(swept, "amplitudes"), color=colour)
        for m in swept:
            ax.plot(at, [100 * value for value in m["amplitudes"]["accuracy"]], "o", color=colour, ms=3.5)
    ax.set(xlabel="amplitude of the noise", xticks=[0.01, 0.1, 1], xticklabels=["0.01", "0.1", "1"])
    ax.set_title(f"At {spike:.0f}" + ("; dots: seeds" if len(pair[0][1]) > 1 else ""), loc="left")


def _pair(data: Data) -> list[tuple[str, list[Data], str]]:
    """The models of the claim with a sweep over frequencies, both or none."""
    found = []
    for layer, name, colour in (("s4d", "S4D", S4D), ("s4ptd", "S4-PTD", THIRD)):
        mine = [m for m in data["models"] if m["layer"] == layer and m["learns"] != "all" and m["scale"] == "s4"]
        if mine := [m for m in mine if m.get("spectrum") and m.get("amplitudes")]:
            found.append((name, mine, colour))
    return found if len(found) == 2 else []


def _mean(models: list[Data], what: str) -> list[float]:
    """In per cent, over the seeds."""
    return [100 * mean(values) for values in zip(*(m[what]["accuracy"] for m in models), strict=True)]


def _sentence(data: Data) -> str:
    (_, s4d, _), (_, ptd, _) = _pair(data)
    clean, noisy, kept, calm = (
        f"{100 * mean(m[what] for m in models):.1f} %" for models in (s4d, ptd) for what in ("clean", "layer_noise")
    )
    return (
        f"Two classifiers of pictures, which they read pixel by pixel. A wave of amplitude {data['amplitude']:g} and "
        f"frequency {data['spike']:g} inside the layers takes the accuracy of S4D from {clean} to {noisy}, and that of "
        f"S4-PTD, diagonal too and as large, from {kept} to {calm} ({_runs(s4d, ptd)}).{_on_the_input(s4d, ptd)}"
    )


def _runs(s4d: list[Data], ptd: list[Data]) -> str:
    """How many runs the means are of, and how far S4D's lie apart."""
    if len(s4d) == len(ptd) == 1:
        return "one run of each"
    counts = str(len(s4d)) if len(s4d) == len(ptd) else f"{len(s4d)} and {len(ptd)}"
    noisy = [100 * m["layer_noise"] for m in s4d]
    return f"means of {counts} runs; those of S4D end between {min(noisy):.1f} % and {max(noisy):.1f} %"


def _on_the_input(s4d: list[Data], ptd: list[Data]) -> str:
    """The other kind of noise, which does not speak for S4-PTD; nothing where it was not measured."""
    if any(m.get("input_noise") is None for m in (*s4d, *ptd)):
        return ""
    first, second = (100 * mean(m["clean"] - m["input_noise"] for m in models) for models in (s4d, ptd))
    return f" Added to the pictures instead, it costs S4D {first:.1f} points and S4-PTD {second:.1f}."


def response_headline(data: Data, width: float) -> Any:
    """|G| of the three, in one panel."""
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(width, 3.2))
    responses(ax, data["curves"])
    ax.set_title("What each makes of HiPPO, n = 32", loc="left")
    return figure


def responses(ax: Any, curves: Data) -> None:
    """|G| of S4, S4D and PTD: the point of the paper in one panel."""
    what = {"S4": "S4: HiPPO itself", "S4D": "S4D: low-rank part dropped", "S4-PTD": "PTD: diagonal, 2.5 % away"}
    bode({label: curves[name] for name, label in what.items()}, curves["omega"], ax=ax)
    ax.set(xlabel="frequency of the input", ylabel="|G|, gain to the output", ylim=(3e-5, 2))
    ax.legend(loc="lower left", fontsize=9.5)
