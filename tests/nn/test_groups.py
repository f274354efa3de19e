"""Every parameter in one group, and in the right one."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from toy_layer import Average
from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.nn import S4, S4D, SequenceClassifier, parameter_groups

LAYERS = ["s4", "s4d", "s4ptd", "s5", "s5ptd", "liquid-s4", "attention"]
SSM = {"A_log_real", "A_imag", "B", "P", "log_dt"}


def model(layer: str = "s4", **options: Any) -> SequenceClassifier:
    sizes: dict[str, Any] = {"n_heads": 2} if layer == "attention" else {"d_state": 4}
    return SequenceClassifier(None, 3, vocabulary=5, layer=layer, d_model=4, n_layers=2, layer_options=sizes, **options)


def roles(net: nn.Module, groups: list[dict[str, Any]]) -> dict[str, str]:
    """Group of every parameter, by full name; an error if one is there twice."""
    names = {id(p): name for name, p in net.named_parameters()}
    found: dict[str, str] = {}
    for group in groups:
        for p in group["params"]:
            assert names[id(p)] not in found
            found[names[id(p)]] = group["name"]
    return found


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_each_parameter_has_its_place(layer: str, norm: Any):
    net = model(layer, norm=norm)
    found = roles(net, parameter_groups(net, lr=0.01, weight_decay=0.05))
    for name, _ in net.named_parameters():
        last = name.rsplit(".", 1)[1]
        inside = ".layer." in name and layer != "attention"
        if inside and last in SSM:
            expected = "ssm"
        elif last == "bias" or ".norm." in name or (inside and last == "D"):
            expected = "no_decay"
        else:
            expected = "decay"
        assert found.pop(name) == expected, name
    assert not found


def test_all_that_is_not_slow_may_decay():
    net = model(norm="batch")
    some, every = (roles(net, parameter_groups(net, lr=0.01, decay=decay)) for decay in ("weights", "all"))
    assert {"no_decay"} == set(some.values()) - set(every.values())
    assert every == {name: "decay" if role == "no_decay" else role for name, role in some.items()}


def test_a_scale_that_does_not_decay_undoes_the_decay_of_what_follows():
    """With no gradient but that of the product, the product shrinks with both, and may stay with one."""

    def product(decay: Literal["weights", "all"]) -> float:
        torch.manual_seed(0)
        net = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 1, bias=False))
        optimizer = torch.optim.AdamW(parameter_groups(net, lr=0.01, weight_decay=1.0, decay=decay))
        x = torch.randn(256, 4)
        y = nn.functional.layer_norm(x, (4,)) @ torch.tensor([[1.0], [-1.0], [2.0], [0.0]])
        for _ in range(2000):
            optimizer.zero_grad()
            (net(x) - y).square().mean().backward()
            optimizer.step()
        return float((net(x) - y).square().mean().detach() / y.square().mean())

    assert product("all") > 10 * product("weights")


def test_rates():
    net = model()
    groups = {g["name"]: (g["lr"], g["weight_decay"]) for g in parameter_groups(net, lr=0.01, weight_decay=0.05)}
    assert groups == {"ssm": (0.001, 0.0), "no_decay": (0.01, 0.0), "decay": (0.01, 0.05)}
    assert parameter_groups(net, lr=0.01, ssm_lr=0.02)[0]["lr"] == 0.02
    assert parameter_groups(net, lr=1e-4)[0]["lr"] == 1e-4
    optimizer = torch.optim.AdamW(parameter_groups(net, lr=0.01), lr=1)
    net(torch.randint(5, (2, 6))).sum().backward()
    optimizer.step()
    assert sum(len(g["params"]) for g in optimizer.param_groups) == len(list(net.parameters()))


def test_frozen_and_other_choices():
    net = model()
    before = [p.requires_grad for p in net.parameters()]
    found = roles(net, parameter_groups(net, lr=0.01, frozen=("B", "log_dt", "head.bias")))
    left_out = {name for name, _ in net.named_parameters()} - set(found)
    assert {name.rsplit(".", 1)[1] for name in left_out} == {"B", "log_dt", "bias"}
    assert [name for name in left_out if name.endswith("bias")] == ["head.bias"]
    assert before == [p.requires_grad for p in net.parameters()]
    found = roles(net, parameter_groups(net, lr=0.01, ssm=("C", "log_dt")))
    assert {n.rsplit(".", 1)[1] for n, role in found.items() if role == "ssm"} == {"C", "log_dt"}
    assert found["backbone.blocks.0.layer.A_imag"] == "decay"


class Halved(nn.Module):
    """A parametrisation with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 2 + self.shift


def test_parametrised_parameters_go_where_they_would_go_plain():
    net = model("s4d")
    layer: Any = net.backbone.blocks[0].layer
    parametrize.register_parametrization(layer, "log_dt", Halved())
    parametrize.register_parametrization(layer, "C", Halved())
    parametrize.register_parametrization(net.get_submodule("backbone.blocks.1.norm"), "weight", Halved())
    found = roles(net, parameter_groups(net, lr=0.01))
    hidden = {name: role for name, role in found.items() if "parametrizations" in name}
    assert {role for name, role in hidden.items() if ".log_dt." in name} == {"ssm"}
    assert {role for name, role in hidden.items() if ".C." in name} == {"decay"}
    assert {role for name, role in hidden.items() if ".norm." in name} == {"no_decay"}
    assert len(hidden) == 6
    for name in (
        "log_dt",
        "backbone.blocks.0.layer.log_dt",
        "backbone.blocks.0.layer.parametrizations.log_dt.original",
    ):
        left = roles(net, parameter_groups(net, lr=0.01, frozen=(name,)))
        assert "backbone.blocks.0.layer.parametrizations.log_dt.original" not in left


def test_layers_of_your_own_say_which_parameters_are_slow():
    """Derived from a layer of the library, or straight from the base."""

    class Gained(S4D):
        def __init__(self, d_model: int) -> None:
            super().__init__(d_model, 4)
            self.gain = nn.Parameter(torch.ones(d_model))

        def ssm_parameters(self) -> tuple[str, ...]:
            return (*super().ssm_parameters(), "gain")

    net = nn.ModuleDict({"derived": Gained(3), "own": Average(3)})
    found = roles(net, parameter_groups(net, lr=0.01))
    assert found["derived.gain"] == found["derived.log_dt"] == found["own.log_rate"] == "ssm"
    assert found["derived.C"] == "decay"
    assert found["derived.D"] == "no_decay"
    chosen = roles(net, parameter_groups(net, lr=0.01, ssm=("gain", "log_rate")))
    assert {name for name, role in chosen.items() if role == "ssm"} == {"derived.gain", "own.log_rate"}


def test_tied_and_fixed_parameters():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), S4(3, 4), nn.RMSNorm(3), nn.GroupNorm(1, 3))
    first, second = net[0], net[1]
    assert isinstance(first, nn.Linear)
    assert isinstance(second, nn.Linear)
    second.weight = first.weight
    second.bias.requires_grad_(False)
    found = roles(net, parameter_groups(net, lr=0.1))
    assert found["0.weight"] == "decay"
    assert found["3.weight"] == found["4.weight"] == "no_decay"
    assert "1.bias" not in found
    assert len(found) == len([p for p in net.parameters() if p.requires_grad])
    assert "0.weight" not in roles(net, parameter_groups(net, lr=0.1, frozen=("1.weight",)))
    assert [g["name"] for g in parameter_groups(nn.Linear(2, 2, bias=False), lr=0.1)] == ["decay"]


def test_a_layer_that_misnames_its_parameters_is_refused():
    class Mistyped(S4D):
        def ssm_parameters(self) -> tuple[str, ...]:
            return ("log_dtt",)

    with pytest.raises(UnknownNameError, match="Mistyped calls its own 'log_dtt'; did you mean 'log_dt'"):
        parameter_groups(Mistyped(3, 4), lr=0.01)


def test_errors():
    net = model()
    with pytest.raises(UnknownNameError, match="unknown name in frozen 'A_log_rea'; did you mean 'A_log_real'"):
        parameter_groups(net, lr=0.1, frozen=("A_log_rea",))
    with pytest.raises(UnknownNameError, match="unknown name in ssm 'dt'"):
        parameter_groups(net, lr=0.1, ssm=("dt",))
    with pytest.raises(ArgumentError, match=r"frozen=\('B',\)"):
        parameter_groups(net, lr=0.1, frozen="B")
    with pytest.raises(ArgumentError, match="weight_decay must not be negative, got -1"):
        parameter_groups(net, lr=0.1, weight_decay=-1)
