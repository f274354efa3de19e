"""Maths in the plain text of records, set as maths: ``||A_H||^-2`` becomes norms, subscripts and powers in HTML."""

from __future__ import annotations

import html
import re

_LETTERS = {
    "kappa": "κ",
    "gamma": "γ",
    "sigma": "σ",
    "lambda": "λ",
    "omega": "ω",
    "eps": "ε",
    "pi": "π",
    "Theta": "Θ",
    "dG": "ΔG",
}
_SIGNS = {"||": "‖", "&lt;=": "≤", "&gt;=": "≥", " ~ ": " ∼ ", "+-": "±"}
_RULES: tuple[tuple[str, str], ...] = (
    (r"\bsqrt\((\w+)\)", r"√\1"),
    # 8.1e-05 and 1e-4 are powers of ten
    (r"(?<![\w.])1e([+-]?)0*(\d+)\b", r"10<sup>\1\2</sup>"),
    (r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]?)0*(\d+)\b", "\\1\u00a0×\u00a010<sup>\\2\\3</sup>"),
    (r"\^(-?(?:\d+(?:\.\d+)?|[a-z]\b))", r"<sup>\1</sup>"),
    (r"([A-Zσ‖])_(\w+)", r"\1<sub>\2</sub>"),
    (r"<sup>\+", "<sup>"),
    (r"(?<![\w.-])-(?=\d|t\))|(?<=<sup>)-|(?<=\S )-(?= \S)", "−"),
    (r"\blog10\b", "log<sub>10</sub>"),
    (r"\bl2\b", "ℓ<sup>2</sup>"),
    (r"\bL2\b", "<var>L</var><sup>2</sup>"),
    # A is a matrix, but for a sentence that begins with the article
    (r"(?<![\w'.])A(?=<sub>|‖|\)|\^| [+−] | sin| itself| are)|(?<=of )A\b|(?<=to )A(?=\.)", "<var>A</var>"),
    # s is a frequency, but for seconds and for the end of a genitive
    (r"(?<![\w'.<])(?:[nptlBCEGNUV]|ΔG|(?<!\d )s|st|sI|dt)(?![\w'>])", r"<var>\g<0></var>"),
)
_COMPILED = [(re.compile(pattern), by) for pattern, by in _RULES]
_WORDS = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(_LETTERS)})(?![A-Za-z])")


_NAME = re.compile(r"\b([a-z]\w*(?:-\w+)*-1e-?\d+(?:-\w+)*)")
"""Of runs and starts, ``ablation-gamma-1e4-seed0``: no maths."""


def set_maths(text: str) -> str:
    """HTML, escaped, of a text that has its maths in ASCII, as it stands in records and on a terminal.

    >>> set_maths("gamma = 1e-4, in gamma-1e-4-seed0")
    'γ = 10<sup>−4</sup>, in gamma-1e-4-seed0'
    """
    return "".join(part if k % 2 else _set(part) for k, part in enumerate(_NAME.split(text)))


def _set(text: str) -> str:
    text = html.escape(text, quote=False)
    for sign, by in _SIGNS.items():
        text = text.replace(sign, by)
    text = _WORDS.sub(lambda word: _LETTERS[word[0]], text)
    for pattern, by in _COMPILED:
        text = pattern.sub(by, text)
    return text
