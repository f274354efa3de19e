"""The documentation runs, prints what it says it prints, and builds without a warning."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import itertools
import pkgutil
import re
from pathlib import Path
from statistics import fmean

import pytest

import wellposed
from page_blocks import FENCE, Block, blocks
from wellposed.experiments._ablated import Start
from wellposed.nn import S4PTD
from wellposed.records import load_record

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONG = {
    "docs/data/index.md",
    "docs/tutorials/layers.md",
    "docs/tutorials/own-data.md",
    "docs/tutorials/spikes.md",
    "docs/tutorials/when-eig-lies.md",
    "docs/howto/own-initialisation.md",
    "docs/howto/compile-export.md",
    "docs/howto/several-gpus.md",
    "docs/devdocs/spikes.md",
    "docs/devdocs/rank-one.md",
    "docs/howto/run-summary.md",
    "docs/howto/sweeps.md",
}
"""Pages that train for long, optimise, export or start processes."""
MODULES = ["wellposed", *(m.name for m in pkgutil.walk_packages(wellposed.__path__, "wellposed."))]

DRAWN = [ROOT / "docs" / "howto" / "plots.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
"""Pages whose pictures are drawn by the code above them, by docs/_plots.py when the documents are built."""

_PICTURE = re.compile(r"^!\[[^\]]*\]\(\.\./assets/(?P<name>[\w-]+\.svg)\)", re.MULTILINE)


def run(block: Block, page: Path, namespace: dict[str, object]) -> str:
    """What the block prints. Blank lines before the code make the line numbers of a traceback those of the page."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        # without the future imports of this file, as the reader of the page would run it
        exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True), namespace)
    return printed.getvalue()


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=name_of(p), marks=pytest.mark.slow if name_of(p) in LONG else ()) for p in PAGES]
)
def test_code_on_the_page_prints_what_stands_below_it(page: Path):
    namespace: dict[str, object] = {"__name__": page.stem}
    if page in DRAWN:
        figures_drawn()  # a page that failed before may have left some open
    for block in blocks(page.read_text(encoding="utf-8")):
        printed = run(block, page, namespace)
        if block.output is not None:
            assert printed == block.output, f"{page.name}, line {block.line}"
    if page in DRAWN:
        assert figures_drawn() == len(_PICTURE.findall(page.read_text(encoding="utf-8")))


def figures_drawn() -> int:
    """How many figures stand open; none does afterwards."""
    import matplotlib.pyplot as plt

    count = len(plt.get_fignums())
    plt.close("all")
    return count


@pytest.mark.parametrize("page", DRAWN, ids=lambda page: page.stem)
def test_a_picture_stands_right_below_the_code_that_draws_it(page: Path):
    text = page.read_text(encoding="utf-8")
    pictures = list(_PICTURE.finditer(text))
    assert len(pictures) >= 2
    for picture in pictures:
        assert (ROOT / "docs" / "assets" / picture["name"]).exists(), picture["name"]
        above = [fence for fence in FENCE.finditer(text) if fence.end() <= picture.start()][-1]
        assert above["language"] == "python"
        assert re.search(r"\bplot\.\w+\(|\bplt\.subplots\(", above["body"]), picture["name"]
        assert text[above.end() : picture.start()].strip() == "", picture["name"]


@pytest.mark.slow
@pytest.mark.parametrize("page", DRAWN, ids=lambda page: page.stem)
def test_pictures_are_those_that_the_code_draws_today(page: Path, tmp_path: Path):
    """By what is written in them: scales and legends follow the numbers, and processors round differently."""
    spec = importlib.util.spec_from_file_location("plots_of_pages", ROOT / "docs" / "_plots.py")
    assert spec is not None
    assert spec.loader is not None
    plots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plots)
    for fresh in plots.draw(page, tmp_path):
        published = ROOT / "docs" / "assets" / fresh.name
        written = [
            re.findall(r"<text[^>]*>(.*?)</text>", path.read_text("utf-8"), re.DOTALL) for path in (fresh, published)
        ]
        assert written[0] == written[1], f"{fresh.name}: run 'make docs'"


def test_links_of_the_readme_lead_to_files():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_numbers_of_trained_models_are_those_of_the_record():
    """A record with more seeds says something else: the pages that open with it have to follow."""
    models = load_record(ROOT / "results" / "robustness-full.json").data["models"]
    main = [m for m in models if m["learns"] == "C" and m["scale"] == "s4"]
    percent = {
        (layer, what): 100 * fmean(m[what] for m in main if m["layer"] == layer)
        for layer in ("s4d", "s4ptd")
        for what in ("clean", "layer_noise", "input_noise")
    }
    lost = {(layer, what): percent[layer, "clean"] - value for (layer, what), value in percent.items()}
    words = [
        f"S4D loses {lost['s4d', 'layer_noise']:.0f} points",
        f"S4-PTD keeps all but {lost['s4ptd', 'layer_noise']:.1f}",
        f"costs S4-PTD {lost['s4ptd', 'input_noise']:.1f} points and S4D {lost['s4d', 'input_noise']:.1f}",
    ]
    for page in ("README.md", "docs/index.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert [each for each in words if each not in text] == [], page
    noise = (ROOT / "docs" / "howto" / "noise.md").read_text(encoding="utf-8")
    assert [f"{value:.1f} %" for value in percent.values() if f"{value:.1f} %" not in noise] == []


def test_numbers_of_the_ablation_are_those_of_the_record():
    points = {p["name"]: p for p in load_record(ROOT / "results" / "ablation-full.json").data["points"]}
    text = (ROOT / "docs" / "howto" / "layer-arguments.md").read_text(encoding="utf-8")
    names = {f"gamma-1e{k}": None for k in (-4, -2, -1, 1, 3, 6, 9)} | {"s4": "S4", "s4d": "S4D"}
    for name, label in names.items():
        p = points[name]
        kappa = "" if p["kappa"] is None else f"{p['kappa']:.3g}"
        percent = f"{100 * p['accuracy']:.1f} | {100 * p['noisy']:.1f}"
        before, after = (f"{p['response'][when]['value']:.3g}" for when in ("before", "after"))
        row = f"| {label or format(p['rel'], '.2g')} | {kappa} | {percent} | {before} | {after} |"
        assert row in text, row
    pairs = [(p, points[f"gamma-1e{name[-1]}"]) for name, p in points.items() if p["kind"] == "random"]
    assert len(pairs) == 4
    assert all(8.5 < random["kappa"] / least["kappa"] < 16 for random, least in pairs)
    assert all(-0.0101 < random["accuracy"] - least["accuracy"] < 0.0355 for random, least in pairs)
    assert 100 * (points["gamma-1e-2"]["accuracy"] - points["gamma-1e-4"]["accuracy"]) == pytest.approx(5.6, abs=0.05)
    falling = sorted((p for p in points.values() if p["kind"] == "gamma" and p["rel"] < 0.06), key=lambda p: -p["rel"])
    for larger, smaller in itertools.pairwise(falling):
        assert larger["accuracy"] > smaller["accuracy"]
        assert larger["response"]["after"]["value"] < smaller["response"]["after"]["value"]


def test_random_perturbations_start_with_a_smaller_b_than_minimisers():
    for exponent, times in ((6, 13), (8, 28)):
        sizes = [
            S4PTD(1, 32, scale="s4", **Start(kind, exponent).options).B.square().mean().sqrt().item()
            for kind in ("gamma", "random")
        ]
        assert sizes[0] / sizes[1] == pytest.approx(times, abs=0.5)


def test_every_text_block_of_a_tutorial_is_checked():
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        shown = sum(fence["language"] == "text" for fence in FENCE.finditer(text))
        assert shown == sum(block.output is not None for block in blocks(text)), page.name


def test_blocks_pair_code_with_the_output_right_below_it():
    page = "```python\na\n```\n\nwords\n\n```text\n1\n```\n\n```\nx = y\n```\n\n```python\nb\n```\n\n```bash\nls\n```\n"
    assert blocks(page) == [Block(2, "a\n", "1\n"), Block(16, "b\n", None)]


@pytest.mark.parametrize("module", MODULES)
def test_doctests(module: str):
    failed, _ = doctest.testmod(importlib.import_module(module))
    assert failed == 0
