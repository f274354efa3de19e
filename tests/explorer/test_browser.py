"""The page in a real browser, from a file and without a network: what it shows is what the library says."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from browsers import OVERFLOWS, show, start, webdriver
from wellposed import hippo, ptd
from wellposed.explorer import legs_subject, own_subject, write_explorer
from wellposed.explorer._page import _PAGE, _WORKER, _inline_json, bundle
from wellposed.explorer._subject import RELS
from wellposed.linalg import gallery
from wellposed.systems import DenseSystem, closed_forms, linf_distance, s4, s4d

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "assets" / "explorer.html"
"""The published page: as it is, so that a test need not wait half a minute for its certificates."""
PANELS = (
    "#response .chart canvas",
    "#plane",
    "#ring .chart canvas",
    "#tradeoff .chart canvas",
    "#trained .chart canvas",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    driver = start(tmp_path_factory.mktemp("profile"))
    open_page(driver, PAGE)
    yield driver
    driver.quit()


def open_page(driver: webdriver.Chrome, page: Path) -> None:
    driver.get(page.as_uri())
    settle(driver)


def settle(driver: webdriver.Chrome) -> None:
    """Until the frame is drawn and the worker is done."""
    driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    end = time.monotonic() + 30
    while driver.execute_script("return document.querySelector('#plane').dataset.state") != "done":
        assert time.monotonic() < end, "the worker does not answer"
        time.sleep(0.02)


def move(driver: webdriver.Chrome, **values: Any) -> None:
    """Put sliders and inputs somewhere, as a hand would."""
    script = """
        const input = document.getElementById(arguments[0]);
        input.value = arguments[1];
        input.dispatchEvent(new Event('input', {bubbles: true}))"""
    for name, value in values.items():
        driver.execute_script(script, name.replace("_", "-"), value)
        settle(driver)


def text(driver: webdriver.Chrome, selector: str) -> str:
    return driver.execute_script("return document.querySelector(arguments[0]).textContent", selector)


def number(driver: webdriver.Chrome, selector: str) -> float:
    return float(text(driver, selector))


def close(shown: float, expected: float) -> bool:
    return math.isclose(shown, expected, rel_tol=1e-6)


def wave(omega: float, dt: float, steps: int) -> torch.Tensor:
    """What the trapezoidal rule sees of cos(omega t): means of neighbours."""
    u = torch.cos(2 * math.atan(omega * dt / 2) * torch.arange(steps + 1, dtype=torch.float64))
    return (u[1:] + u[:-1]) / 2


def loudest(y: torch.Tensor) -> float:
    """Of the last third; the first value, at time 0, is 0 and not among ``y``."""
    return y[(2 * (len(y) + 1)) // 3 - 1 :].abs().max().item()


def check_settings(driver: webdriver.Chrome, largest: int, seed: int, rels: tuple[float, ...]) -> None:
    """Random settings of a page about LegS against the library."""
    random = Random(seed)
    sizes = [n for n in (8, 16, 32, 64) if n <= largest]
    size = random.randrange(len(sizes))
    n = sizes[size]
    rows = [1, n // 2, n]
    row, place, step = random.randrange(len(rows)), random.randrange(len(rels)), random.randrange(1, 5)
    l, rel = rows[row], sorted(rels)[place]
    dt = 6.0 / (20000, 6000, 2000, 600, 200)[step]
    omega = math.exp(random.uniform(math.log(0.2), math.log(n**2)))
    move(driver, size=size, perturbation=place, row=row, dt=step, omega=repr(omega))
    A, _ = hippo.legs(n)
    d = ptd(A, rel=rel, stable=True)
    near = s4(n, l=l, form="dense").diagonalized(d)
    assert close(number(driver, "#gain-S4"), abs(closed_forms.G_DPLR(1j * omega, n, l=l).item()))
    assert close(number(driver, "#gain-S4D"), abs(closed_forms.G_Diag(1j * omega, n, l=l).item()))
    assert close(number(driver, "#gain-PTD"), abs(near(1j * omega).item()))
    upper = {name: certificate(driver, name) for name in ("PTD", "S4D")}
    assert close(number(driver, "#distance-PTD"), upper["PTD"])
    assert close(number(driver, "#distance-S4D"), upper["S4D"])
    if seed % 3 == 0:  # each takes a while
        assert close(upper["PTD"], linf_distance(s4(n, l=l), near).value)
        assert close(upper["S4D"], linf_distance(s4(n, l=l), s4d(n, l=l)).value)
    assert close(number(driver, "#kappa"), float(d.condition))
    assert close(number(driver, "#norm-E"), float(d.norm_E))
    u = wave(omega, dt, max(round(6 / dt), 200))
    for name, system in (("S4", s4(n, l=l, form="dense")), ("S4D", s4d(n, l=l)), ("PTD", near)):
        assert close(number(driver, f"#loud-{name}"), loudest(system.discretize(dt, "bilinear").simulate(u)))
    check_sigma(driver, A, random)


def certificate(driver: webdriver.Chrome, name: str) -> float:
    """The bound that stands behind a distance."""
    title = driver.execute_script("return document.querySelector(arguments[0]).title", f"#distance-{name}")
    return float(title.removeprefix("certified: below ").partition(",")[0])


def check_sigma(driver: webdriver.Chrome, A: torch.Tensor, random: Random) -> None:
    """The smallest singular value where a pointer is."""
    script = """
        const canvas = document.querySelector('#plane'), box = canvas.getBoundingClientRect();
        const at = {clientX: box.left + arguments[0] * box.width, clientY: box.top + arguments[1] * box.height};
        canvas.dispatchEvent(new PointerEvent('pointermove', at));
        return [Number(canvas.dataset.re), Number(canvas.dataset.im)]"""
    z = complex(*driver.execute_script(script, random.uniform(0.2, 0.5), random.uniform(0.1, 0.35)))
    pencil = z * torch.eye(len(A), dtype=torch.complex128) - A
    assert close(number(driver, "#sigma"), torch.linalg.svdvals(pencil)[-1].item())


@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_those_of_the_library(browser: webdriver.Chrome, seed: int):
    check_settings(browser, 32, seed, RELS)


def test_the_published_page_has_the_scripts_of_today():
    text = PAGE.read_text("utf-8")
    assert bundle(_PAGE) in text, "run 'make docs'"
    assert _inline_json(bundle(_WORKER)) in text
    assert len(text) < 1.5e6


def test_every_panel_is_drawn_and_nothing_complains(browser: webdriver.Chrome):
    script = """
        return arguments[0].map(selector => {
            const canvas = document.querySelector(selector);
            const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            const seen = new Set();
            for (let k = 0; k < data.length; k += 4) if (data[k + 3]) seen.add(data.slice(k, k + 3).join());
            return seen.size})"""
    assert min(browser.execute_script(script, PANELS)) > 20  # shades of colours
    assert re.search(r"S4D keeps [\d.]+ % \([\d.]+ to [\d.]+\), S4-PTD", text(browser, "#worst"))  # mean, and the seeds
    assert "mean of 3 seeds" in text(browser, "#form")
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_nothing_overflows(browser: webdriver.Chrome, width: int):
    show(browser, width, "light")
    settle(browser)
    assert browser.execute_script(OVERFLOWS) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_accessibility_scan_finds_nothing(browser: webdriver.Chrome, scheme: str):
    show(browser, 768, scheme)
    browser.execute_script((HERE / "vendor" / "axe.min.js").read_text("utf-8"))
    found = browser.execute_async_script("axe.run().then(arguments[0])")["violations"]
    assert [(one["id"], one["impact"], [node["html"] for node in one["nodes"]]) for one in found] == []


def test_buttons_and_keys_do_what_they_say(browser: webdriver.Chrome):
    from selenium.webdriver.common.keys import Keys

    def click(button: str) -> None:
        browser.execute_script("document.getElementById(arguments[0]).click()", button)
        settle(browser)

    move(browser, size=1, perturbation=1, row=0, omega=1.0)
    click("last-spike")
    assert number(browser, "#gain-S4D") > 10 * number(browser, "#gain-S4")
    assert "times as loudly" in text(browser, "#verdict")
    before = text(browser, "#kappa")
    browser.find_element("id", "perturbation").send_keys(Keys.HOME)
    settle(browser)
    assert text(browser, "#kappa") != before
    plane = browser.find_element("id", "plane")
    sigma = text(browser, "#sigma")
    plane.send_keys(Keys.ARROW_UP)
    assert text(browser, "#sigma") != sigma
    plane.send_keys("+")
    settle(browser)
    for size in (2, 0):  # a smaller matrix is not read where only a larger one was drawn
        move(browser, size=size)
    assert float(text(browser, "#sigma-rel").removesuffix(" %")) < 50
    for button in ("plane-out", "plane-whole", "zoom-spike", "zoom-in", "zoom-out", "zoom-whole", "play"):
        click(button)
    assert browser.get_log("browser") == []


def check_ring(browser: webdriver.Chrome, is_complex: bool) -> None:
    """Enough of the wave is seen to say how loud it is; where it is not, no number is given."""
    if is_complex:
        assert "real part" in text(browser, "#cycles")
    else:
        for name in ("S4", "PTD"):
            assert number(browser, f"#loud-{name}") == pytest.approx(number(browser, f"#gain-{name}"), rel=1e-3)
    assert "as loudly as A" in text(browser, "#verdict")
    move(browser, omega="0.01")
    assert "Too slow to see here" in text(browser, "#verdict")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grcar:9", "bull-head:8"])
def test_a_matrix_of_ones_own(browser: webdriver.Chrome, tmp_path: Path, name: str):
    A = gallery.matrix(name)
    A = A - 4 * torch.eye(len(A), dtype=A.dtype)  # stable
    n = len(A)
    B = torch.linspace(1, 2, n, dtype=torch.float64).to(A.dtype)
    open_page(browser, write_explorer(own_subject(A, B, rels=(0.05,)), tmp_path / "own.html"))
    try:
        omega = 1.7
        move(browser, row=1, omega=repr(omega))
        l = math.ceil(n / 2)
        system = DenseSystem(A, B, torch.eye(n, dtype=A.dtype)[l - 1])
        near = system.diagonalized(ptd(A, rel=0.05, stable=True))
        assert close(number(browser, "#gain-S4"), abs(system(1j * omega).item()))
        assert close(number(browser, "#gain-PTD"), abs(near(1j * omega).item()))
        assert close(number(browser, "#distance-PTD"), linf_distance(system, near).value)
        check_ring(browser, A.is_complex())
        check_sigma(browser, A, Random(1))
        assert browser.execute_script(OVERFLOWS) == []
        assert browser.get_log("browser") == []
    finally:
        open_page(browser, PAGE)


def test_a_matrix_that_grows_and_needs_no_perturbation(browser: webdriver.Chrome, tmp_path: Path):
    """Its waves do not overflow, sizes that make no difference are no choice, and the page says so."""
    subject = own_subject(gallery.matrix("grcar:8"), rels=(0.1, 0.01))
    assert len(subject.sizes[0]["cells"]) == 1
    open_page(browser, write_explorer(subject, tmp_path / "own.html"))
    try:
        seen = browser.execute_script("return document.body.innerText")
        assert "NaN" not in seen
        assert "nothing was perturbed. It is not stable: an eigenvalue has real part 1.5." in seen
        assert "A and A + E are not stable" in seen
        assert number(browser, "#norm-E") == 0
        assert 1e2 < number(browser, "#loud-S4") < 1e6
        assert browser.get_log("browser") == []
    finally:
        open_page(browser, PAGE)


@pytest.mark.slow
def test_numbers_are_those_of_the_library_for_twenty_settings(browser: webdriver.Chrome, tmp_path: Path):
    rels = (0.1, 0.01, 1e-3, 1e-4)
    open_page(browser, write_explorer(legs_subject(64, rels=rels), tmp_path / "explorer.html"))
    try:
        for seed in range(20):
            check_settings(browser, 64, 100 + seed, rels)
    finally:
        open_page(browser, PAGE)
