"""Everything a paddle can look like, computed once for each set of parameters.

A direction is an index: 0..359 are the whole degrees -180..179 of a path's first paddle, drawn from its tail
forwards; 360 + j is the direction from a pivot to the j-th pixel of the circle around it, and such a paddle is drawn
from its head backwards. Points are (y, x); an angle t points to (sin t, cos t).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wellposed.data.tasks._pathfinder._parameters import Parameters
from wellposed.errors import ArgumentError, MissingExtraError

DEGREES = 360


class Tables(NamedTuple):
    """The tables for one margin; `D` = 360 + `J` directions, sprites of side 2 R + 1."""

    tries: int
    """How often to draw a paddle before giving up."""
    blank: NDArray[np.float64]
    """(size, size): the mask before anything is drawn, 1 in the frame."""
    angle: NDArray[np.float64]
    """(D,): radians."""
    paddle: NDArray[np.uint8]
    """(D, 2 R + 1, 2 R + 1): the paddle with its starting point in the centre."""
    mask: NDArray[np.float64]
    """(D, 2 R + 1, 2 R + 1): the paddle's surroundings, 0 to 1."""
    tip: NDArray[np.float64]
    """(D, 2): from the starting point to the other tip, before rounding up."""
    stride: NDArray[np.float64]
    """(D, 2): from a pivot to the next one, before rounding up."""
    recoil: NDArray[np.float64]
    """(360, 2): from a first paddle's head to its pivot behind the tail, before rounding up."""
    apart: NDArray[np.float64]
    """(360, 2): from the first origin to the second, before rounding."""
    circle: NDArray[np.int64]
    """(J, 2): the pixels around a pivot where the next head may be."""
    affinity: NDArray[np.float64]
    """(D, J): how likely each of these follows a direction, in an empty picture."""
    disc: NDArray[np.int64]
    """(n, 2): the pixels within one margin."""
    kernel: NDArray[np.int64]
    """(360, n, 2): the pixels that must be free around a first paddle's tail; the first is repeated to fill up."""
    start: NDArray[np.int64]
    """(360, 4): first and last row, first and last column where the first path's origin may be."""
    usable: NDArray[np.bool_]
    """(360,): directions a first paddle may take, see `_usable`."""


def disc(radius: int | float) -> NDArray[np.bool_]:
    """The pixels within `radius` of the centre of a square of odd side."""
    reach = math.floor(radius)
    y, x = np.ogrid[-reach : reach + 1, -reach : reach + 1]
    return y * y + x * x <= radius * radius


def lanczos(picture: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """The picture resized to side x side, in 8 bits."""
    image = pillow().Image
    return np.asarray(image.fromarray(picture).resize((side, side), image.Resampling.LANCZOS))


def pillow() -> Any:
    """The imaging library, or the way to install it."""
    try:
        import PIL.Image
        import PIL.ImageDraw
    except ImportError as missing:
        raise MissingExtraError("pillow", "data") from missing
    return PIL


@lru_cache(maxsize=32)
def tables(parameters: Parameters, margin: int) -> Tables:
    """The tables of pictures with this margin."""
    p = parameters
    circle = _circle(p.paddle_length + margin)
    seeds = np.deg2rad(np.arange(-180, 180))
    angle = np.concatenate([seeds, np.arctan2(circle[:, 0], circle[:, 1])])
    drawn = np.concatenate([seeds, angle[DEGREES:] + np.pi])
    pairs = [_sprite(p, margin, t) for t in drawn]
    mask = np.stack([m for _, m in pairs]) / 255
    kernel = _kernels(mask[:DEGREES] == 1, p.paddle_length + margin)
    return Tables(
        tries=p.max_paddle_retrial + 1,
        blank=_frame(p),
        angle=angle,
        paddle=np.stack([s for s, _ in pairs]),
        mask=mask,
        tip=p.paddle_length * _unit(drawn),
        stride=(p.paddle_length + 2 * margin) * _unit(angle),
        recoil=(p.paddle_length + margin) * _unit(seeds + np.pi),
        apart=p.seed_distance * _unit(seeds),
        circle=circle,
        affinity=_affinity(angle, angle[DEGREES:], p.continuity),
        disc=np.argwhere(disc(margin)) - margin,
        kernel=kernel,
        start=_starts(p, kernel),
        usable=_usable(kernel),
    )


def _unit(angle: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1)


def _frame(p: Parameters) -> NDArray[np.float64]:
    frame = np.ones((p.size, p.size))
    frame[p.padding : -p.padding, p.padding : -p.padding] = 0
    return frame


def _circle(radius: int) -> NDArray[np.int64]:
    """The pixels met on the circle in steps of one pixel, rounded down (so not symmetric)."""
    angle = np.arange(0, 2 * np.pi, 1 / radius)
    return np.unique(np.floor(radius * _unit(angle)), axis=0).astype(np.int64)


def _affinity(before: NDArray[np.float64], after: NDArray[np.float64], continuity: float) -> NDArray[np.float64]:
    turn = np.abs((after[None, :] - before[:, None] + np.pi) % (2 * np.pi) - np.pi)
    bent = np.minimum(continuity * turn, np.pi / 2)
    return np.where(bent < np.pi / 2, np.cos(bent) ** 2, 0)


def _sprite(p: Parameters, margin: int, angle: float) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A paddle and its surroundings, drawn large from the centre of the box and resized."""
    from scipy.ndimage import grey_dilation

    scale = p.antialias
    half = p.paddle_length + math.ceil(p.thickness) + margin
    centre = scale * half
    y, x = np.ceil(centre + scale * p.paddle_length * _unit(np.asarray(angle)))
    image = pillow().Image.new("L", (2 * centre + 1, 2 * centre + 1))
    line = [(centre, centre), (int(x), int(y))]
    pillow().ImageDraw.Draw(image).line(line, fill=255, width=round(scale * p.thickness))
    large = np.asarray(image)
    wide = np.asarray(grey_dilation(large, footprint=disc(scale * margin)), np.uint8)
    return lanczos(large, 2 * half + 1), lanczos(wide, 2 * half + 1)


def _kernels(full: NDArray[np.bool_], reach: int) -> NDArray[np.int64]:
    """Offsets of the pixels a first paddle fills, seen from a box of half-side `reach` and one pixel off its centre."""
    half = full.shape[-1] // 2
    lists = []
    for box in full:
        offsets = np.argwhere(box) - half + 1
        lists.append(offsets[np.abs(offsets).max(axis=1) <= reach])
    longest = max(map(len, lists))
    if not min(map(len, lists)):
        raise ArgumentError("a paddle fills no pixel in some direction: pass a larger thickness or larger margins")
    return np.stack([np.concatenate([o, np.repeat(o[:1], longest - len(o), axis=0)]) for o in lists])


def _starts(p: Parameters, kernel: NDArray[np.int64]) -> NDArray[np.int64]:
    """The pixels whose kernel avoids the band of 2 seed_distance along the borders: a rectangle."""
    first = 2 * p.seed_distance - kernel.min(axis=1)
    last = p.size - 1 - 2 * p.seed_distance - kernel.max(axis=1)
    if not np.any((last >= first).all(axis=1) & _usable(kernel)):
        raise ArgumentError(f"size = {p.size} leaves no room for a first paddle: pass a larger size")
    return np.stack([first[:, 0], last[:, 0], first[:, 1], last[:, 1]], axis=1)


def _usable(kernel: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the kernel has a pixel in each quadrant around the tail, its axes included.

    The original generator dilates the mask with OpenCV, where pixels outside the picture count as minus infinity. A
    kernel that lies one pixel off may, in a corner of the picture, have no pixel inside it; minus infinity comes out
    there, and the search for a free pixel gives up at any negative number. So Pathfinder's first paddles point to
    -150 to -121 degrees only; Path-X loses 6 of 360 directions at margin 2.
    """
    down, up = kernel[..., 0] >= 0, kernel[..., 0] <= 0
    right, left = kernel[..., 1] >= 0, kernel[..., 1] <= 0
    return np.all([(v & h).any(axis=1) for v in (down, up) for h in (right, left)], axis=0)
