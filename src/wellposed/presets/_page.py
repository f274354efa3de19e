"""The page of the documentation that lists the presets: what each costs, what is published, what we measured."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from wellposed.presets._estimate import estimate
from wellposed.presets._measured import measured
from wellposed.presets._preset import Preset
from wellposed.presets._table import PRESETS
from wellposed.train import RunConfig
from wellposed.train._progress import duration

COMMAND = "python -m wellposed.presets docs/presets.md"
_WIDTH = 120
_TITLES = {
    "lra_s4ptd": "S4-PTD on the Long Range Arena",
    "lra_s5ptd": "S5-PTD on the Long Range Arena",
    "lra_s4": "S4 on the Long Range Arena",
    "lra_s4d": "S4D on the Long Range Arena",
    "lra_s4ptd_small": "S4-PTD, small",
    "lra_s5ptd_small": "S5-PTD, small",
    "lra_s5": "S5 on the Long Range Arena",
    "lra_liquid_s4": "Liquid-S4 on the Long Range Arena",
    "lra_transformer": "Transformer on the Long Range Arena",
    "lra_h_transformer": "H-Transformer-1D on the Long Range Arena",
    "lra_luna": "Luna-256 on the Long Range Arena",
    "lra_ccnn": "CCNN on the Long Range Arena",
    "scifar_robustness": "sCIFAR, the robustness test",
    "scifar": "sCIFAR, trained as usual",
    "scifar_ablation": "sCIFAR, the ablation",
    "sinusoids": "Sinusoids, the failure modes",
}
_INTRODUCTION = """\
# Presets

<!-- Written by `{command}`: change the presets, not this page. -->

A preset is a function that returns the whole config of a training run. `wellposed.presets.preset(name)` returns one by
name, `wellposed train NAME` trains it, `wellposed train NAME --dry-run` shows it. `tiny-NAME` is the same with
everything small, and trains in seconds on a CPU.

- **Parameters** are counted as real numbers: a complex one is two.
- **H200** is the estimated time of the whole run on one such GPU, in tf32, evaluation included: rather too long, from
  the bars that the benchmarks hold; of Luna, H-Transformer-1D and CCNN a guess.
- **Published** is the accuracy in per cent of the paper's table, or of the papers it cites. **Ours** is that of the
  best epoch by validation, on the test set, from the records in `results/`, a mean where there are several seeds; what
  was set otherwise stands beside it. A dash: not measured yet.
"""


def page(results: Path | None = None) -> str:
    """The page in Markdown; ``results`` is the folder of records with our own accuracies."""
    ours = measured(results) if results else {}
    parts = [_INTRODUCTION.format(command=COMMAND)]
    for title, presets in _sections().items():
        parts.append(f"## {title}\n\n{_prose(presets[0].about)}\n")
        parts.append("\n".join(_rows(presets, ours)) + "\n")
        parts += ["\n".join(notes) + "\n"] if (notes := list(_notes(presets))) else []
    return "\n".join(parts)


def _sections() -> dict[str, list[Preset]]:
    found: dict[str, list[Preset]] = {}
    for preset in PRESETS.values():
        found.setdefault(_TITLES[_function(preset).__name__], []).append(preset)
    return found


def _function(preset: Preset) -> Callable[..., RunConfig]:
    return preset.make.func if isinstance(preset.make, functools.partial) else preset.make


def _prose(about: str) -> str:
    """A docstring as Markdown has it."""
    return about.replace("``", "`")


def _rows(presets: list[Preset], ours: dict[str, str]) -> Iterator[str]:
    yield "| preset | depth x width | states | parameters | batch | epochs | H200 | published | ours |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for preset in presets:
        config = preset()
        cost, model = estimate(config), config.model
        cells = (
            f"`{preset.name}`",
            f"{model['n_layers']} x {model['d_model']}",
            f"{model['layer_options'].get('d_state', '-')}",
            _thousands(cost.parameters),
            f"{config.data.batch_size}",
            f"{config.epochs}",
            duration(cost.seconds),
            _per_cent(preset.published),
            ours.get(preset.name, "-"),
        )
        yield f"| {' | '.join(cells)} |"


def _notes(presets: list[Preset]) -> Iterator[str]:
    """What presets say of themselves; first, and once, what all of them do."""
    notes = {f"`{preset.name}`": [part for part in preset().note.split("; ") if part] for preset in presets}
    common = [part for part in next(iter(notes.values())) if all(part in others for others in notes.values())]
    notes = {"All of them": common} | {k: [n for n in v if n not in common] for k, v in notes.items()}
    for who, said in notes.items():
        if said:
            line = f"- {who}: {'; '.join(said)}."
            yield textwrap.fill(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _thousands(count: int) -> str:
    return f"{count / 1e6:.2f} M" if count >= 1e6 else f"{count / 1e3:.0f} k"


def _per_cent(accuracy: float | None) -> str:
    return "-" if accuracy is None else f"{accuracy:.2f}"
