from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wellposed.data import Vocabulary
from wellposed.errors import ArgumentError

TEXTS = st.lists(st.text(max_size=60), min_size=1, max_size=20)


@given(TEXTS, st.integers(1, 4))
def test_characters_are_those_a_counter_finds(texts: list[str], least: int):
    counts = Counter("".join(texts))
    kept = sorted((c for c in counts if counts[c] >= least), key=lambda c: (-counts[c], ord(c)))
    assert Vocabulary.of_characters(texts, min_count=least).tokens == ("<pad>", "<unk>", "<eos>", *kept)


@given(TEXTS)
def test_decoding_undoes_encoding(texts: list[str]):
    vocabulary = Vocabulary.of_characters(texts)
    for text in texts:
        numbers = vocabulary.encode(text)
        assert numbers[-1] == 2
        assert len(numbers) == len(text) + 1
        assert vocabulary.decode(numbers.tolist()) == text
        assert vocabulary.encode(text, cut=3, end=False).tolist() == numbers[:-1][:3].tolist()


def test_empty_texts_do_not_end_the_count():
    assert Vocabulary.of_characters([""] * 5000 + ["a"]).tokens[3:] == ("a",)


def test_unknown_characters_and_words():
    assert Vocabulary.of_characters(["aaa"]).encode("ab☃").tolist() == [3, 1, 1, 2]
    words = Vocabulary(("<pad>", "<unk>", "<eos>", "one", "two"), separator=" ")
    assert words.encode("one three two").tolist() == [3, 1, 4, 2]
    assert words.decode([3, 1, 4, 2, 0, 0]) == "one \ufffd two"


@pytest.mark.parametrize(("count", "dtype"), [(250, np.uint8), (256, np.uint8), (257, np.int16)])
def test_tokens_are_kept_small(count: int, dtype: type):
    characters = "".join(chr(0x4E00 + k) for k in range(count - 3))
    vocabulary = Vocabulary.of_characters([characters])
    assert len(vocabulary) == count
    assert vocabulary.encode(characters).dtype == dtype
    assert vocabulary.decode(vocabulary.encode(characters).tolist()) == characters


@pytest.mark.parametrize(
    "tokens", [("a", "b"), ("<pad>", "<unk>", "<eos>", "a", "a"), ("<pad>", "<unk>", "<eos>", "long")]
)
def test_what_is_no_vocabulary(tokens: tuple[str, ...]):
    with pytest.raises(ArgumentError, match=r"starts with <pad>|separator"):
        Vocabulary(tokens)
