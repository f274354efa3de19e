"""From the words on the command line to the function that does the job, and from its errors to one line."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence

import tyro

from wellposed import __version__
from wellposed.cli._overrides import spelled_out
from wellposed.cli._words import in_options
from wellposed.cli.analyze import analyze
from wellposed.cli.data import DATA_VERBS, data
from wellposed.cli.diagonalize import diagonalize
from wellposed.cli.eval import evaluate
from wellposed.cli.explore import explore
from wellposed.cli.list import list_experiments
from wellposed.cli.report import report
from wellposed.cli.reproduce import reproduce
from wellposed.cli.runs import runs
from wellposed.cli.summary import summary
from wellposed.cli.sweep import sweep
from wellposed.cli.train import train
from wellposed.errors import WellposedError

VERBS: dict[str, Callable[..., None]] = {
    "reproduce": reproduce,
    "report": report,
    "list": list_experiments,
    "analyze": analyze,
    "diagonalize": diagonalize,
    "explore": explore,
    "data": data,
    "train": train,
    "sweep": sweep,
    "eval": evaluate,
    "runs": runs,
    "summary": summary,
}
"""What each verb runs. Those of ``data`` have a table of their own."""

_DESCRIPTION = (
    "Perturb a matrix by a hair, diagonalise the neighbour, and say how far you went. "
    "'wellposed VERB --help' explains a verb, 'wellposed --version' prints the version."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command ``wellposed``."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] in (["--version"], ["-V"]):
        print(f"wellposed {__version__}")
        return
    try:
        if arguments[:1] == ["data"]:
            description = "Data sets: found, fetched, built, verified and shown."
            _dispatch(DATA_VERBS, "wellposed data", description, arguments[1:] or ["--help"])
        else:
            if arguments[:1] in (["train"], ["sweep"]):
                arguments = [arguments[0], *spelled_out(VERBS[arguments[0]], arguments[1:])]
            _dispatch(VERBS, "wellposed", _DESCRIPTION, arguments)
    except WellposedError as error:
        raise SystemExit(f"wellposed: {in_options(str(error), VERBS.get(arguments[0]))}") from None
    except BrokenPipeError:
        raise SystemExit(1) from None
    except OSError as error:
        raise SystemExit(f"wellposed: {error}") from None
    except KeyboardInterrupt as stopped:
        print("wellposed: stopped" + "".join(f"; {kept}" for kept in stopped.args), file=sys.stderr)
        raise SystemExit(130) from None  # as shells report it


def _dispatch(verbs: dict[str, Callable[..., None]], prog: str, description: str, arguments: list[str]) -> None:
    if arguments and not arguments[0].startswith("-") and arguments[0] not in verbs:
        near = difflib.get_close_matches(arguments[0], verbs, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"verbs: {', '.join(verbs)}"
        raise SystemExit(f"wellposed: unknown command {arguments[0]!r}; {hint}")
    tyro.extras.subcommand_cli_from_dict(verbs, prog=prog, description=description, args=arguments)
