"""Which parameters learn at which rate, and which decay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.nn._s5 import MIMOLayer
from wellposed.nn._siso import SISOLayer

SSM = ("A_log_real", "A_imag", "B", "P", "log_dt")
_SSM_NAMES = (*SSM, "C", "D")
_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, _NormBase)
_TOP_SSM_LR = 1e-3


def parameter_groups(
    model: nn.Module,
    *,
    lr: float | int,
    ssm_lr: float | int | None = None,
    weight_decay: float | int = 0.01,
    frozen: Iterable[str] = (),
    ssm: Iterable[str] = SSM,
) -> list[dict[str, Any]]:
    """Groups for an optimiser, as the papers train: ``AdamW(parameter_groups(model, lr=0.004))``.

    - ``"ssm"``: the parameters of state-space layers named in ``ssm``, at ``ssm_lr``, no decay. Unless given,
      ``ssm_lr`` is ``lr``, but at most 0.001, as published with S4.
    - ``"no_decay"``: norms, biases and ``D``, at ``lr``.
    - ``"decay"``: all others, at ``lr`` with ``weight_decay``.

    ``frozen`` names what to leave out: a parameter of state-space layers such as ``"B"``, or one parameter of the model
    by its full name. Parameters that do not require a gradient are left out too. The model is not changed.

    >>> from wellposed.nn import SequenceClassifier
    >>> model = SequenceClassifier(3, 10, d_model=16, n_layers=2)
    >>> [group["name"] for group in parameter_groups(model, lr=0.01)]
    ['ssm', 'no_decay', 'decay']
    """
    frozen, ssm = _names(frozen, "frozen"), _names(ssm, "ssm")
    _check_known("frozen", frozen, {*_SSM_NAMES, *(full for full, *_ in _owned(model))})
    _check_known("ssm", ssm, _SSM_NAMES)
    ssm_lr = min(lr, _TOP_SSM_LR) if ssm_lr is None else ssm_lr
    for name, value in (("lr", lr), ("ssm_lr", ssm_lr), ("weight_decay", weight_decay)):
        if not value >= 0:
            raise ArgumentError(f"{name} must not be negative, got {value}")
    members: dict[str, list[nn.Parameter]] = {"ssm": [], "no_decay": [], "decay": []}
    for role, parameter in _roles(model, ssm, frozen):
        members[role].append(parameter)
    rates = {"ssm": (ssm_lr, 0.0), "no_decay": (lr, 0.0), "decay": (lr, weight_decay)}
    return [
        {"name": role, "params": params, "lr": rates[role][0], "weight_decay": rates[role][1]}
        for role, params in members.items()
        if params
    ]


def _roles(model: nn.Module, ssm: set[str], frozen: set[str]) -> Iterator[tuple[str, nn.Parameter]]:
    """Each parameter once, in the order of the model; the first module that holds it decides."""
    owned = list(_owned(model))
    seen = {id(p) for full, module, name, p in owned if full in frozen or (_state_space(module) and name in frozen)}
    for _, module, name, parameter in owned:
        if id(parameter) in seen or not parameter.requires_grad:
            continue
        seen.add(id(parameter))
        if _state_space(module) and name in ssm:
            yield "ssm", parameter
        elif isinstance(module, _NORMS) or name.endswith("bias") or (_state_space(module) and name == "D"):
            yield "no_decay", parameter
        else:
            yield "decay", parameter


def _owned(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, nn.Parameter]]:
    """Full name, owner, name there, parameter; shared ones at each of their places."""
    for prefix, module in model.named_modules(remove_duplicate=False):
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            yield f"{prefix}.{name}" if prefix else name, module, name, parameter


def _state_space(module: nn.Module) -> bool:
    return isinstance(module, (SISOLayer, MIMOLayer))


def _names(names: Iterable[str], kind: str) -> set[str]:
    if isinstance(names, str):
        raise ArgumentError(f"{kind} takes names in a tuple: {kind}=({names!r},)")
    return set(names)


def _check_known(kind: str, names: set[str], known: Iterable[str]) -> None:
    known = set(known)
    for name in sorted(names - known):
        raise UnknownNameError(f"name in {kind}", name, known)
