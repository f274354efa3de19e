"""Single steps against loops written out by hand, and batches cut on the device against those of the data set."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor

from training_toys import MODEL as SHALLOW
from training_toys import config as toy_config
from training_toys import slopes, waves, words
from wellposed.data import Batch, PairBatch, SequenceDataset
from wellposed.errors import ArgumentError
from wellposed.train import DataConfig, OptimizerConfig
from wellposed.train._feed import Feed, Widths
from wellposed.train._nonfinite import first_not_finite
from wellposed.train._objective import Objective, make_model
from wellposed.train._optimizer import Average, Rates, load_states, make_optimizer, named_states
from wellposed.train._recorded import Recorded, Recorder
from wellposed.train._session import make_session
from wellposed.train._sources import ResidentSource, StreamedSource
from wellposed.train._step import Tally, TrainingStep, evaluation_step

CPU = torch.device("cpu")
MODEL = SHALLOW | {"n_layers": 2}


def made(dataset: SequenceDataset, config: OptimizerConfig, *, ema: float | None = None, smoothing: float = 0.0):
    """A model, and a step that trains it."""
    net: Any = make_model(dataset, SHALLOW | {"dropout": 0.0}, 0)
    fabric = Fabric(accelerator="cpu", devices=1)
    model, optimizer = fabric.setup_module(net), make_optimizer(net, config)
    tally = Tally(Objective.of(dataset.info, smoothing), CPU)
    average = None if ema is None else Average(net, ema)
    step = TrainingStep(fabric, model, fabric.setup_optimizers(optimizer), tally, clip=config.clip, average=average)
    return net, step, tally, average, optimizer


def by_hand(net: Any, batches: list[Batch], config: OptimizerConfig, factors: list[float], smoothing: float):
    """AdamW written out in float64-free, tensor-by-tensor Python; yields after every step."""
    slow = min(config.lr, 1e-3)
    names = {"A_log_real", "A_imag", "B", "log_dt"}
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in net.named_parameters()}
    for t, (batch, factor) in enumerate(zip(batches, factors, strict=True), 1):
        net.zero_grad()
        loss = F.cross_entropy(net(batch.x), batch.y, label_smoothing=smoothing)
        loss.backward()
        gradients = {name: p.grad.clone() for name, p in net.named_parameters()}
        norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients.values()))
        shrink = min(1.0, config.clip / (norm + 1e-6)) if config.clip else 1.0
        for name, p in net.named_parameters():
            last = name.rpartition(".")[2]
            g, (m, v) = gradients[name] * shrink, moments[name]
            m.lerp_(g, 0.1)
            v.mul_(0.999).addcmul_(g, g, value=0.001)
            lr = (slow if last in names else config.lr) * factor
            decay = 0.0 if last in names or last in ("bias", "D") or ".norm." in name else config.weight_decay
            with torch.no_grad():
                p.mul_(1 - lr * decay)
                p.sub_(lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8))
        yield loss, norm


@pytest.mark.parametrize("clip", [None, 0.01, 100.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_steps_are_those_of_adamw_written_out(clip, smoothing):
    dataset, config = waves(), OptimizerConfig(lr=0.01, clip=clip, weight_decay=0.1)
    net, step, tally, average, _ = made(dataset, config, ema=0.7, smoothing=smoothing)
    twin = copy.deepcopy(net)
    batches: list[Any] = [dataset.batch(range(k, k + 8)) for k in (0, 8, 16)]
    factors = [0.5, 1.0, 0.25]
    losses, expected = [], {name: p.detach().clone() for name, p in net.named_parameters()}
    for (loss, _), batch, factor in zip(
        by_hand(twin, batches, config, factors, smoothing), batches, factors, strict=True
    ):
        losses.append(float(loss.detach()))
        step(batch, torch.tensor(factor))
        for name, p in twin.named_parameters():
            expected[name] = 0.7 * expected[name] + 0.3 * p.detach()
    for (name, p), q in zip(net.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=2e-5, atol=2e-6, msg=name)
    assert average is not None
    for name, value in average.values.items():
        torch.testing.assert_close(value, expected[name], rtol=2e-5, atol=2e-6)
    tally.count = 24
    reading = tally.read()
    assert not reading.broken
    assert tally.objective.metrics(reading.sums)["loss"] == pytest.approx(np.mean(losses), rel=1e-5)


def test_a_gradient_longer_than_the_clip_is_cut_to_it():
    dataset = waves()
    net, step, *_ = made(dataset, OptimizerConfig(clip=0.01))
    batch: Any = dataset.batch(range(8))
    F.cross_entropy(net(batch.x), batch.y).backward()
    gradients = [p.grad for p in net.parameters()]
    assert math.sqrt(sum(float(g.double().square().sum()) for g in gradients if g is not None)) > 0.01
    step(batch, torch.tensor(0.0))
    clipped = math.sqrt(sum(float(p.grad.double().square().sum()) for p in net.parameters() if p.grad is not None))
    assert clipped == pytest.approx(0.01, rel=1e-4)


def test_the_average_is_swapped_in_and_out_in_place():
    net = make_model(waves(), MODEL, 0)
    average = Average(net, 0.5)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    places = [p.data_ptr() for p in net.parameters()]
    with torch.no_grad():
        for p in net.parameters():
            p.add_(1.0)
    average.swap()
    for name, p in net.named_parameters():
        torch.testing.assert_close(p.detach(), before[name])
    average.swap()
    for name, p in net.named_parameters():
        torch.testing.assert_close(p.detach(), before[name] + 1)
    assert places == [p.data_ptr() for p in net.parameters()]


def test_rates_of_the_groups():
    net = make_model(waves(), MODEL, 0)
    optimizer = make_optimizer(net, OptimizerConfig(lr=0.004, frozen=("A_imag",)))
    Rates(optimizer).set(torch.tensor(0.5))
    rates = {group["name"]: float(group["lr"]) for group in optimizer.param_groups}
    assert rates == pytest.approx({"ssm": 0.0005, "no_decay": 0.002, "decay": 0.002})
    assert [name for name, p in net.named_parameters() if not p.requires_grad] == [
        f"backbone.blocks.{k}.layer.A_imag" for k in range(2)
    ]


def test_nothing_to_learn_is_refused():
    net = make_model(waves(), MODEL, 0)
    names = tuple(name for name, _ in net.named_parameters())
    with pytest.raises(ArgumentError, match="leaves nothing to learn"):
        make_optimizer(net, OptimizerConfig(frozen=names))


def test_what_the_optimiser_remembers_goes_by_name():
    dataset = waves()
    net, step, _, _, optimizer = made(dataset, OptimizerConfig())
    step(dataset.batch(range(8)), torch.tensor(1.0))
    states = {name: value.clone() for name, value in named_states(optimizer, net).items()}
    other, again, _, _, second = made(dataset, OptimizerConfig())
    other.load_state_dict(net.state_dict())
    load_states(second, other, states)
    for one in (step, again):
        one(dataset.batch(range(8, 16)), torch.tensor(1.0))
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)


# --- numbers that are not finite


def test_after_a_step_that_is_not_finite_weights_stay():
    dataset = waves()
    net, step, tally, _, optimizer = made(dataset, OptimizerConfig())
    good: Any = dataset.batch(range(8))
    step(good, torch.tensor(1.0))
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    step(Batch(good.x * math.nan, good.y), torch.tensor(1.0))
    step(good, torch.tensor(1.0))
    assert tally.read().broken
    assert {int(state["step"]) for state in optimizer.state.values()} == {1}
    for name, p in net.named_parameters():
        assert torch.equal(p, before[name])


def spoil_gradient(module: torch.nn.Module) -> None:
    def hook(_: Any, __: Any, out: Tensor) -> None:
        out.register_hook(lambda gradient: gradient * math.inf)

    module.register_forward_hook(hook)


def test_a_gradient_that_is_not_finite_is_noticed_though_the_loss_is():
    dataset = waves()
    net, step, tally, _, _ = made(dataset, OptimizerConfig())
    spoil_gradient(net.backbone)
    before = net.head.weight.detach().clone()
    step(dataset.batch(range(8)), torch.tensor(1.0))
    assert tally.read().broken
    assert torch.equal(net.head.weight, before)


@pytest.mark.parametrize("place", ["backbone.blocks.1.layer", "head", "backbone.encoder"])
def test_the_first_module_is_found(place):
    dataset = waves()
    net = make_model(dataset, MODEL, 0)
    module = net.get_submodule(place)
    forward = module.forward
    module.forward = lambda *args, **kwargs: forward(*args, **kwargs) * math.inf
    found = first_not_finite(net, dataset.batch(range(4)), Objective.of(dataset.info))
    assert found == f"the output of {place} ({type(module).__name__})"


def test_odd_data_parameters_and_gradients_are_found():
    dataset = waves()
    batch: Any = dataset.batch(range(4))
    objective = Objective.of(dataset.info)
    net: Any = make_model(dataset, MODEL, 0)
    assert first_not_finite(net, Batch(batch.x / 0, batch.y), objective) == "the data of this batch"
    spoil_gradient(net.backbone.blocks[0])
    assert first_not_finite(net, batch, objective) == "the gradient of backbone.blocks.0.mix.bias"
    assert "nothing" in first_not_finite(make_model(dataset, MODEL, 0), batch, objective)
    with torch.no_grad():
        net.backbone.blocks[0].layer.D[0] = math.nan
    assert first_not_finite(net, batch, objective) == "the parameter backbone.blocks.0.layer.D"


# --- batches cut where the data lie


@pytest.mark.parametrize("dataset", [waves(), slopes(), words(), words(pairs=True)], ids=repr)
@pytest.mark.parametrize("multiple", [1, 8])
def test_a_feed_gives_the_batches_of_the_data_set(dataset, multiple):
    feed = Feed(dataset, CPU, Widths(dataset.lengths, multiple=multiple), most=4, size=3)
    order = [np.array([3, 1, 2]), np.array([0, 23, 7]), np.array([5, 5])]
    kinds = feed.begin(order)
    for items, kind in zip(order, kinds, strict=True):
        found, right = feed.next(kind), dataset.batch(torch.from_numpy(items), multiple=multiple)
        for one, other in zip(found, right, strict=True):
            if not isinstance(one, Tensor):
                assert other is None
            elif isinstance(found, PairBatch) and one.ndim == 2:  # both of a pair are padded alike
                assert torch.equal(one[:, : other.shape[1]], other)
                assert not one[:, other.shape[1] :].any()
            else:
                assert torch.equal(one, other)
                assert one.dtype == other.dtype


def test_widths_are_few():
    lengths = torch.arange(1, 4001)
    widths = Widths(lengths, multiple=1, most=32)
    assert len({widths.of(np.array([item])) for item in range(4000)}) <= 32
    assert all(widths.of(np.array([item])) >= lengths[item] for item in range(4000))
    assert Widths(torch.full((5,), 1000), multiple=64, most=4).of(np.array([0])) == 1000


@pytest.mark.parametrize(
    ("norm", "bucket", "together"),
    [("layer", None, True), ("layer", False, False), ("batch", None, False), ("batch", True, True)],
)
def test_batch_norm_sees_sequences_of_all_lengths_unless_told_otherwise(norm, bucket, together):
    data = DataConfig(task="toys", batch_size=8, bucket=bucket)
    one = toy_config(data=data, model=SHALLOW | {"norm": norm}, ema=None)
    dataset = words(800)
    net: Any = make_model(dataset, dict(one.model), 0)
    session = make_session(one, Fabric(accelerator="cpu", devices=1), net, {"train": dataset})
    lengths = dataset.lengths.numpy()
    span = np.median([np.ptp(lengths[items]) for items in session.source.order.batches(0)])
    # Of 8 lengths from 3 to 29: next to each other among 800, or anywhere.
    assert span <= 1 if together else span >= 15


@pytest.mark.parametrize(("norm_padding", "further"), [(False, True), (True, False)])
def test_padding_that_counts_does_not_depend_on_recordings(norm_padding, further, monkeypatch):
    """Recorded steps are padded further, to few lengths, where that changes nothing."""
    monkeypatch.setattr("wellposed.train._session.recorder_for", lambda device: Recorder())
    monkeypatch.setattr("wellposed.train._sources._MOST_LENGTHS", 4)
    one = toy_config(model=SHALLOW | {"norm": "batch", "norm_padding": norm_padding}, ema=None)
    dataset = words(100)
    net: Any = make_model(dataset, dict(one.model), 0)
    session = make_session(one, Fabric(accelerator="cpu", devices=1), net, {"train": dataset})
    (batch,) = session.source.some(0, 1)
    assert isinstance(batch, Batch)
    assert batch.lengths is not None
    assert (batch.x.shape[1] > batch.lengths.max()) == further


@pytest.mark.parametrize("recorder", [None, Recorder()])
@pytest.mark.parametrize("data", [waves(26), words(26)], ids=repr)
def test_both_sources_do_the_same_steps(recorder, data):
    """The one that a GPU records, called in its place, and the one for several processes."""
    results = []
    for kind in ("resident", "streamed"):
        net, step, tally, _, _ = made(data, OptimizerConfig())
        batches = data.batches(8, seed=3, multiple=32, device=CPU)
        resident = kind == "resident"
        source: Any = ResidentSource(batches, CPU, step, recorder) if resident else StreamedSource(batches, CPU, step)
        factors = np.linspace(0.1, 1, len(batches.order), dtype=np.float32)
        sizes = [size for _ in range(3) for size in source.steps(factors)]
        assert sizes == [8, 8, 8, 2] * 3 or data.rows.ragged
        results.append((tally.read().sums, [p.detach().clone() for p in net.parameters()]))
    (one, first), (other, second) = results
    assert one == other
    for p, q in zip(first, second, strict=True):
        assert torch.equal(p, q)


def test_a_recording_is_made_once_for_each_kind_and_every_call_counts():
    class Counting(Recorder):
        recorded = 0

        def record(self, function):
            self.recorded += 1
            return function

    calls, counting = [], Counting()
    recorded = Recorded(calls.append, counting)
    for key in "aaaabbbbaab":
        recorded(key)
    assert "".join(calls) == "aaaabbbbaab"
    assert counting.recorded == 2


def test_what_cannot_be_recorded_runs_all_the_same():
    class Broken(Recorder):
        def record(self, function):
            raise RuntimeError("operation not permitted when stream is capturing")

    calls: list[str] = []
    recorded = Recorded(calls.append, Broken())
    for _ in range(3):
        recorded("a")
    with pytest.warns(UserWarning, match="runs without a graph: operation not permitted"):
        recorded("a")
    recorded("b")
    assert "".join(calls) == "aaaab"


# --- objectives


def test_label_smoothing_is_for_learning_only():
    dataset = waves()
    net, objective = make_model(dataset, MODEL, 0), Objective.of(dataset.info, 0.2)
    batch: Any = dataset.batch(range(8))
    out = net.eval()(batch.x)
    logs = F.log_softmax(out, -1)
    right = logs[torch.arange(8), batch.y]
    expected = -(0.8 * right + 0.2 * logs.mean(-1)).mean()
    torch.testing.assert_close(objective.loss(out, batch.y), expected)
    tally = Tally(objective, CPU)
    evaluation_step(net, batch, tally)
    tally.count = 8
    assert objective.metrics(tally.read().sums)["loss"] == pytest.approx(-right.mean().item(), rel=1e-5)


def test_numbers_are_measured_by_squares_for_each_target():
    dataset = slopes()
    net, objective = make_model(dataset, MODEL, 0).eval(), Objective.of(dataset.info)
    batch: Any = dataset.batch(range(8))
    tally = Tally(objective, CPU)
    evaluation_step(net, batch, tally)
    tally.count = 8
    squares = (net(batch.x) - batch.y).detach().square().mean(0)
    found = objective.metrics(tally.read().sums)
    assert list(found) == ["loss", "mse_slope", "mse_offset"]
    assert list(found.values()) == pytest.approx([squares.mean().item(), *squares.tolist()], rel=1e-5)
    assert objective.score(found) == -found["loss"]


def test_models_fit_their_data():
    assert type(make_model(words(pairs=True), {}, 0)).__name__ == "PairClassifier"
    assert type(make_model(slopes(), {}, 0)).__name__ == "SequenceRegressor"
    assert make_model(words(), {"padding_idx": None}, 0).config.padding_idx is None
    one, same, other = (make_model(waves(), {}, seed) for seed in (1, 1, 2))
    assert torch.equal(one.head.weight, same.head.weight)  # pyright: ignore[reportArgumentType]
    assert not torch.equal(one.head.weight, other.head.weight)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentError, match="one answer for a sequence"):
        make_model(waves(), {"pooling": "none"}, 0)
    with pytest.raises(ArgumentError, match="padding_idx is for tokens"):
        make_model(waves(), {"padding_idx": 0}, 0)
