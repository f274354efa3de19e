"""What a Pathfinder picture looks like: sizes, lengths, contrasts and how often to try again."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from wellposed.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The parameters of the generator; the defaults are the hard level of Pathfinder at 32 x 32 pixels.

    Lengths are in pixels. A path is a chain of `contour_length` paddles (dashes), consecutive ones `2 * margin` apart.
    """

    size: int = 32
    """Side of the picture."""
    padding: int = 1
    """Width of the frame that no paddle's surroundings may enter."""
    seed_distance: int = 7
    """Distance of the two paths' origins; the first origin keeps twice as far from the borders."""
    paddle_length: int = 2
    thickness: float = 0.5
    """Of a paddle; times `antialias` it must be a whole number."""
    margins: tuple[int, ...] = (1,)
    """Half the gap between consecutive paddles: one of these is drawn for each picture."""
    continuity: float = 1.0
    """How straight a path is: it turns by at most 90 degrees / `continuity` from one paddle to the next."""
    marker_radius: float = 1.5
    antialias: int = 2
    """Paddles and discs are drawn this many times larger, then resized."""
    snake_contrast: float = 2.0
    """Multiplies the paddles of paths and distractors."""
    paddle_contrast: float = 0.75
    """Multiplies the paddles of the two paths, not those of the distractors."""
    contour_length: int = 14
    """Paddles in each of the two paths: 6, 9 or 14 in the published sets."""
    distractors: int = 5
    """Short paths asked for; those that find no room are left out."""
    distractor_length: int = 4
    """Paddles in a distractor: `contour_length // 3` in the published sets."""
    max_paddle_retrial: int = 2
    max_distractor_contour_retrial: int = 4

    def __post_init__(self) -> None:
        """Refuse values that cannot give a picture."""
        self._check_kinds()
        for name in ("padding", "seed_distance", "paddle_length", "antialias", "contour_length", "distractor_length"):
            self._at_least(name, 1)
        for name in ("distractors", "max_paddle_retrial", "max_distractor_contour_retrial"):
            self._at_least(name, 0)
        for name in ("thickness", "continuity", "marker_radius", "snake_contrast", "paddle_contrast"):
            if not 0 < getattr(self, name) < math.inf:
                raise ArgumentError(f"{name} = {getattr(self, name)}: pass a positive, finite number")
        self._check_margins()
        self._check_room()

    def _check_kinds(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kinds = {"int": (int,), "float": (int, float)}.get(str(field.type))
            if kinds is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
                raise ArgumentError(f"{field.name} = {value!r}: pass a number of type {field.type}")

    def _at_least(self, name: str, least: int) -> None:
        if getattr(self, name) < least:
            raise ArgumentError(f"{name} = {getattr(self, name)}: pass at least {least}")

    def _check_margins(self) -> None:
        whole = isinstance(self.margins, tuple) and all(type(m) is int and m >= 1 for m in self.margins)
        if not whole or not self.margins:
            raise ArgumentError(f"margins = {self.margins!r}: pass a tuple of integers >= 1, such as (1,) or (2, 3)")

    def _check_room(self) -> None:
        width = self.thickness * self.antialias
        if width != round(width):
            raise ArgumentError(
                f"thickness * antialias = {self.thickness} * {self.antialias} = {width} is not a whole number of "
                "pixels: pass a thickness that is a multiple of 1 / antialias"
            )
        reach = self.paddle_length + max(self.margins)
        if 2 * self.seed_distance < reach + 1:
            raise ArgumentError(
                f"seed_distance = {self.seed_distance}: a paddle and its margin reach {reach} pixels; "
                f"pass at least {(reach + 2) // 2}"
            )
        if self.size < 4 * self.seed_distance + 2 * max(self.margins) + 2:
            raise ArgumentError(
                f"size = {self.size} leaves no room for the first path's origin, which keeps 2 * seed_distance = "
                f"{2 * self.seed_distance} pixels from every border: pass at least "
                f"{4 * self.seed_distance + 2 * max(self.margins) + 2}, or a smaller seed_distance"
            )


PATHFINDER32 = Parameters()
"""Pathfinder of the Long Range Arena: 32 x 32, hard level, 5 distractors."""

PATHX = Parameters(
    size=128,
    seed_distance=20,
    paddle_length=5,
    thickness=1.5,
    margins=(2, 3),
    continuity=1.8,
    marker_radius=3.0,
    snake_contrast=0.9,
    paddle_contrast=1.0,
    distractors=17,
)
"""Path-X of the Long Range Arena: 128 x 128, hard level, 17 distractors."""
