"""Configs: checked when made, the same after a trip through JSON, and changed by names with dots."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wellposed.errors import ArgumentError, ShapeError, UnknownNameError, WellposedError
from wellposed.nn import LAYERS
from wellposed.train import DataConfig, EvaluationConfig, OptimizerConfig, RunConfig, ScheduleConfig, with_overrides
from wellposed.train._model_fields import layer_fields
from wellposed.train._overrides import override_names


def config(**changes) -> RunConfig:
    return RunConfig(**{"data": DataConfig(task="sinusoids"), "model": {"layer": "s4d", "d_model": 8}} | changes)


@given(
    lr=st.floats(0, 1),
    clip=st.none() | st.integers(1, 5) | st.floats(0.1, 5),
    frozen=st.lists(st.sampled_from(["B", "A_imag"]), unique=True),
    name=st.sampled_from(["cosine", "plateau", "constant"]),
    grid=st.tuples(st.integers(2, 9), st.integers(2, 9)),
    epochs=st.integers(1, 500),
)
def test_a_config_survives_json(lr, clip, frozen, name, grid, epochs):
    before = config(
        data=DataConfig(task="sinusoids", options={"grid": grid}, normalize=(0.5, lr + 1), batch_size=5),
        optimizer=OptimizerConfig(lr=lr, clip=clip, frozen=tuple(frozen)),
        schedule=ScheduleConfig(name=name),
        evaluation=EvaluationConfig(select_on="test", patience=3),
        epochs=epochs,
    )
    assert RunConfig.from_dict(json.loads(json.dumps(before.to_dict()))) == before


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: DataConfig(task="sinusoids", batch_size=0), "data.batch_size must be at least 1, got 0"),
        (
            lambda: DataConfig.from_dict({"task": "sinusoids", "batch_size": "4"}),
            "batch_size must be a whole number, got '4'",
        ),
        (lambda: DataConfig(task="sinusoids", options={"gird": 1}), "option of sinusoids 'gird'; did you mean 'grid'"),
        (lambda: DataConfig(task=""), "data.task is empty"),
        (lambda: DataConfig(task="image", normalize=(0.5, 0)), "data.normalize is a mean and a deviation above 0"),
        (lambda: OptimizerConfig(lr=-1.0), "optimizer.lr must be at least 0, got -1"),
        (lambda: OptimizerConfig(lr=float("nan")), "lr must be a finite number, got nan"),
        (lambda: OptimizerConfig(clip=0), "optimizer.clip is a norm above 0, got 0"),
        (lambda: OptimizerConfig(betas=(0.9, 1.0)), "betas are from 0 to below 1"),
        (lambda: ScheduleConfig.from_dict({"name": "cosin"}), "unknown name 'cosin'; did you mean 'cosine'"),
        (lambda: ScheduleConfig(floor=2), "schedule.floor is a share"),
        (lambda: ScheduleConfig(factor=1), "schedule.factor makes rates smaller"),
        (lambda: EvaluationConfig(every=0), "evaluation.every must be at least 1"),
        (lambda: config(model={"lyer": "s4"}), "unknown field of the model 'lyer'; did you mean 'layer'"),
        (lambda: config(model={"d_output": 3}), "leave it out, the data decide it"),
        (lambda: config(model={"layer": "s4x"}), "unknown layer 's4x'"),
        (lambda: config(model={"layer_options": {"d_stat": 3}}), "option of s4ptd 'd_stat'; did you mean 'd_state'"),
        (lambda: config(model={"layer_options": {"d_state": -3}}), "d_state must be at least 1, got -3"),
        (lambda: config(model={"layer": LAYERS["s4"]}), "model.layer is a name"),
        (lambda: config(model={"n_layers": "4"}), "model.n_layers must be a whole number, got '4'"),
        (lambda: config(model={"layer_options": {"dt_min": "a"}}), "dt_min must be a finite number, got 'a'"),
        (lambda: config(ema=1.0), "ema is a decay between 0 and 1"),
        (lambda: config(label_smoothing=1), "label_smoothing is a share"),
        (lambda: config(name="../elsewhere"), "is to be a folder's"),
        (lambda: config(name="two\nlines"), "is to be a folder's"),
        (lambda: config(name="two\\folders"), "is to be a folder's"),
        (lambda: config().replace(optimizer=3), "optimizer must be of OptimizerConfig, got 3"),
        (lambda: config().replace(epoch=3), "unknown field of RunConfig 'epoch'; did you mean 'epochs'"),
        (lambda: RunConfig.from_dict({"data": {"task": "x"}, "epoch": 1}), "did you mean 'epochs'"),
        (lambda: RunConfig.from_dict({}), "RunConfig lacks data"),
        (lambda: RunConfig.from_dict({"data": 3}), "data is read from values by name, got 3"),
        (lambda: DataConfig(task="mine", options={"x": {1, 2}}).to_dict(), "cannot be written"),
    ],
)
def test_wrong_values_are_refused_by_name(make, text):
    with pytest.raises(WellposedError, match=text.replace("(", r"\(")):
        make()


def test_what_is_given_can_be_changed_afterwards_without_harm():
    options = {"d_state": 16}
    one = config(model={"layer": "s4d", "layer_options": options})
    options["d_state"] = 32
    assert one.model["layer_options"] == {"d_state": 16}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("optimizer.lr", "3e-3", 0.003),
        ("optimizer.ssm_lr", "none", None),
        ("optimizer.frozen", "A_imag,B", ("A_imag", "B")),
        ("optimizer.frozen", "B", ("B",)),
        ("optimizer.ssm", "None", None),
        ("optimizer.betas", "0.9, 0.99", (0.9, 0.99)),
        ("schedule.name", "plateau", "plateau"),
        ("epochs", "7", 7),
        ("graph", "false", False),
        ("data.bucket", "none", None),
        ("data.options.grid", "(3, 4)", (3, 4)),
        ("data.options.problem", "extrap", "extrap"),
        ("model.norm", "none", "none"),
        ("model.n_layers", "2", 2),
        ("model.layer_options.d_state", "32", 32),
        ("model.layer_options.bidirectional", "true", True),
        ("note", "7", "7"),
    ],
)
def test_texts_are_read_as_the_field_wants_them(name, text, value):
    found = with_overrides(config(), {name: text})
    for part in name.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("overrides", "error", "text"),
    [
        ({"optimizer.lrr": 1}, UnknownNameError, "field of optimizer 'lrr'; did you mean 'lr'"),
        ({"optimizr.lr": 1}, UnknownNameError, "did you mean 'optimizer'"),
        ({"model.layer_options.d_stat": "3"}, UnknownNameError, "option of s4d 'd_stat'; did you mean 'd_state'"),
        ({"model.layr": "s4"}, UnknownNameError, "field of model 'layr'; did you mean 'layer'"),
        ({"data.options.grdi": "3"}, UnknownNameError, "did you mean 'grid'"),
        ({"model": "3"}, ArgumentError, "model has parts: name one of them"),
        ({"epochs.x": "3"}, ArgumentError, "epochs has no parts"),
        ({"optimizer.lr.x": "3"}, ArgumentError, "optimizer.lr has no parts"),
        ({"optimizer.lr": "fast"}, ArgumentError, "optimizer.lr must be a finite number, got 'fast'"),
        ({"precision": "tf31"}, UnknownNameError, "did you mean 'tf32'"),
        ({"model.layer_options.d_state": "-4"}, ShapeError, "d_state must be at least 1"),
        ({"model.layer": "s9"}, UnknownNameError, "unknown layer 's9'"),
    ],
)
def test_wrong_overrides_say_what_was_meant(overrides, error, text):
    with pytest.raises(error, match=text):
        with_overrides(config(), overrides)


def test_options_of_the_layer_before_are_not_taken_for_those_of_another():
    before = config(model={"layer": "s4ptd", "layer_options": {"scale": "s4"}})
    with pytest.raises(
        ArgumentError, match="'s5' has no scale, which this config sets for 's4ptd': begin with a preset"
    ):
        with_overrides(before, {"model.layer": "s5"})


def test_a_layer_and_its_options_change_together():
    changed = with_overrides(config(), {"model.layer": "s5ptd", "model.layer_options.blocks": "2"})
    assert (changed.model["layer"], changed.model["layer_options"]) == ("s5ptd", {"blocks": 2})
    assert changed.model["d_model"] == 8


def test_every_name_on_the_list_is_taken():
    names = override_names(config())
    assert {"optimizer.lr", "model.layer_options.dt_min", "data.options.grid", "epochs", "model.dropout"} <= set(names)
    values = {name: _value(config(), name) for name in names if not name.startswith(("data.options", "model."))}
    assert with_overrides(config(), values) == config()


def _value(found, name):
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("layer", sorted(LAYERS))
def test_every_layer_says_its_options(layer):
    assert layer_fields(layer)
