"""``wellposed list``."""

from __future__ import annotations


def list_experiments() -> None:
    """List the experiments that 'reproduce' knows."""
    from wellposed.experiments import NAMES, get

    for name in NAMES:
        print(f"{name:20} {get(name).title} ({get(name).source})")
