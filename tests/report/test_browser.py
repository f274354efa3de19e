"""The page in a real browser: headless Chromium, at the width of a phone and of a desk, light and dark."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from browsers import OVERFLOWS, show, start, webdriver
from run_folder import make
from wellposed.experiments import NAMES
from wellposed.report import save_run_summary

pytestmark = pytest.mark.slow  # drawing the page, a browser
AXE = Path(__file__).parents[1] / "explorer" / "vendor" / "axe.min.js"


@pytest.fixture(scope="module")
def browser(published_page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    driver = start(tmp_path_factory.mktemp("profile"))
    driver.get(published_page.as_uri())
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def run_page(browser: webdriver.Chrome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """The same browser, with the page of a training run; afterwards where it was."""
    before = browser.current_url
    browser.get(save_run_summary(make(tmp_path_factory.mktemp("runs") / "waves")).as_uri())
    yield browser
    browser.get(before)


def test_no_console_message(browser: webdriver.Chrome):
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_nothing_overflows(browser: webdriver.Chrome, width: int):
    show(browser, width, "light")
    assert browser.execute_script("return innerWidth") == width
    assert browser.execute_script(OVERFLOWS) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_there_and_readable_on_a_phone(browser: webdriver.Chrome, name: str):
    show(browser, 360, "light")
    script = """
        const svg = document.querySelector(`#${CSS.escape(arguments[0])} figure svg`);
        const box = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());
        return {width: box.width, height: box.height, paths: svg.querySelectorAll('path').length,
                smallest: Math.min(...texts.map(t => t.height)), count: texts.length,
                outside: texts.filter(t => t.left < box.left - 1 || t.right > box.right + 1).length}"""
    seen = browser.execute_script(script, name)
    assert 280 < seen["width"] <= 360
    assert seen["height"] > 200
    assert seen["paths"] > 10
    assert seen["count"] > 5
    assert seen["smallest"] >= 8  # CSS pixels: small print, still legible
    assert seen["outside"] == 0


def test_text_and_figures_stand_out_in_light_and_dark(browser: webdriver.Chrome):
    script = """
        const lum = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => { v /= 255;
            return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b };
        const page = lum(getComputedStyle(document.body).backgroundColor);
        const panel = lum(getComputedStyle(document.querySelector('figure')).backgroundColor);
        const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const least = (what, key, ground) => Math.min(
            ...[...document.querySelectorAll(what)].map(e => ratio(lum(getComputedStyle(e)[key]), ground)));
        return [page, least('p, td, th, h1, h2, h3', 'color', page), least('svg text', 'fill', panel)]"""
    backgrounds = []
    for scheme in ("light", "dark"):
        show(browser, 768, scheme)
        page, text, label = browser.execute_script(script)
        backgrounds.append(page)
        assert text >= 4.5  # WCAG AA for body text
        assert label >= 4.5
    assert backgrounds[0] > 0.9
    assert backgrounds[1] < 0.05


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_an_accessibility_scan_finds_nothing(browser: webdriver.Chrome, scheme: str):
    show(browser, 768, scheme)
    browser.execute_script(AXE.read_text("utf-8"))
    found = browser.execute_async_script("axe.run({exclude: ['figure svg']}).then(arguments[0])")["violations"]
    assert [(one["id"], one["impact"], [node["html"] for node in one["nodes"]]) for one in found] == []


def test_a_button_copies_the_command(browser: webdriver.Chrome):
    from selenium.webdriver.support.ui import WebDriverWait

    show(browser, 1280, "light")
    granted = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": granted})
    browser.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    button = browser.find_element("css selector", "#transfer-function .command button")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()
    WebDriverWait(browser, 5).until(lambda _: button.text == "Copied")
    copied = browser.execute_async_script("navigator.clipboard.readText().then(arguments[0], arguments[0])")
    assert copied == "wellposed reproduce transfer-function"


def test_on_paper_it_is_light_and_unfolded(browser: webdriver.Chrome):
    """Whoever reads at night prints on white."""
    show(browser, 768, "dark")
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    look = "return getComputedStyle(arguments[0])[arguments[1]]"
    body, button = (browser.find_element("css selector", what) for what in ("body", ".command button"))
    assert browser.execute_script(look, body, "backgroundColor") == "rgb(255, 255, 255)"
    assert browser.execute_script(look, button, "display") == "none"
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script("return [...document.querySelectorAll('details')].every(d => d.open)")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (360, "dark"), (1280, "light")])
def test_the_page_of_a_run_fits_and_its_figures_can_be_read(run_page: webdriver.Chrome, width: int, scheme: str):
    show(run_page, width, scheme)
    assert run_page.get_log("browser") == []
    assert run_page.execute_script(OVERFLOWS) == []
    assert run_page.execute_script("return document.documentElement.scrollWidth") <= width
    script = """
        return [...document.querySelectorAll('figure svg')].map(svg => {
            const box = svg.getBoundingClientRect();
            const texts = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());
            return {height: box.height, smallest: Math.min(...texts.map(t => t.height)),
                    outside: texts.filter(t => t.left < box.left - 1 || t.right > box.right + 1).length}})"""
    figures = run_page.execute_script(script)
    assert len(figures) == 3
    for figure in figures:
        assert figure["height"] > 200
        assert figure["smallest"] >= 7  # the narrowest of phones
        assert figure["outside"] == 0
