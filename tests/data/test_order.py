"""Every item once, whatever the processes; the same order from the same seed; resumed where it stopped."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from wellposed.data import Order
from wellposed.errors import ArgumentError

COUNTS, SIZES, WORLDS = st.integers(1, 300), st.integers(1, 40), st.integers(1, 5)


def lengths_of(count: int) -> torch.Tensor:
    return torch.randint(1, 1000, (count,), generator=torch.Generator().manual_seed(count))


def shards(count: int, size: int, world: int, **options: Any) -> list[list[list[int]]]:
    return [list(Order(count, size, rank=rank, world=world, **options)) for rank in range(world)]


@given(COUNTS, SIZES, WORLDS, st.booleans(), st.booleans())
def test_every_item_once_and_as_many_batches_for_each_process(
    count: int, size: int, world: int, shuffle: bool, bucket: bool
):
    assume(count >= world)
    lengths = lengths_of(count) if bucket else None
    parts = shards(count, size, world, shuffle=shuffle, lengths=lengths)
    assert sorted(i for part in parts for batch in part for i in batch) == list(range(count))
    assert len({len(part) for part in parts}) == 1
    assert len(parts[0]) == len(Order(count, size, world=world))
    assert all(0 < len(batch) <= size + 1 for part in parts for batch in part)


@given(COUNTS, SIZES, WORLDS)
def test_drop_last_leaves_whole_batches(count: int, size: int, world: int):
    assume(count >= size * world)
    parts = shards(count, size, world, drop_last=True)
    assert {len(batch) for part in parts for batch in part} == {size}
    seen = [i for part in parts for batch in part for i in batch]
    assert len(seen) == len(set(seen)) == count // (size * world) * size * world


@given(COUNTS, SIZES, st.integers(0, 2**40), st.integers(0, 5), st.booleans())
def test_resumed_it_goes_on_where_it_stopped(count: int, size: int, seed: int, epochs: int, bucket: bool):
    lengths = lengths_of(count) if bucket else None
    whole = Order(count, size, seed=seed, lengths=lengths)
    for _ in range(epochs):
        list(whole)
    stopped, done = iter(whole), []
    for _ in range(len(whole) // 2):
        done.append(next(stopped))
    state = json.loads(json.dumps(whole.state_dict()))
    expected = [list(stopped), list(whole)]
    again = Order(count, size, seed=seed, lengths=lengths)
    again.load_state_dict(state)
    assert [list(again), list(again)] == expected
    assert sorted(i for batch in (*done, *expected[0]) for i in batch) == list(range(count))


@given(st.lists(st.integers(0, 6), max_size=5), st.data())
def test_a_resumed_program_does_what_the_uninterrupted_one_would_have_done(stops: list[int], data: st.DataObject):
    """A program that leaves the loop of each epoch after so many of its 5 batches; interrupted anywhere."""
    order, done, states = Order(10, 2, seed=1), [], []
    for place, stop in enumerate(stops):
        states.append((place, 0, len(done), order.state_dict()))
        for taken, batch in enumerate(itertools.islice(order, stop), 1):
            done.append(batch)
            if taken < min(stop, 5):
                states.append((place, taken, len(done), order.state_dict()))
    states.append((len(stops), 0, len(done), order.state_dict()))
    place, taken, before, state = data.draw(st.sampled_from(states))
    again = Order(10, 2, seed=1)
    again.load_state_dict(json.loads(json.dumps(state)))
    remaining = [stop - (taken if k == place else 0) for k, stop in enumerate(stops)][place:]
    assert [batch for stop in remaining for batch in itertools.islice(again, stop)] == done[before:]


def test_a_state_saved_inside_a_loop_goes_on_with_the_same_epoch():
    order, again, state = Order(10, 2, seed=1), Order(10, 2, seed=1), {}
    for taken, _ in enumerate(order, 1):
        if taken == 3:
            state = order.state_dict()
            break
    again.load_state_dict(state)
    assert list(again) == [batch.tolist() for batch in order.batches(0)[3:]]


def test_a_new_loop_is_a_new_epoch_whatever_became_of_the_last():
    order = Order(10, 2, seed=1)
    next(iter(order))
    assert order.state_dict()["epoch"] == 1
    assert sorted(i for batch in order for i in batch) == list(range(10)), "a look at the first batch takes none away"


def test_passes_at_the_same_time_do_not_disturb_each_other():
    order = Order(10, 2, seed=1)
    expected = [[batch.tolist() for batch in order.batches(epoch)] for epoch in range(2)]
    first, second = iter(order), iter(order)
    took = [next(first), next(second), next(first), next(second)]
    assert took == [expected[0][0], expected[1][0], expected[0][1], expected[1][1]]
    state = order.state_dict()
    assert (state["epoch"], state["batches"]) == (1, 2), "the pass begun last counts"
    assert list(first) == expected[0][2:]
    assert order.state_dict() == state
    order.set_epoch(7)
    assert list(second) == expected[1][2:]
    assert order.state_dict() == state | {"epoch": 7, "batches": 0}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda order: pickle.loads(pickle.dumps(order))])
def test_a_copy_goes_on_where_the_original_is(copied: Any):
    order = Order(10, 2, seed=1)
    running = iter(order)
    next(running)
    assert list(copied(order)) == list(running)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataloader_is_resumed_by_what_was_received_of_it(workers: int):
    def loader() -> tuple[Order, DataLoader]:
        order = Order(40, 4, seed=2)
        return order, DataLoader(TensorDataset(torch.arange(40)), batch_sampler=order, num_workers=workers)

    order, made = loader()
    running = order.counting(made)
    for _ in range(3):
        next(running)
    state = order.state_dict()
    assert (state["epoch"], state["batches"]) == (0, 3)
    order, made = loader()
    order.load_state_dict(state)
    rest = [batch[0].tolist() for batch in order.counting(made)]
    assert rest == [batch.tolist() for batch in order.batches(0)[3:]]
    assert order.state_dict() == state | {"epoch": 1, "batches": 0}
    with pytest.raises(ArgumentError, match="make it its batch_sampler"):
        next(order.counting(DataLoader(TensorDataset(torch.arange(40)))))


def test_a_state_at_the_end_of_an_epoch_begins_the_next():
    order = Order(10, 3, seed=1)
    list(order)
    again = Order(10, 3, seed=1)
    again.load_state_dict(order.state_dict())
    assert list(again) == list(order)


def test_before_the_first_pass_the_state_is_the_beginning():
    order, again = Order(10, 3, seed=1), Order(10, 3, seed=1)
    again.load_state_dict(order.state_dict())
    assert list(again) == list(order)


def test_epochs_and_seeds_differ_and_can_be_chosen():
    order = Order(100, 10, seed=3)
    first, second = list(order), list(order)
    assert first != second
    order.set_epoch(0)
    assert list(order) == first
    assert list(Order(100, 10, seed=3)) == first
    assert list(Order(100, 10, seed=4)) != first


def test_the_order_does_not_depend_on_how_many_processes_share_a_batch():
    together = list(Order(103, 12, seed=5))
    parts = shards(103, 4, 3, seed=5)
    for k, batch in enumerate(together):
        assert sorted(batch) == sorted(i for part in parts for i in part[k])


def test_a_run_moves_to_another_number_of_processes():
    one = Order(96, 12, seed=5)
    first = iter(one)
    next(first)
    four = [Order(96, 3, seed=5, rank=rank, world=4) for rank in range(4)]
    for order in four:
        order.load_state_dict(one.state_dict())
    rest = [list(order) for order in four]
    for k, batch in enumerate(first):
        assert sorted(batch) == sorted(i for part in rest for i in part[k])


@given(st.integers(20, 400), st.integers(1, 6), st.integers(0, 50), st.booleans())
def test_wherever_it_moves_every_item_is_seen_once(count: int, size: int, seed: int, bucket: bool):
    lengths = lengths_of(count) if bucket else None
    one = Order(count, 6 * size, seed=seed, lengths=lengths)
    running = iter(one)
    done = [i for _ in range(len(one) // 2) for i in next(running)]
    six = [Order(count, size, seed=seed, lengths=lengths, rank=rank, world=6) for rank in range(6)]
    assume(len(six[0]) == len(one))
    for order in six:
        order.load_state_dict(one.state_dict())
    rest = [i for order in six for batch in order for i in batch]
    assert sorted(done + rest) == list(range(count))


def test_where_the_number_of_batches_changes_with_the_processes_moving_is_refused():
    """1001 items in batches of 8: a rest of one is a batch for one process, and none for two."""
    one, two = Order(1001, 8), Order(1001, 4, world=2)
    assert (len(one), len(two)) == (126, 125)
    with pytest.raises(ArgumentError, match="these are made from"):
        two.load_state_dict(one.state_dict())


def test_buckets_are_shuffled_by_bits_of_their_own():
    lengths = torch.arange(1, 13)
    batches = list(Order(12, 3, seed=4, lengths=lengths))
    bits = np.random.PCG64(np.random.SeedSequence([4, 0, 0, 0, 1])).random_raw(4)
    assert [min(batch) for batch in batches] == [[9, 6, 3, 0][i] for i in sorted(range(4), key=lambda i: bits[i])]


@pytest.mark.parametrize("change", [{"batches": -1}, {"batches": 99}, {"epoch": -1}, {"epoch": None}])
def test_a_state_that_cannot_be(change: dict[str, Any]):
    order = Order(10, 3)
    with pytest.raises(ArgumentError, match="this is no state of such batches"):
        order.load_state_dict(order.state_dict() | change)
    with pytest.raises(ArgumentError, match="the state is of batches made from None"):
        order.load_state_dict({})
    with pytest.raises(ArgumentError, match="epochs count from 0"):
        order.set_epoch(-1)


def test_the_shuffle_is_this_one_for_good():
    """Worked out by hand from the raw bits of PCG64, whose stream numpy keeps for ever."""
    bits = np.random.PCG64(np.random.SeedSequence([7, 0, 0, 0, 0])).random_raw(20)
    expected = sorted(range(20), key=lambda i: bits[i])
    assert [i for batch in Order(20, 6, seed=7) for i in batch] == expected
    assert expected == [1, 8, 6, 5, 19, 9, 12, 10, 14, 2, 17, 15, 16, 18, 4, 7, 0, 11, 3, 13]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((2**32, 0), (0, 1)),
        ((5 + 2**32, 3), (5, 1)),
        ((0, 2**32), (0, 0)),
        ((1, 0), (0, 1)),
        ((2**33, 0), (2**32, 0)),
        ((2**62, 0), (0, 2**30)),
        ((2**63 - 1, 0), (2**32 - 1, 2**31 - 1)),
        ((7, 2**33), (7 + 2**33, 0)),
    ],
)
def test_seeds_and_epochs_are_not_taken_for_each_other(one: tuple[int, int], other: tuple[int, int]):
    """Neither the shuffle of items nor that of buckets: 64! and 16! orders do not meet by chance."""
    for lengths in (None, torch.arange(64)):
        first, second = (
            [batch.tolist() for batch in Order(64, 4, seed=seed, lengths=lengths).batches(epoch)]
            for seed, epoch in (one, other)
        )
        assert first != second


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)), min_size=2, unique=True))
def test_no_two_seeds_and_epochs_draw_alike(places: list[tuple[int, int]]):
    orders = {tuple(Order(64, 64, seed=seed).batches(epoch)[0].tolist()) for seed, epoch in places}
    assert len(orders) == len(places)


def test_buckets_need_little_padding_and_stay_random():
    lengths = lengths_of(20_000)

    def padding(batches: Iterator[list[int]] | Order) -> float:
        cells = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
        return cells / int(lengths.sum()) - 1

    assert padding(Order(20_000, 32, lengths=lengths)) < 0.03
    assert padding(Order(20_000, 32)) > 0.5
    firsts = [int(lengths[batch].max()) for batch in Order(20_000, 32, lengths=lengths)]
    changes = np.sign(np.diff(firsts))
    assert 0.4 < np.mean(changes > 0) < 0.6, "batches come in no order of length"


@pytest.mark.parametrize("drop_last", [True, False])
def test_what_does_not_fill_a_batch_is_a_fair_sample(drop_last: bool):
    """Left out or in a smaller batch, each of 70 items as often as any other, long or short.

    In 2000 epochs an item is among the 6 that remain 171 times on average. Drawn fairly, the sum of squares below
    follows chi^2 with 69 degrees of freedom, and the mean length is normal: each bound fails for a seed in a million.
    """
    count, size, epochs = 70, 16, 2000
    lengths = torch.from_numpy(np.random.default_rng(0).pareto(1.5, count) * 100).long() + 1
    order, remained = Order(count, size, seed=3, lengths=lengths, drop_last=drop_last), np.zeros(count)
    for epoch in range(epochs):
        batches = order.batches(epoch)
        seen = np.concatenate(batches if drop_last else batches[:-1])
        remained[np.setdiff1d(np.arange(count), seen)] += 1
    assert remained.sum() == epochs * (count % size)
    assert remained.min() > 0, "every item is left out sometimes"
    share = count % size / count
    squares = ((remained - epochs * share) ** 2).sum() / (epochs * share * (1 - share)) * (count - 1) / count
    assert squares < scipy.special.chdtri(count - 1, 1e-6)
    # of a sample of 6 without replacement, in each of the epochs
    deviation = lengths.numpy().std(ddof=1) * np.sqrt((1 - share) / (epochs * share * count))
    mean = float((remained * lengths.numpy()).sum() / remained.sum())
    assert abs(mean - lengths.double().mean()) < -scipy.special.ndtri(5e-7) * deviation


def test_without_shuffling_the_last_items_are_left_over_not_the_shortest():
    lengths = torch.tensor([1, 5, 2, 9, 3, 7, 8])
    assert list(Order(7, 3, shuffle=False, lengths=lengths)) == [[3, 5, 1], [4, 2, 0], [6]]
    assert list(Order(7, 3, shuffle=False, lengths=lengths, drop_last=True)) == [[3, 5, 1], [4, 2, 0]]


def test_without_shuffling_items_come_in_order():
    assert list(Order(5, 2, shuffle=False)) == [[0, 1], [2, 3], [4]]


def test_as_the_batch_sampler_of_a_dataloader():
    order = Order(10, 4, seed=2)
    loader = DataLoader(TensorDataset(torch.arange(10)), batch_sampler=order)
    first = [batch[0].tolist() for batch in loader]
    assert first == list(Order(10, 4, seed=2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 10, "batch_size": 4, "rank": 2, "world": 2}, "rank goes from 0 to world - 1 = 1, got 2"),
        ({"count": 3, "batch_size": 1, "world": 4}, "3 items do not fill one batch of 1 for 4 processes"),
        ({"count": 10, "batch_size": 11, "drop_last": True}, r"takes 11: use smaller batches or drop_last=False"),
        ({"count": 10, "batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"count": 10, "batch_size": 2, "seed": -1}, "seed must be a whole number from 0"),
        ({"count": 10, "batch_size": 2, "seed": True}, "seed must be a whole number from 0 to 2.63 - 1, got True"),
        ({"count": 10, "batch_size": 2, "seed": 2**63}, "seed must be a whole number from 0"),
        ({"count": 10, "batch_size": 2, "lengths": torch.ones(3, dtype=torch.int64)}, "10 items need as many lengths"),
    ],
)
def test_mistakes(arguments: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Order(**arguments)


def test_a_state_of_other_batches_is_refused():
    with pytest.raises(ArgumentError, match="these are made from"):
        Order(10, 3).load_state_dict(Order(10, 4).state_dict())
