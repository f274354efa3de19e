"""How fast the explorer answers a hand, in headless Chromium: median of 20 movements of a slider, and of zooms."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "assets" / "explorer.html"
MOVES = 20
BARS = {"curves after a slider moved": 100.0, "pseudospectrum after a zoom": 1500.0}
"""Milliseconds, at n = 64 on one core that is otherwise idle."""

_SLIDER = """
    const [done] = arguments, slider = document.getElementById('perturbation');
    const began = performance.now();
    slider.value = (Number(slider.value) + 1) % (Number(slider.max) + 1);
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    requestAnimationFrame(() => done(performance.now() - began))"""  # after the page's own of the same frame
_ZOOM = """
    const [done] = arguments, plane = document.getElementById('plane');
    const began = performance.now();
    new MutationObserver((_, self) => {
        if (plane.dataset.state !== 'done') return;
        self.disconnect();
        done(performance.now() - began)}).observe(plane, {attributeFilter: ['data-state']});
    document.getElementById('plane-whole').click()"""


def main() -> None:
    """Prints both medians beside their bars; without Chromium, a line that says so."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        print("explorer: no chromium and chromedriver on this machine")
        return
    with tempfile.TemporaryDirectory() as profile:
        browser = _browser(chromium, driver, profile)
        try:
            browser.get(PAGE.as_uri())
            browser.execute_async_script(_ZOOM)
            for (name, bar), script in zip(BARS.items(), (_SLIDER, _ZOOM), strict=True):
                times = [browser.execute_async_script(script) for _ in range(MOVES)]
                print(f"explorer, {name:28} {statistics.median(times):7.0f} ms, bar {bar:.0f} ms")
        finally:
            browser.quit()


def _browser(chromium: str, driver: str, profile: str) -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    return webdriver.Chrome(options=options, service=Service(driver))


if __name__ == "__main__":
    main()
