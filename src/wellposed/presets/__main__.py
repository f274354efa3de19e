"""``python -m wellposed.presets docs/presets.md`` writes the page of the documentation."""

from __future__ import annotations

import argparse
from pathlib import Path

from wellposed._files import write_whole
from wellposed.errors import RecordError, WellposedError
from wellposed.presets._page import page


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m wellposed.presets", description=__doc__)
    parser.add_argument("page", type=Path, help="the file to write, such as docs/presets.md")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of records (default: results)")
    arguments = parser.parse_args()
    try:
        if not arguments.results.is_dir():
            raise RecordError(f"there is no folder {arguments.results}: name that of the records with --results")
        write_whole(arguments.page, page(arguments.results))
    except WellposedError as error:
        raise SystemExit(f"wellposed: {error}") from None


if __name__ == "__main__":
    main()
