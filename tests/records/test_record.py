"""Records survive a round trip, are written whole or not at all, and say what is wrong with them."""

import json
import re
from pathlib import Path

import pytest

from wellposed import __version__
from wellposed.errors import ArgumentError, RecordError
from wellposed.records import Claim, Record, load_record, provenance, save_record


def record(data: dict | None = None) -> Record:
    claims = [Claim("a number", 1.0, 1.0, 1e-3, "1", erratum="a slip")]
    made_by = provenance("wellposed reproduce resolvent-bound", 1.25)
    return Record(
        "resolvent-bound", "title", "source", "paper", "finding", claims, data or {"x": [1.5, -2e-9]}, made_by
    )


def test_round_trip_keeps_every_digit(tmp_path: Path):
    original = record({"x": [0.1, 1 / 3, -2.5e-300, 4], "curves": [{"n": 3, "y": [1.0]}]})
    assert load_record(save_record(original, tmp_path)) == original


def test_lists_of_numbers_stand_on_one_line(tmp_path: Path):
    text = save_record(record(), tmp_path).read_text()
    assert '"x": [1.5, -2e-09]' in text


def test_a_value_that_json_cannot_hold_leaves_the_old_record_alone(tmp_path: Path):
    path = save_record(record(), tmp_path)
    before = path.read_text()
    with pytest.raises(ValueError, match="not JSON compliant"):
        save_record(record({"x": [float("nan")]}), tmp_path)
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_missing_damaged_and_foreign_records_are_named(tmp_path: Path):
    with pytest.raises(RecordError, match=r"no record .*resolvent-bound\.json.*wellposed reproduce resolvent-bound"):
        load_record(tmp_path / "resolvent-bound.json")
    with pytest.raises(RecordError, match=r"run 'wellposed reproduce lra --full --runs DIR' first"):
        load_record(tmp_path / "lra-full.json")
    path = save_record(record(), tmp_path)
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    with pytest.raises(RecordError, match=r"is damaged .*: restore it, or remove it and run"):
        load_record(path)
    path.write_text(json.dumps(json.loads(text) | {"schema": 99}))
    with pytest.raises(RecordError, match="schema 99"):
        load_record(path)
    path.write_text(json.dumps({"schema": 1, "claims": []}))
    with pytest.raises(RecordError, match="is damaged"):
        load_record(path)


def test_provenance_names_commit_versions_and_hardware():
    made_by = provenance("a command", 2.0, seed=7)
    assert re.fullmatch(r"[0-9a-f]{40}( with local changes)?|unknown", made_by["commit"])
    assert made_by["versions"]["wellposed"] == __version__
    assert made_by["seed"] == 7
    assert made_by["hardware"]["cpu"]
    with pytest.raises(ArgumentError, match="seed must be a whole number"):
        provenance("a command", 2.0, seed=-7)
