"""Every annotation of wellposed, shapes included, is checked at run time while the tests run."""

from __future__ import annotations

import os

import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

install_import_hook("wellposed", "beartype.beartype")
torch.set_num_threads(1)

settings.register_profile(
    "wellposed",
    deadline=None,
    max_examples=60,
    derandomize="CI" in os.environ,
    # The properties of system_suite are inherited on purpose, one class for every structure.
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)
settings.load_profile("wellposed")
