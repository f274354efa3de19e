"""Every annotation of wellposed, shapes included, is checked at run time while the tests run."""

from __future__ import annotations

import importlib.util
import os

import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

from faster_interpreter import spare_what_changes_nothing
from lighter_checks import lighten

if not torch.cuda.is_available():  # before anything imports triton: its interpreter runs the GPU's kernels on the CPU
    os.environ.setdefault("TRITON_INTERPRET", "1")
    if importlib.util.find_spec("triton"):
        spare_what_changes_nothing()
if importlib.util.find_spec("beartype"):  # not on every machine the numerical tests are run on
    lighten()
    install_import_hook("wellposed", "beartype.beartype")
torch.set_num_threads(1)

settings.register_profile(
    "wellposed",
    deadline=None,
    max_examples=int(os.environ.get("WELLPOSED_TEST_EXAMPLES", "20")),  # each run tries others, but in CI
    derandomize="CI" in os.environ,
    # The properties of system_suite are inherited on purpose, one class for every structure.
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)
settings.load_profile("wellposed")
