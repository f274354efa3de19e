"""The presets by name. A new one is a function that returns a config, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from wellposed.errors import UnknownNameError
from wellposed.presets._ccnn import ROWS as CCNN_ROWS
from wellposed.presets._ccnn import lra_ccnn
from wellposed.presets._luna import ROWS as LUNA_ROWS
from wellposed.presets._luna import lra_luna
from wellposed.presets._preset import Preset
from wellposed.presets._published import lra_accuracy
from wellposed.presets._s4 import SMALL_ROWS, lra_liquid_s4, lra_s4, lra_s4d, lra_s4ptd, lra_s4ptd_small
from wellposed.presets._s5 import SMALL_ROWS as S5_SMALL_ROWS
from wellposed.presets._s5 import lra_s5, lra_s5ptd, lra_s5ptd_small
from wellposed.presets._scifar import RELS, scifar, scifar_ablation, scifar_robustness
from wellposed.presets._sinusoids import sinusoids
from wellposed.presets._tasks import LRA
from wellposed.presets._tiny import tiny
from wellposed.presets._transformer import lra_h_transformer, lra_transformer
from wellposed.train import RunConfig

_LRA: dict[str, Callable[[str], RunConfig]] = {
    "s4ptd": lra_s4ptd,
    "s5ptd": lra_s5ptd,
    "s4": lra_s4,
    "s4d": lra_s4d,
    "s5": lra_s5,
    "liquid-s4": lra_liquid_s4,
    "transformer": lra_transformer,
    "h-transformer": lra_h_transformer,
    "luna": lra_luna,
    "ccnn": lra_ccnn,
}
"""By layer, one for every task of the Long Range Arena ..."""
_SOME = {"luna": tuple(LUNA_ROWS), "ccnn": tuple(CCNN_ROWS["6,380"])}
"""... but for these, of which not all have a recipe."""
_TINY = "tiny-"


def _all() -> Iterator[Preset]:
    for layer, make in _LRA.items():
        for task in _SOME.get(layer, LRA):
            yield Preset(f"lra-{task}-{layer}", partial(make, task), lra_accuracy(task, layer))
    for task in _SOME["ccnn"]:
        yield Preset(f"lra-{task}-ccnn-small", partial(lra_ccnn, task, "4,140"))
    for task in LRA:
        yield Preset(f"lra-{task}-s4-v4", partial(lra_s4, task, "v4"))
    for task in SMALL_ROWS:
        yield Preset(f"lra-{task}-s4-small", partial(lra_s4, task, "small"))
        yield Preset(f"lra-{task}-s4d-small", partial(lra_s4d, task, "small"))
        yield Preset(f"lra-{task}-s4ptd-small", partial(lra_s4ptd_small, task))
    for task in S5_SMALL_ROWS:
        yield Preset(f"lra-{task}-s5ptd-small", partial(lra_s5ptd_small, task))
    for layer in ("s4d", "s4ptd", "s5", "s5ptd"):
        yield Preset(f"scifar-{layer}", partial(scifar_robustness, layer))
    for layer in ("s4", "s4d", "s4ptd", "s5", "s5ptd"):
        yield Preset(f"scifar-{layer}-trained", partial(scifar, layer))
        yield Preset(f"scifar-grey-{layer}", partial(scifar, layer, colour="grey"))
    for rel in RELS:
        yield Preset(f"scifar-ablation-{rel:g}", partial(scifar_ablation, rel))
    for problem in ("interp", "extrap"):
        for layer in ("s4", "s4d", "s4ptd"):
            yield Preset(f"sinusoids-{problem}-{layer}", partial(sinusoids, layer, problem))


PRESETS: dict[str, Preset] = {preset.name: preset for preset in _all()}
"""Every preset by its name. Each is called for its config."""


def preset(name: str) -> RunConfig:
    """The config of a name; with ``tiny-`` before it, that of a model that trains in seconds.

    >>> preset("lra-text-s5ptd").model["d_model"]
    256
    >>> preset("sinusoids-extra")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wellposed.errors.UnknownNameError: unknown preset 'sinusoids-extra'; did you mean 'sinusoids-extrap-s4' or ...
    """
    plain = name.removeprefix(_TINY)
    if plain not in PRESETS:
        known = [_TINY + each for each in PRESETS] if plain != name else PRESETS
        raise UnknownNameError("preset", name, known)
    return PRESETS[plain]() if plain == name else tiny(PRESETS[plain]())
