"""Pathfinder once more, as plainly as possible: whole-image masks, nothing computed in advance, slow.

It follows the same stream of random numbers as the library, so that both must arrive at the same picture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import grey_dilation

from wellposed.data.tasks._pathfinder import Parameters


@dataclass
class Snake:
    tips: list[tuple[list[int], list[int]]]  # tail and head of each paddle
    headings: list[float]
    pivot: list[int]
    last: np.ndarray  # mask of the newest paddle, not yet among the others


def advance(point, angle, distance):
    return [math.ceil(point[0] + distance * np.sin(angle)), math.ceil(point[1] + distance * np.cos(angle))]


def inside(point, size):
    return 0 <= point[0] < size and 0 <= point[1] < size


def disc(radius):
    reach = int(radius)
    return np.array([[y * y + x * x <= radius**2 for x in range(-reach, reach + 1)] for y in range(-reach, reach + 1)])


def resize(picture, side):
    return np.array(Image.fromarray(picture).resize((side, side), Image.Resampling.LANCZOS))


def paddle(p: Parameters, margin: int, shape: int, start, angle: float):
    """The line and its mask on an empty square picture, both from 0 to 1."""
    s, half = p.antialias, p.paddle_length + math.ceil(p.thickness) + margin
    image = Image.new("L", (2 * s * half + 1, 2 * s * half + 1))
    y, x = advance([s * half, s * half], angle, s * p.paddle_length)
    ImageDraw.Draw(image).line([(s * half, s * half), (x, y)], fill=255, width=round(s * p.thickness))
    fine = np.array(image)
    found = []
    for picture in (fine, grey_dilation(fine, footprint=disc(s * margin))):
        wide = np.zeros((shape + 2 * half, shape + 2 * half))
        wide[start[0] : start[0] + 2 * half + 1, start[1] : start[1] + 2 * half + 1] = resize(picture, 2 * half + 1)
        found.append(wide[half:-half, half:-half] / 255)
    return found


def frame(size, width):
    mask = np.ones((size, size))
    mask[width:-width, width:-width] = 0
    return mask


def seed(p: Parameters, margin: int, mask, rng):
    """A first paddle where its kernel, which lies one pixel off, meets nothing."""
    centre = p.paddle_length + margin
    for _ in range(p.max_paddle_retrial + 1):
        angle = np.deg2rad(int(rng.random() * 360) - 180)
        kernel = paddle(p, margin, 2 * centre + 1, [centre + 1, centre + 1], angle)[1] == 1
        # As OpenCV has it: unlike scipy, along the footprint as it is, and nothing at all outside the picture.
        dilated = grey_dilation(mask, footprint=kernel[::-1, ::-1], mode="constant", cval=-np.inf)
        if dilated.min() < 0 or np.mean(mask <= 0.3) < 0.01:
            return None
        free = np.argwhere(dilated <= 0.3)
        if len(free) == 0:
            return None
        tail = free[int(rng.random() * len(free))].tolist()
        if snake := begin(p, margin, tail, angle):
            return snake
    return None


def begin(p: Parameters, margin: int, tail, angle):
    head = advance(tail, angle, p.paddle_length)
    pivot = advance(head, angle + np.pi, p.paddle_length + margin)
    if not (inside(tail, p.size) and inside(head, p.size) and inside(pivot, p.size)):
        return None
    return Snake([(tail, head)], [angle], pivot, paddle(p, margin, p.size, tail, angle)[1])


def extend(p: Parameters, margin: int, mask, snake: Snake, rng):
    """The mask with the path's last paddle, once another one has been added; None if none fits."""
    pivot = advance(snake.pivot, snake.headings[-1], p.paddle_length + 2 * margin)
    radius = p.paddle_length + margin
    around = np.arange(0, 2 * np.pi, 1 / radius)
    points = np.stack([pivot[0] + radius * np.sin(around), pivot[1] + radius * np.cos(around)], axis=1)
    pixels = np.unique(np.floor(points).astype(int), axis=0)
    pixels = pixels[((pixels >= 0) & (pixels < p.size)).all(axis=1)]
    if len(pixels) == 0:
        return None
    angles = np.arctan2(pixels[:, 0] - pivot[0], pixels[:, 1] - pivot[1])
    turn = np.abs(np.angle(np.exp(1j * (angles - snake.headings[-1]))))
    open_ = 1 - grey_dilation(mask, footprint=disc(margin))[pixels[:, 0], pixels[:, 1]]
    total = np.cumsum(open_ * np.cos(np.minimum(p.continuity * turn, np.pi / 2)) ** 2)
    if total[-1] < 1e-4:
        return None
    for _ in range(p.max_paddle_retrial + 1):
        k = np.searchsorted(total, rng.random() * total[-1], side="right")
        head, angle = pixels[k].tolist(), angles[k]
        new = paddle(p, margin, p.size, head, angle + np.pi)[1]
        if np.max(mask + new) < 1.8:
            mask = np.maximum(mask, snake.last)
            snake.tips.append((advance(head, angle + np.pi, p.paddle_length), head))
            snake.headings.append(angle)
            snake.pivot, snake.last = pivot, new
            return mask
    return None


def pair(p: Parameters, margin: int, rng):
    """The two paths, the mask they leave, and whether it went well."""
    mask = frame(p.size, p.padding)
    a = seed(p, margin, np.maximum(mask, frame(p.size, 2 * p.seed_distance)), rng)
    if a is None:
        return None
    b, tries = None, p.max_paddle_retrial + 1
    while b is None and tries:
        away = np.deg2rad(int(rng.random() * 360) - 180)
        angle = np.deg2rad(int(rng.random() * 360) - 180)
        tail = np.round(np.array(a.tips[0][0]) + p.seed_distance * np.array([np.sin(away), np.cos(away)])).astype(int)
        b, tries = begin(p, margin, tail.tolist(), angle), tries - 1
    if b is None:
        return None
    for _ in range(1, p.contour_length):
        for snake in (a, b):
            mask = extend(p, margin, mask, snake, rng)
            if mask is None:
                return None
    return (a, b), np.maximum(mask, b.last)


def distractor(p: Parameters, margin: int, mask, rng):
    snake = seed(p, margin, np.maximum(mask, frame(p.size, 1)), rng)
    if snake is None:
        return None
    for _ in range(1, p.distractor_length):
        mask = extend(p, margin, mask, snake, rng)
        if mask is None:
            return None
    return snake, np.maximum(mask, snake.last)


def picture(p: Parameters, seed_: int, i: int):
    """Picture i: label, markers, the two paths, the distractors, number of attempts, margin."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed_, spawn_key=(i,))))
    label, origin = rng.random() < 0.5, int(rng.random() < 0.5)
    margin = p.margins[int(rng.random() * len(p.margins))]
    attempts = 1
    while (grown := pair(p, margin, rng)) is None:
        attempts += 1
    snakes, mask = grown
    short = []
    for _ in range(p.distractors):
        for _ in range(p.max_distractor_contour_retrial + 1):
            if found := distractor(p, margin, mask, rng):
                short.append(found[0])
                mask = found[1]
                break
    terminal = snakes[origin if label else 1 - origin].tips[-1][1]
    return int(label), [snakes[origin].tips[0][0], terminal], snakes, short, attempts, margin


def strokes(p: Parameters, margin: int, tips, headings):
    """One path of known tips and headings on an empty picture, before contrast."""
    canvas = np.zeros((p.size, p.size))
    for k, ((tail, head), angle) in enumerate(zip(tips, headings, strict=True)):
        start, along = (tail, angle) if k == 0 else (head, angle + np.pi)
        canvas = np.maximum(canvas, paddle(p, margin, p.size, start, along)[0])
    return canvas


def render(p: Parameters, margin: int, snakes, short, markers):
    """The picture in 8 bits, from the geometry alone: `snakes` and `short` hold (tips, headings)."""
    canvas = np.zeros((p.size, p.size))
    for tips, headings in snakes:
        canvas = np.maximum(canvas, strokes(p, margin, tips, headings) * (p.snake_contrast * p.paddle_contrast))
    for tips, headings in short:
        canvas = np.maximum(canvas, strokes(p, margin, tips, headings) * p.snake_contrast)
    n = p.antialias * p.size
    y, x = np.mgrid[:n, :n]
    for marker in markers:
        dy, dx = y - p.antialias * int(marker[0]), x - p.antialias * int(marker[1])
        fine = np.where(dy**2 + dx**2 <= (p.antialias * p.marker_radius) ** 2, 255, 0).astype(np.uint8)
        canvas = np.maximum(canvas, resize(fine, p.size) / 255)
    canvas = canvas - canvas.min()
    return np.floor(canvas * (255 / canvas.max()) + 0.5).astype(np.uint8)
