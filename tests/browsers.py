"""Headless Chromium for the tests of pages; importing this skips a test module where there is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

if not CHROMIUM or not DRIVER:
    pytest.skip(
        "no chromium and chromedriver on this machine (Debian: apt install chromium chromium-driver)",
        allow_module_level=True,
    )

from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402

OVERFLOWS = """
    return [...document.querySelectorAll('body *')]
      .filter(e => !e.closest('svg') || e.tagName === 'svg')
      .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 || e.scrollWidth > e.clientWidth + 1
                   && e.clientWidth > 0 && getComputedStyle(e).display !== 'inline')
      .map(e => e.tagName + ' ' + e.textContent.slice(0, 60))"""
"""What stands out to the right, outside of drawings."""


def start(profile: Path) -> webdriver.Chrome:
    """A browser without a window or a network, which keeps what pages say on their console."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "hide-scrollbars",
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    return driver


def show(browser: webdriver.Chrome, width: int, scheme: str) -> None:
    """As wide as that, in ``"light"`` or ``"dark"``."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 2, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
