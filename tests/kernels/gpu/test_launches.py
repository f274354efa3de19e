"""Launches that are remembered do what Triton's own do, on a card that is not there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, no_type_check

import pytest
import torch
from torch import nn

pytest.importorskip("triton")
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from wellposed.kernels.gpu import launches


@no_type_check
def _kernel_of_all_kinds(x, out, other, n, p, scale, FLAG: tl.constexpr, STAGES: tl.constexpr):
    """A kernel with an argument of every kind, one of them sometimes missing."""
    i = tl.arange(0, 16)
    tl.store(out + i * p, tl.load(x + i, i < n, other=0.0) * scale)
    if FLAG:
        tl.store(other + i, 1.0)


class _Variant(CompiledKernel):
    """A kernel that Triton believes it has compiled, whose launches are written down."""

    def __init__(self, launched: list[Any], src: Any, options: Any) -> None:
        self.launched, self.src, self.options = launched, src, str(options)
        self.function, self.packed_metadata = src.hash(), ()

    @property
    def run(self) -> Any:
        return self._run_it

    def launch_metadata(self, grid: Any, stream: Any, *arguments: Any) -> None:
        return None

    def _run_it(self, *call: Any) -> None:
        grid, stream, function, values = call[:3], call[3], call[4], call[9:]
        addresses = [v.data_ptr() if isinstance(v, torch.Tensor) else v for v in values]
        compiled_for = [ty == "constexpr" for ty in self.src.signature.values()]
        given = [None if constant else v for constant, v in zip(compiled_for, addresses, strict=True)]
        self.launched.append((grid, stream, function, self.options, *given))


class _Card:
    """What Triton asks of a driver before it compiles, and what was launched."""

    def __init__(self) -> None:
        self.launched: list[tuple[Any, ...]] = []

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 7


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Card]:
    made, before = _Card(), driver._active
    driver.set_active(made)  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr("triton.compiler.compile", lambda src, target, options: _Variant(made.launched, src, options))
    monkeypatch.setattr(launches, "LEAN", True)
    monkeypatch.setattr(launches, "_current_device", lambda: -1)  # what a tensor of the CPU says it is on
    monkeypatch.setattr(launches, "_current_stream", lambda device: 7)
    launches._known.clear()
    yield made
    launches._known.clear()
    driver._active = before


def _kernel() -> Any:
    return JITFunction(_kernel_of_all_kinds)


def test_the_same_call_as_tritons_own(card: _Card):
    """First, again and by Triton: the same variant with the same arguments."""
    kernel, x, out = _kernel(), torch.zeros(32), torch.zeros(32)
    more = (x, out, None, 9, 1, 0.5)
    for _ in range(3):
        launches.launch(kernel, (3, 2), *more, FLAG=False, STAGES=2, num_warps=2)
    assert len(launches._known) == 1
    kernel[(3, 2)](*more, FLAG=False, STAGES=2, num_warps=2)
    assert len(set(card.launched)) == 1
    assert card.launched[0][0] == (3, 2, 1)
    launches.launch(kernel, (3, 2), *more[:3], 9, 1, 0.25, FLAG=False, STAGES=2, num_warps=2)
    assert card.launched[-1][-3] == 0.25  # the number itself, not the one remembered


def test_every_variant_is_its_own(card: _Card):
    """Over all that Triton compiles for, a remembered launch starts what Triton would."""
    kernel = _kernel()
    base = torch.zeros(64)
    tensors = (base, base[1:], base[4:], base.bfloat16(), nn.Parameter(base))
    cases = itertools.product(tensors, (base, None), (1, 16, 17, 2**31, 2**31 + 16), (False, True))
    calls = [
        ((x, base, other, n, 2, 0.5), {"FLAG": flag, "STAGES": 1})
        for x, other, n, flag in cases
        if other is not None or not flag
    ]
    for repeat in range(2):
        for arguments, options in calls:
            launches.launch(kernel, (1,), *arguments, **options)
            kernel[(1,)](*arguments, **options)
            assert card.launched[-2] == card.launched[-1], (repeat, arguments, options)


def test_whoever_watches_is_told(card: _Card):
    from triton import knobs

    kernel, x, told = _kernel(), torch.zeros(32), []
    call: Any = (kernel, (1,), x, x, None, 9, 1, 0.5)
    launches.launch(*call, FLAG=False, STAGES=1)
    hook: Any = lambda metadata: told.append(metadata)  # noqa: E731
    assert not launches._watched(kernel)
    knobs.runtime.launch_enter_hook.add(hook)
    try:
        assert launches._watched(kernel)
    finally:
        knobs.runtime.launch_enter_hook.remove(hook)
    kernel.add_pre_run_hook(lambda *arguments, **options: told.append(arguments))
    launches.launch(*call, FLAG=False, STAGES=1)
    assert len(told) == 1


def test_another_device_is_left_to_triton(card: _Card, monkeypatch: pytest.MonkeyPatch):
    kernel, x = _kernel(), torch.zeros(32)
    call: Any = (kernel, (1,), x, x, None, 9, 1, 0.5)
    launches.launch(*call, FLAG=False, STAGES=1)
    monkeypatch.setattr(launches, "_current_device", lambda: 3)
    ran = []
    monkeypatch.setattr(launches, "_start", lambda *all: ran.append(all))
    launches.launch(*call, FLAG=False, STAGES=1)
    assert len(ran) == 1


def test_fewer_stages_where_they_do_not_fit(monkeypatch: pytest.MonkeyPatch):
    """As long as they do not; and they are not tried again."""
    tried = []

    class Kernel:
        def __getitem__(self, grid: Any) -> Any:
            def run(*arguments: Any, **options: Any) -> None:
                tried.append(options["num_stages"])
                if options["num_stages"] > 2:
                    raise launches.OutOfResources(2, 1, "shared memory")

            return run

    kernel = Kernel()
    for lean in (False, True):
        monkeypatch.setattr(launches, "LEAN", lean)
        monkeypatch.setattr(launches, "_current_device", lambda: -1)
        launches.launch(kernel, (1,), torch.zeros(1), num_stages=4)
    assert tried == [4, 3, 2, 2]


def test_memory_is_bounded(card: _Card, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(launches, "MOST", 3)
    kernel, x = _kernel(), torch.zeros(32)
    for n in range(2, 12):
        launches.launch(kernel, (1,), x, x, None, n, 1, 0.5, FLAG=False, STAGES=1)
    assert len(launches._known) <= 3


def test_this_version_of_triton_is_known(monkeypatch: pytest.MonkeyPatch):
    """A new one that starts kernels otherwise is to be read, not found out by a slow benchmark."""
    monkeypatch.setattr(launches, "interpreted", lambda: False)
    monkeypatch.setattr(launches, "_current_device", int)
    monkeypatch.setattr(launches, "_current_stream", int)
    assert launches._starts_as_expected()
    monkeypatch.setattr(launches, "_CALL", "kernel.run(something else)")
    assert not launches._starts_as_expected()
