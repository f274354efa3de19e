"""``python -m wellposed.experiments.ship RUN``: put the model of a finished run among those that travel."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from wellposed.errors import WellposedError
from wellposed.experiments._shipped import ship
from wellposed.nn._pretrained import WEIGHTS
from wellposed.train import load_run


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m wellposed.experiments.ship", description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run")
    parser.add_argument("--to", type=Path, default=WEIGHTS, metavar="DIR", help="another folder for the models")
    asked = parser.parse_args(arguments)
    try:
        print(ship(load_run(asked.run), asked.to))  # noqa: T201
    except WellposedError as error:
        raise SystemExit(f"wellposed: {error}") from None


if __name__ == "__main__":
    main()
