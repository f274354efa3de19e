"""The Triton backend, one system a channel, against the loop in float64."""

from __future__ import annotations

import os

import pytest
import torch

from kernel_suite import KernelSuite
from wellposed.kernels.device import triton_takes

pytestmark = pytest.mark.skipif(
    not triton_takes(torch.zeros(1, device=os.environ.get("WELLPOSED_TEST_DEVICE", "cpu"))),
    reason="neither a GPU nor Triton's interpreter",
)


class TestTriton(KernelSuite):
    """Float32, relative to the largest entry: sums of some hundred terms."""

    backend = "triton"
    dtype = torch.float32
    tolerance = 1e-5
