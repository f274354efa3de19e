"""ListOps: every label against an evaluator of its own, the statistics against published ones, tables as published."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

import numpy as np
import pytest

from wellposed.data import ListOps, SequenceDataset, load, prepare
from wellposed.errors import ArgumentError, DataError, UnknownNameError


def value(text: str) -> int:
    """By recursion over the text, with Python's own functions: nothing shared with the generator."""
    words = iter(text.split())

    def node(word: str) -> int:
        if word.isdigit():
            return int(word)
        arguments = []
        while (following := next(words)) != "]":
            arguments.append(node(following))
        assert 2 <= len(arguments) <= 10
        operations = {
            "[MIN": min,
            "[MAX": max,
            "[MED": lambda v: int(statistics.median(v)),
            "[SM": lambda v: sum(v) % 10,
        }
        return operations[word](arguments)

    result = node(next(words))
    assert next(words, None) is None
    return result


def nesting(text: str) -> int:
    depth = deepest = 0
    for word in text.split():
        depth += word.startswith("[") - (word == "]")
        deepest = max(deepest, depth)
    return deepest


def expressions(dataset: SequenceDataset, count: int | None = None) -> list[str]:
    assert dataset.vocabulary is not None
    tokens = dataset.vocabulary.tokens
    return [" ".join([tokens[k] for k in dataset.rows[i][:-1].tolist()]) for i in range(count or len(dataset))]


def rows(dataset: SequenceDataset) -> set[bytes]:
    """All expressions, to be told apart."""
    return {dataset.rows[i].numpy().tobytes() for i in range(len(dataset))}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def many(root: Path) -> SequenceDataset:
    return load("listops", root, "train", train=20_000, val=500, test=500)


@pytest.fixture(scope="module")
def texts(many: SequenceDataset) -> list[str]:
    return expressions(many, 4000)


def test_the_evaluator_knows_the_published_semantics():
    assert value("[MED 1 2 ]") == 1, "the mean of the two middle values, rounded down"
    assert value("[SM 9 9 [MAX 3 5 ] ]") == 3
    assert value("[MIN 4 [MED 9 0 8 1 ] ]") == 4


@pytest.mark.parametrize("count", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_every_label_is_the_value_of_its_expression(many: SequenceDataset, count: int):
    assert [value(text) for text in expressions(many, count)] == many.y[:count].tolist()
    assert len(rows(many)) == len(many)


def test_every_label_of_the_whole_set(official: Path):
    """All 100,000, where there is time for it: with ``WELLPOSED_TEST_DATA``."""
    seen: set[str] = set()
    for split, count in (("train", 96_000), ("val", 2_000), ("test", 2_000)):
        data = load("listops", official, split, source="generated")
        some = expressions(data)
        assert len(some) == count
        assert [value(text) for text in some] == data.y.tolist()
        seen |= set(some)
    assert len(seen) == 100_000


def test_splits_are_disjoint(root: Path, many: SequenceDataset):
    val, test = (rows(load("listops", root, split, train=20_000, val=500, test=500)) for split in ("val", "test"))
    assert (len(val), len(test)) == (500, 500)
    assert not val & test
    assert not rows(many) & (val | test)


def test_lengths_and_labels_are_distributed_as_published(many: SequenceDataset):
    """References: 20,000 expressions of the original generator. Tolerances: four standard errors of a difference.

    Of a quantile q that is sqrt(2 q (1 - q) / n) / density, with the density from neighbouring quantiles.
    """
    lengths = many.lengths.numpy() - 1  # the end token
    assert lengths.min() >= 501
    assert lengths.max() <= 1999
    shares, reference = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99], [508, 540, 706, 961, 1315, 1805, 1955]
    density = np.gradient(shares, reference)
    error = np.sqrt(2 * np.array(shares) * (1 - np.array(shares)) / len(lengths)) / density
    assert np.all(np.abs(np.quantile(lengths, shares) - reference) <= 4 * error + 0.5)
    assert abs(lengths.mean() - 1039) <= 4 * lengths.std() * np.sqrt(2 / len(lengths)) + 0.5
    labels = np.bincount(many.y.numpy(), minlength=10) / len(many)
    published = np.array([17.0, 9.0, 7.7, 8.1, 9.1, 8.7, 8.0, 7.5, 8.2, 16.7]) / 100
    assert np.all(np.abs(labels - published) <= 4 * np.sqrt(2 * published * (1 - published) / len(many)) + 5e-4)


@pytest.mark.slow
def test_shape_of_the_trees_is_as_published(many: SequenceDataset, texts: list[str]):
    assert {nesting(text) for text in texts} == {9}
    roots = np.unique([text.split()[0] for text in texts], return_counts=True)
    assert dict(zip(*roots, strict=True)).keys() == {"[MIN", "[MAX", "[MED", "[SM"}
    assert np.all(np.abs(roots[1] / len(texts) - 0.25) <= 4 * np.sqrt(0.25 * 0.75 / len(texts)))
    tokens = np.bincount(np.concatenate([many[i][0][:-1].numpy() for i in range(4000)]), minlength=18)[3:]
    shares = tokens / tokens.sum()
    assert np.allclose(shares[:10], 0.0716, atol=5e-4)
    assert np.allclose(shares[10:14], 0.0355, atol=5e-4)
    assert abs(shares[14] - 0.142) <= 1e-3


def test_same_seed_same_bits_and_another_seed_others(tmp_path: Path):
    def some(root: str, count: int = 50, seed: int = 0) -> list[str]:
        (tmp_path / root).mkdir(exist_ok=True)
        return expressions(load("listops", tmp_path / root, train=count, val=10, test=10, seed=seed))

    assert some("a") == some("b")
    assert some("a")[:40] == some("b", 40)
    assert some("a") != some("b", seed=1)


def test_cut_to_the_length_asked_for(tmp_path: Path):
    short = load("listops", tmp_path, train=20, val=5, test=5, length=100)
    assert set(short.lengths.tolist()) == {100}
    assert {int(short[i][0][-1]) for i in range(20)} == {2}


def bracketed(operator: str, *arguments: str) -> str:
    """As the published tables spell it: ( ( ( [MAX a ) b ) ] )."""
    text = operator
    for argument in (*arguments, "]"):
        text = f"( {text} {argument} )"
    return text


def write_tables(folder: Path, rows: list[tuple[str, str]]) -> Path:
    folder.mkdir(parents=True)
    for split in ("train", "val", "test"):
        lines = ["Source\tTarget", *(f"{text}\t{label}" for text, label in rows)]
        (folder / f"basic_{split}.tsv").write_text("\r\n".join(lines) + "\r\n", newline="")
    return folder


@pytest.mark.parametrize("prefix", ["listops-1000", "lra_release/listops-1000", "lra_release/lra_release/listops-1000"])
def test_published_tables_are_read_where_they_are_found(tmp_path: Path, prefix: str, caplog: pytest.LogCaptureFixture):
    inner = bracketed("[SM", "9", "4")
    write_tables(tmp_path / prefix, [(bracketed("[MAX", "1", inner, "2"), "3"), (inner, "3")])
    dataset = load("listops", tmp_path, "val")
    assert dataset.info.source == "published"
    assert "basic_val.tsv holds 2 items, published are 2000: is it whole?" in caplog.text
    assert expressions(dataset) == ["[MAX 1 [SM 9 4 ] 2 ]", "[SM 9 4 ]"]
    assert dataset.y.tolist() == [3, 3]
    assert dataset[1][0].tolist() == [16, 12, 7, 17, 2]
    assert load("listops", tmp_path, source="generated", train=5, val=5, test=5).info.source == "generated"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("( [MAX 1", "17"), "line 2: a row is an expression, a tab and a digit"),
        (("( ( ( [MAX 1 ) 2 ) ] )", "1"), "line 2: the expression comes to 2, the table says 1"),
        (("[MAX 1 2", "2"), "line 2: the brackets do not make one expression"),
        (("1 ]", "1"), "line 2: a bracket closes nothing"),
        (("[MAX ]", "1"), "line 2: a bracket closes nothing"),
        (("1 2", "1"), "line 2: the brackets do not make one expression"),
        (("", "1"), "line 2: the brackets do not make one expression"),
        (("<pad>", "1"), "line 2: '<pad>' is not a token"),
        (("( [AVG 1 2 ] )", "1"), r"line 2: '\[AVG' is not a token"),
    ],
)
def test_a_damaged_table_is_refused_by_line(tmp_path: Path, row: tuple[str, str], message: str):
    write_tables(tmp_path / "listops-1000", [row])
    with pytest.raises(DataError, match=message):
        prepare("listops", tmp_path)


def test_a_line_that_stands_twice_in_a_table_is_named(tmp_path: Path):
    write_tables(tmp_path / "listops-1000", [("( ( ( [MAX 1 ) 2 ) ] )", "2"), ("3", "3"), ("[MAX 1 2 ]", "2")])
    message = r"basic_train\.tsv, line 4: '\[MAX 1 2 \]' \.\.\. stands in line 2 already: unpack the release again"
    with pytest.raises(DataError, match=message):
        prepare("listops", tmp_path)


def test_a_published_build_of_another_version_is_not_replaced_by_a_generated_one(tmp_path: Path, monkeypatch):
    """Without the tables it cannot be built again: that is said, and nothing else is put in its place."""
    folder = write_tables(tmp_path / "listops-1000", [("1", "1")])
    load("listops", tmp_path)
    shutil.rmtree(folder)
    monkeypatch.setattr(ListOps, "version", 99)
    with pytest.raises(DataError, match=r"there is no .*basic_train\.tsv: unpack the release there, or use source="):
        load("listops", tmp_path)
    assert load("listops", tmp_path, source="generated", train=5, val=5, test=5).info.source == "generated"


def test_what_was_prepared_from_published_tables_stays_so_without_them(tmp_path: Path):
    write_tables(tmp_path / "here" / "listops-1000", [("1", "1")])
    assert load("listops", tmp_path / "here").info.source == "published"
    shutil.copytree(tmp_path / "here" / "prepared", tmp_path / "there" / "prepared")
    assert load("listops", tmp_path / "there").info.source == "published"
    assert load("listops", tmp_path / "there", train=5, val=5, test=5).info.source == "generated"
    with pytest.raises(ArgumentError, match="seed, train can be chosen with source='generated' only"):
        load("listops", tmp_path / "here", source="published", seed=1, train=5)


def test_tables_of_which_one_is_missing_are_not_replaced_by_others(tmp_path: Path):
    folder = write_tables(tmp_path / "listops-1000", [("1", "1")])
    (folder / "basic_val.tsv").unlink()
    with pytest.raises(DataError, match=r"basic_val\.tsv: unpack the release there, or use source='generated'"):
        load("listops", tmp_path)


def test_windows_line_ends_a_mark_and_an_empty_last_line_do_no_harm(tmp_path: Path):
    folder = write_tables(tmp_path / "listops-1000", [("1", "1")])
    (folder / "basic_val.tsv").write_bytes(b"\xef\xbb\xbfSource\tTarget\r\n7\t7\r\n\r\n")
    assert load("listops", tmp_path, "val").y.tolist() == [7]
    (folder / "basic_val.tsv").write_bytes(b"Source\tTarget\n\xff\t7\n")
    with pytest.raises(DataError, match=r"basic_val\.tsv cannot be read"):
        load("listops", tmp_path, "val")


def test_other_mistakes(tmp_path: Path):
    write_tables(tmp_path / "listops-1000", [("1", "1")])
    (tmp_path / "listops-1000" / "basic_test.tsv").write_text("Quelle\tZiel\n")
    with pytest.raises(DataError, match="not with Source and Target"):
        prepare("listops", tmp_path, source="published")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="use source='generated'"):
        prepare("listops", tmp_path / "empty", source="published")
    with pytest.raises(UnknownNameError, match="did you mean 'seed'"):
        load("listops", tmp_path, sed=1)
