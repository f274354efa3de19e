"""Which parameters learn at which rate, and which decay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.nn._initial import check_name
from wellposed.nn._layer import SequenceLayer

_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, _NormBase)
_TOP_SSM_LR = 1e-3  # of S4's published code, whatever the rate of the rest


def parameter_groups(
    model: nn.Module,
    *,
    lr: float | int,
    ssm_lr: float | int | None = None,
    weight_decay: float | int = 0.01,
    decay: Literal["weights", "all"] = "weights",
    frozen: Iterable[str] = (),
    ssm: Iterable[str] | None = None,
) -> list[dict[str, Any]]:
    """Groups for an optimiser, as the papers train: ``AdamW(parameter_groups(model, lr=0.004))``.

    - ``"ssm"``: what each layer calls its ``ssm_parameters``, or the parameters of such layers named in ``ssm``; at
      ``ssm_lr``, no decay. Unless given, ``ssm_lr`` is ``lr``, but at most 0.001, as published with S4.
    - ``"no_decay"``: norms, biases and what layers call their ``undecayed_parameters``, such as ``D``; at ``lr``.
    - ``"decay"``: all others, at ``lr`` with ``weight_decay``.

    With ``decay="all"`` nothing is in the second group, all of it in the third: so S4's and S5's published code has it.
    A norm that does not decay can grow by what the maps behind it lose, and undo their decay.

    A parametrised parameter (``torch.nn.utils.parametrize``) goes where it would go plain. ``frozen`` names what to
    leave out: a parameter of state-space layers such as ``"B"``, or one parameter of the model by its full name.
    Parameters that do not require a gradient are left out too. The model is not changed.

    >>> from wellposed.nn import SequenceClassifier
    >>> model = SequenceClassifier(3, 10, d_model=16, n_layers=2)
    >>> [group["name"] for group in parameter_groups(model, lr=0.01)]
    ['ssm', 'no_decay', 'decay']
    """
    owned = list(_owned(model))
    _check_layers(model, owned)
    own = {parameter.name for parameter in owned if parameter.is_state_space}
    frozen, chosen = _names(frozen, "frozen"), None if ssm is None else _names(ssm, "ssm")
    _check_known("frozen", frozen, own.union(*({parameter.full, parameter.plain} for parameter in owned)))
    _check_known("ssm", chosen or set(), own)
    check_name("decay", decay, ("weights", "all"))
    ssm_lr = min(lr, _TOP_SSM_LR) if ssm_lr is None else ssm_lr
    for name, value in (("lr", lr), ("ssm_lr", ssm_lr), ("weight_decay", weight_decay)):
        if not value >= 0:
            raise ArgumentError(f"{name} must not be negative, got {value}")
    members: dict[str, list[nn.Parameter]] = {"ssm": [], "no_decay": [], "decay": []}
    for role, parameter in _roles(owned, chosen, frozen):
        members["decay" if decay == "all" and role == "no_decay" else role].append(parameter)
    rates = {"ssm": (ssm_lr, 0.0), "no_decay": (lr, 0.0), "decay": (lr, weight_decay)}
    return [
        {"name": role, "params": params, "lr": rates[role][0], "weight_decay": rates[role][1]}
        for role, params in members.items()
        if params
    ]


@dataclass(frozen=True)
class _Owned:
    """A parameter at one of its places."""

    full: str
    """Its name in the model."""
    plain: str
    """What it would be called if it were not parametrised."""
    module: nn.Module
    """Whose parameter it is, parametrised or not ..."""
    name: str
    """... and its name there."""
    parameter: nn.Parameter

    @property
    def is_state_space(self) -> bool:
        """Whether it belongs to a layer that has a state-space system."""
        return isinstance(self.module, SequenceLayer) and bool(self.module.ssm_parameters())

    def role(self, chosen: set[str] | None) -> str:
        """Its group; the layer says, unless names were chosen."""
        layer = self.module if isinstance(self.module, SequenceLayer) else None
        slow = (layer.ssm_parameters() if chosen is None else chosen) if layer is not None else ()
        if self.name in slow and self.is_state_space:
            return "ssm"
        kept = self.name.endswith("bias") or (layer is not None and self.name in layer.undecayed_parameters())
        return "no_decay" if kept or isinstance(self.module, _NORMS) else "decay"


def _roles(owned: list[_Owned], chosen: set[str] | None, frozen: set[str]) -> Iterator[tuple[str, nn.Parameter]]:
    """Each parameter once, in the order of the model; the first module that holds it decides."""
    seen = {
        id(own.parameter)
        for own in owned
        if not frozen.isdisjoint((own.full, own.plain)) or (own.is_state_space and own.name in frozen)
    }
    for own in owned:
        if id(own.parameter) in seen or not own.parameter.requires_grad:
            continue
        seen.add(id(own.parameter))
        yield own.role(chosen), own.parameter


def _owned(model: nn.Module) -> Iterator[_Owned]:
    """Every parameter at each of its places, shared ones several times."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for prefix, module in modules.items():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            full = f"{prefix}.{name}" if prefix else name
            # Of ``layer.parametrizations.log_dt.original`` the owner is the layer, and the name log_dt.
            owner, hidden, rest = f".{full}".rpartition(".parametrizations.")
            own = rest.partition(".")[0] if hidden else name
            owner = owner.removeprefix(".") if hidden else prefix
            yield _Owned(full, f"{owner}.{own}" if owner else own, modules[owner], own, parameter)


def _check_layers(model: nn.Module, owned: list[_Owned]) -> None:
    """What a layer names must be there: a slow parameter that is called otherwise would be trained at the full rate."""
    found: dict[nn.Module, set[str]] = {}
    for own in owned:
        found.setdefault(own.module, set()).add(own.name)
    for layer in model.modules():
        if isinstance(layer, SequenceLayer):
            there = found.get(layer, set()) | {name for name, _ in layer.named_buffers(recurse=False)}
            for name in (*layer.ssm_parameters(), *layer.undecayed_parameters()):
                if name not in there:
                    raise UnknownNameError(f"parameter that {type(layer).__name__} calls its own", name, there)


def _names(names: Iterable[str], kind: str) -> set[str]:
    if isinstance(names, str):
        raise ArgumentError(f"{kind} takes names in a tuple: {kind}=({names!r},)")
    return set(names)


def _check_known(kind: str, names: set[str], known: Iterable[str]) -> None:
    known = set(known)
    for name in sorted(names - known):
        raise UnknownNameError(f"name in {kind}", name, known)
