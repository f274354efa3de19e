from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from scipy.ndimage import label as components

import pathfinder_twin as twin
from subprocesses import run_python
from wellposed.data.tasks._pathfinder import PATHFINDER32, PATHX, Parameters, Pictures, generate
from wellposed.errors import ArgumentError

MIDDLE = dataclasses.replace(PATHFINDER32, contour_length=9, distractors=6, distractor_length=3)
EASY = dataclasses.replace(PATHFINDER32, contour_length=6, distractors=10, distractor_length=2)
PATHX8 = dataclasses.replace(PATHX, distractors=8)
SAMPLES = {"hard": (PATHFINDER32, 2000), "middle": (MIDDLE, 1500), "easy": (EASY, 1500), "x8": (PATHX8, 60)} | {
    "x17": (PATHX, 60)
}


@cache
def sample(name: str) -> Pictures:
    parameters, count = SAMPLES[name]
    return generate(count, parameters, seed=7)


def geometry(pictures: Pictures, i: int):
    """Both paths and the distractors that were placed, each as (tips, headings)."""
    snakes = list(zip(pictures.snakes[i].tolist(), pictures.headings[i], strict=True))
    n = pictures.placed[i]
    short = list(zip(pictures.distractors[i, :n].tolist(), pictures.distractor_headings[i, :n], strict=True))
    return snakes, short


@pytest.mark.parametrize("name", ["easy", *(pytest.param(name, marks=pytest.mark.slow) for name in ("hard", "x17"))])
def test_the_picture_is_what_its_geometry_says(name: str):
    parameters, _ = SAMPLES[name]
    pictures = sample(name)
    for i in range(4 if parameters.size == 128 else 20):
        snakes, short = geometry(pictures, i)
        again = twin.render(parameters, int(pictures.margins[i]), snakes, short, pictures.markers[i])
        np.testing.assert_array_equal(pictures.images[i], again)


SMALL_X = dataclasses.replace(PATHX, contour_length=8, distractors=4, distractor_length=3)


@pytest.mark.parametrize(
    ("parameters", "count"),
    [
        (EASY, 20),
        (SMALL_X, 4),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [(PATHFINDER32, 10), (PATHX, 1)]),
    ],
)
def test_the_plain_transcription_grows_the_same_picture(parameters: Parameters, count: int):
    pictures = generate(count, parameters, seed=3)
    for i in range(count):
        label, markers, snakes, short, attempts, margin = twin.picture(parameters, 3, i)
        assert (label, attempts, margin) == (pictures.labels[i], pictures.attempts[i], pictures.margins[i])
        assert markers == pictures.markers[i].tolist()
        assert len(short) == pictures.placed[i]
        long, others = geometry(pictures, i)
        for mine, other in zip([*long, *others], [*snakes, *short], strict=True):
            assert mine[0] == [[list(tail), list(head)] for tail, head in other.tips]
            np.testing.assert_array_equal(mine[1], other.headings)


def trace(pictures: Pictures, i: int) -> int:
    """Walk from the first marker, paddle after paddle: 1 if the walk ends at the second marker."""
    first, second = pictures.markers[i]
    starts = [s for s in pictures.snakes[i] if (s[0, 0] == first).all()]
    ends = []
    for path in starts:
        here = path[0, 0]
        for tail, head in path:
            step = np.linalg.norm(tail - here)
            assert step == 0 or abs(step - 2 * pictures.margins[i]) <= 3  # rounded at both ends and at the pivot
            here = head
        ends.append(bool((here == second).all()))
    assert len(starts) == 1
    return int(ends[0])


@pytest.mark.parametrize("name", SAMPLES)
def test_the_label_says_whether_one_path_joins_the_markers(name: str):
    pictures = sample(name)
    traced = [trace(pictures, i) for i in range(len(pictures))]
    ends = pictures.snakes[:, :, -1, 1]
    clear = (ends[:, 0] != ends[:, 1]).any(axis=1)  # else the picture is ambiguous
    np.testing.assert_array_equal(np.array(traced)[clear], pictures.labels[clear])
    assert clear.mean() > 0.98


@pytest.mark.parametrize("name", SAMPLES)
def test_paths_keep_the_rules(name: str):
    parameters, _ = SAMPLES[name]
    pictures = sample(name)
    turns = np.angle(np.exp(1j * np.diff(pictures.headings, axis=-1)))
    assert np.rad2deg(np.abs(turns).max()) <= 90 / parameters.continuity + 1e-9
    origins = pictures.snakes[:, :, 0, 0].astype(int)
    apart = np.linalg.norm(origins[:, 0] - origins[:, 1], axis=-1)
    assert np.abs(apart - parameters.seed_distance).max() <= 0.75  # both coordinates are rounded
    low, high = (14, 16) if parameters.size == 32 else (40, 85)
    assert low <= origins[:, 0].min()
    assert origins[:, 0].max() <= high
    heads = pictures.snakes[:, :, 1:, 1]
    reach = parameters.padding + pictures.margins[:, None, None]
    assert (heads.min(axis=-1) >= reach).all()
    assert (heads.max(axis=-1) < parameters.size - reach).all()
    lengths = np.linalg.norm(pictures.snakes[..., 0, :] - pictures.snakes[..., 1, :].astype(float), axis=-1)
    assert np.abs(lengths - parameters.paddle_length).max() <= 2**0.5


def test_distractors_left_out_are_marked():
    pictures = sample("hard")
    present = np.arange(5) < pictures.placed[:, None]
    assert (pictures.distractors[~present] == -1).all()
    assert (pictures.distractors[present] >= 0).all()
    np.testing.assert_array_equal(np.isfinite(pictures.distractor_headings).all(axis=-1), present)


# The original generator's output: number of pictures, then means over pictures, unless the name says otherwise.
REFERENCE = {
    "hard": {
        "n": 200,
        "attempts": 298,
        "placed": 1.25,
        "mean": 0.0795,
        "pixel_sd": 0.200,
        "lit0": 0.343,
        "lit25": 0.153,
        "lit128": 0.085,
    },
    "middle": {
        "n": 100,
        "attempts": 81,
        "mean": 0.0599,
        "pixel_sd": 0.179,
        "lit0": 0.265,
        "lit25": 0.114,
        "lit128": 0.063,
    },
    "easy": {
        "n": 100,
        "attempts": 23,
        "mean": 0.0502,
        "pixel_sd": 0.168,
        "lit0": 0.225,
        "lit25": 0.094,
        "lit128": 0.051,
    },
    "x8": {
        "n": 24,
        "attempts": 361,
        "placed": 7.6,
        "mean": 0.0310,
        "pixel_sd": 0.140,
        "lit0": 0.136,
        "lit25": 0.057,
        "lit128": 0.030,
    },
    "x17": {
        "n": 12,
        "attempts": 209,
        "placed": 15.3,
        "mean": 0.0454,
        "pixel_sd": 0.166,
        "lit0": 0.205,
        "lit25": 0.084,
        "lit128": 0.044,
    },
}
REFERENCE["hard"] |= {"components": 13.7, "same": 13.5, "other": 12.9}
REFERENCE["middle"] |= {"components": 9.4, "same": 14.1, "other": 13.9}
REFERENCE["easy"] |= {"components": 7.2, "same": 14.5, "other": 14.7}
REFERENCE["x8"] |= {"components": 57.7, "same": 77, "other": 73}
REFERENCE["x17"] |= {"components": 88.2, "same": 76, "other": 72}


def distances(pictures: Pictures):
    """From each origin to the far end of the same path, and of the other one: (count, 2) each."""
    origins, ends = pictures.snakes[:, :, 0, 0].astype(float), pictures.snakes[:, :, -1, 1].astype(float)
    return np.linalg.norm(origins - ends, axis=-1), np.linalg.norm(origins - ends[:, ::-1], axis=-1)


def count_components(lit: np.ndarray) -> int:
    return int(np.max(np.asarray(components(lit, np.ones((3, 3)))[0])))  # type: ignore


def measure(pictures: Pictures) -> dict[str, np.ndarray]:
    x = pictures.images / 255
    same, other = distances(pictures)
    return {
        "attempts": pictures.attempts,
        "placed": pictures.placed,
        "mean": x.mean(axis=(1, 2)),
        "pixel_sd": x.std(axis=(1, 2)),
        "lit0": (pictures.images > 0).mean(axis=(1, 2)),
        "lit25": (pictures.images > 25).mean(axis=(1, 2)),
        "lit128": (pictures.images > 128).mean(axis=(1, 2)),
        "components": np.array([count_components(image > 64) for image in pictures.images]),
        "same": same.mean(axis=1),
        "other": other.mean(axis=1),
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_statistics_of_the_original_generator(name: str):
    """Within four standard errors of the difference: both are samples, and the reference is the smaller one."""
    reference = REFERENCE[name].copy()
    n = reference.pop("n")
    measured = measure(sample(name))
    for key, expected in reference.items():
        values = measured[key]
        error = values.std() * (1 / n + 1 / len(values)) ** 0.5
        last_digit = 0.0005 if expected < 1 else 0.05
        assert abs(values.mean() - expected) <= 4 * error + last_digit, (key, values.mean(), expected, error)


QUANTILES = {  # of the distances, 5, 50 and 95 %: same path, other path
    "hard": ((4.5, 14, 21), (4.1, 13, 22)),
    "middle": ((5.6, 13.6, 21.6), (5.4, 14, 21.2)),
    "easy": ((8, 14.8, 20.3), (8, 14.8, 21.9)),
    "x8": ((38, 83, 104), (31, 78, 106)),
    "x17": ((45, 78, 102), (31, 74, 107)),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_quantiles_of_the_distances_between_ends(name: str):
    for found, expected in zip(distances(sample(name)), QUANTILES[name], strict=True):
        for level, value in zip((0.05, 0.5, 0.95), expected, strict=True):
            error = (level * (1 - level) * (1 / REFERENCE[name]["n"] + 1 / len(found))) ** 0.5
            below, up_to = (found < value - 0.5).mean(), (found <= value + 0.5).mean()  # lattice distances, rounded
            assert below - 4 * error <= level <= up_to + 4 * error, (level, value)


def test_spread_of_the_mean_over_pictures():
    spread = sample("hard").images.mean(axis=(1, 2)).std() / 255
    assert abs(spread - 0.0086) <= 4 * 0.0086 * (1 / 400 + 1 / 4000) ** 0.5


@pytest.mark.parametrize(("name", "expected", "n"), [("hard", 0.27, 200), ("easy", 0.13, 100)])
def test_paths_touch_as_often_as_in_the_original(name: str, expected: float, n: int):
    parameters, _ = SAMPLES[name]
    pictures = sample(name)
    touching = 0
    for i in range(count := 150):
        a, b = (twin.strokes(parameters, 1, *path) * 1.5 > 0.3 for path in geometry(pictures, i)[0])
        touching += bool((a & b).any())
    error = (expected * (1 - expected) * (1 / n + 1 / count)) ** 0.5
    assert abs(touching / count - expected) <= 4 * error


def test_far_ends_drift_up_and_left():
    ends = sample("easy").snakes[:, :, -1, 1].astype(float).mean(axis=1)
    error = ends.std(axis=0) * (1 / 100 + 1 / 1500) ** 0.5
    assert (np.abs(ends.mean(axis=0) - 11) <= 4 * error + 0.5).all()


@pytest.mark.parametrize("name", ["hard", "middle", "easy"])
def test_the_label_is_a_fair_coin_and_does_not_show_in_the_brightness(name: str):
    pictures = sample(name)
    n = len(pictures)
    assert abs(pictures.labels.mean() - 0.5) <= 4 * 0.5 / n**0.5
    mean = pictures.images.mean(axis=(1, 2))
    ones, zeros = mean[pictures.labels == 1], mean[pictures.labels == 0]
    assert abs(ones.mean() - zeros.mean()) <= 4 * mean.std() * (1 / len(ones) + 1 / len(zeros)) ** 0.5


def same(a: Pictures, b: Pictures) -> bool:
    return all(
        np.array_equal(getattr(a, f.name), getattr(b, f.name), equal_nan=f.name.endswith("headings"))
        for f in dataclasses.fields(Pictures)
    )


def test_the_same_seed_gives_the_same_bits():
    assert same(generate(5, EASY, seed=11), generate(5, EASY, seed=np.random.SeedSequence(11)))
    assert not np.array_equal(generate(5, EASY, seed=11).images, generate(5, EASY, seed=12).images)
    children = np.random.SeedSequence(11).spawn(2)
    assert not np.array_equal(generate(5, EASY, children[0]).images, generate(5, EASY, children[1]).images)


def test_a_picture_does_not_depend_on_the_batch_it_is_in():
    whole = generate(12, EASY, seed=5)
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda first: generate(4, EASY, 5, first=first), (8, 0, 4)))
    for part, first in zip(parts, (8, 0, 4), strict=True):
        np.testing.assert_array_equal(part.images, whole.images[first : first + 4])
        np.testing.assert_array_equal(part.snakes, whole.snakes[first : first + 4])
    assert len(generate(0, EASY, seed=5)) == 0


def test_pictures_use_the_whole_range_of_eight_bits():
    for name in ("hard", "x17"):
        images = sample(name).images
        assert images.dtype == np.uint8
        assert (images.min(axis=(1, 2)) == 0).all()
        assert (images.max(axis=(1, 2)) == 255).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 20}, "size = 20"),
        ({"padding": 0}, "padding = 0"),
        ({"seed_distance": 1}, "seed_distance = 1"),
        ({"paddle_length": 0}, "paddle_length = 0"),
        ({"thickness": 0.3}, "thickness"),
        ({"thickness": float("nan")}, "thickness = nan"),
        ({"margins": ()}, "margins"),
        ({"margins": (0,)}, "margins"),
        ({"continuity": 0.0}, "continuity = 0.0"),
        ({"snake_contrast": -1.0}, "snake_contrast = -1.0"),
        ({"contour_length": 0}, "contour_length = 0"),
        ({"distractors": -1}, "distractors = -1"),
        ({"distractors": True}, "distractors = True"),
        ({"max_paddle_retrial": -1}, "max_paddle_retrial = -1"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(change: dict, message: str):
    with pytest.raises(ArgumentError, match=f"{message}.*: .*pass"):
        dataclasses.replace(PATHFINDER32, **change)


def test_parameters_of_a_wrong_type_are_refused_by_name():
    run_python("""
from wellposed.data.tasks._pathfinder import Parameters
from wellposed.errors import ArgumentError

for wrong in (dict(size=32.0), dict(margins=[1]), dict(thickness="1"), dict(margins=(1.5,))):
    try:
        Parameters(**wrong)
    except ArgumentError as error:
        assert str(error).startswith(next(iter(wrong)))
    else:
        raise AssertionError(wrong)
""")


def test_counts_and_seeds_out_of_range_are_refused():
    for wrong in ({"count": -1}, {"first": -1}, {"seed": -1}):
        with pytest.raises(ArgumentError, match="-1"):
            generate(**({"count": 1, "parameters": EASY, "seed": 0} | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("package", ["numba", "PIL"])
def test_a_missing_package_is_named_when_it_is_needed(package: str):
    run_python(f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)

sys.meta_path.insert(0, Refuse())
from wellposed.data.tasks._pathfinder import PATHFINDER32, generate
from wellposed.errors import MissingExtraError

try:
    generate(1, PATHFINDER32, 0)
except MissingExtraError as error:
    assert "wellposed[data]" in str(error)
else:
    raise AssertionError("no error")
""")
