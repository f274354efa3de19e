"""The page of the documentation that lists the presets: what each costs, what is published, what we measured."""

from __future__ import annotations

import functools
import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wellposed.presets._estimate import estimate
from wellposed.presets._preset import Preset
from wellposed.presets._table import PRESETS
from wellposed.train import RunConfig

COMMAND = "python -m wellposed.presets docs/presets.md"
_WIDTH = 120
_TITLES = {
    "lra_s4ptd": "S4-PTD on the Long Range Arena",
    "lra_s5ptd": "S5-PTD on the Long Range Arena",
    "lra_s4": "S4 on the Long Range Arena",
    "lra_s4d": "S4D on the Long Range Arena",
    "lra_s4ptd_small": "S4-PTD, small",
    "lra_s5": "S5 on the Long Range Arena",
    "lra_liquid_s4": "Liquid-S4 on the Long Range Arena",
    "lra_transformer": "Transformer on the Long Range Arena",
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
  the bars that the benchmarks hold.
- **Published** is the accuracy in per cent of the paper's table, or of the papers it cites. **Ours** is that of the
  best epoch by validation, on the test set, from the records in `results/`; a dash where none is measured yet.
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


def measured(results: Path) -> dict[str, float]:
    """Accuracies in per cent by preset, of the records of training in a folder: the best where there are several."""
    found: dict[str, float] = {}
    for file in sorted(results.glob("*.json")):
        name, accuracy = _result(json.loads(file.read_text(encoding="utf-8")))
        if name is not None and accuracy is not None:
            found[name] = max(found.get(name, 0.0), 100 * accuracy)
    return found


def _result(record: Any) -> tuple[str | None, float | None]:
    """Whose run a record is of, and what it came to on the test set; nothing for a record of another kind."""
    data = record.get("data") if isinstance(record, dict) else None
    run = data if isinstance(data, dict) and "config" in data else record
    if not isinstance(run, dict) or not isinstance(run.get("config"), dict):
        return None, None
    test = run.get("test")
    return run["config"].get("name"), test.get("accuracy") if isinstance(test, dict) else None


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


def _rows(presets: list[Preset], ours: dict[str, float]) -> Iterator[str]:
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
            _per_cent(ours.get(preset.name)),
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


def duration(seconds: float) -> str:
    """In the unit that suits it, to two digits: nobody should take it for more.

    >>> duration(95), duration(4000), duration(400000)
    ('1.6 min', '1.1 h', '4.6 days')
    """
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} s"
