"""Every backend against the loop, and the dispatch that chooses among them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from kernel_suite import DEVICE, KernelSuite, loop, moved, off, work
from wellposed.errors import ArgumentError
from wellposed.kernels import BACKENDS, Backend, choose, has_triton, run
from wellposed.kernels.work import Work


class TestScan(KernelSuite):
    backend = "scan"


class TestConv(KernelSuite):
    backend = "conv"


@pytest.mark.slow
@pytest.mark.skipif(not has_triton(torch.zeros(1, device=DEVICE)), reason="neither a GPU nor Triton's interpreter")
class TestTriton(KernelSuite):
    """Float32, relative to the largest entry: sums of some hundred terms."""

    backend, dtype, tolerance = "triton", torch.float32, 1e-5


@pytest.mark.slow
class TestLoop(KernelSuite):
    """The smallest backend there can be: what a newcomer writes first, registered by one line."""

    backend, device = "loop", "cpu"

    @pytest.fixture(autouse=True)
    def _register(self, monkeypatch: pytest.MonkeyPatch):
        def run_loop(w: Work) -> Any:
            y, state = loop(w)
            return y, state if w.want_state else None

        monkeypatch.setitem(BACKENDS, "loop", Backend(run_loop, lambda w: w.u.dtype == torch.float64))


def test_every_backend_has_its_suite():
    tested = {suite.backend for suite in KernelSuite.__subclasses__()}
    assert set(BACKENDS) <= tested


def test_the_dispatch_takes_what_is_fast_and_able(monkeypatch: pytest.MonkeyPatch):
    w = work("diagonal", 20)
    assert choose(w) == "scan"
    assert choose(w, "conv") == "conv"
    on_gpu = dataclasses.replace(w, u=w.u.to("meta"))
    monkeypatch.setitem(BACKENDS, "fast", Backend(lambda w: loop(w), lambda w: w.u.is_meta, fastest_on=("meta",)))
    assert choose(on_gpu) == "fast"
    assert choose(w) == "scan"
    with pytest.raises(ArgumentError, match=r"mode='fast' cannot do this \(\w+ on \w+.*\); what can: scan, conv"):
        run(w, "fast")


def test_states_are_computed_only_when_asked_for():
    for backend in BACKENDS:
        assert run(moved(work("diagonal", 20), DEVICE, torch.float32), backend)[1] is None


@pytest.mark.parametrize("backend", ["scan", "conv"])
def test_long_sequences_in_segments(backend: str, monkeypatch: pytest.MonkeyPatch):
    """Segments of a few steps give what one piece gives."""
    monkeypatch.setattr("wellposed.kernels.chunks._SEGMENT", 6 * 40)
    for kind in ("diagonal", "dense", "shared"):
        w = work(kind, 300, want_state=True)
        for a, b in zip(run(w, backend), loop(w), strict=True):
            assert a is not None
            assert off(a, b) < 1e-11
