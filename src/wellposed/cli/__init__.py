"""The command line: a verb for every job, a file for every verb, and nothing but words around the library."""

from wellposed.errors import MissingExtraError

try:
    from wellposed.cli._main import main
except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    if package not in ("tyro", "rich"):
        raise
    raise SystemExit(f"wellposed: {MissingExtraError(package, 'cli')}") from None

__all__ = ["main"]
