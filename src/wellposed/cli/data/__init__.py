"""``wellposed data``: data sets found, fetched, built, verified and shown."""

from wellposed.cli.data._verbs import DATA_VERBS, data

__all__ = ["DATA_VERBS", "data"]
