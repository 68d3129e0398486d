"""A headless browser that opens files: what it asks for, what it says, and what it makes of a page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = {"browser": ("chromium", "chromium-browser", "google-chrome"), "driver": ("chromedriver",)}


def missing() -> str | None:
    """Why there is no browser to test with, or None."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    absent = [name for name, programs in PROGRAMS.items() if not any(map(shutil.which, programs))]
    return f"no {' and '.join(absent)}: apt-get install chromium chromium-driver" if absent else None


class Browser:
    """One window of a size, with the light or dark scheme."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def look(self, width: int, height: int = 900, dark: bool = False) -> None:
        """Make the window so large, and ask for a scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, file: Path) -> None:
        """Open a file, as a double click does."""
        self.driver.get(file.resolve().as_uri())

    def run(self, script: str, *given: Any) -> Any:
        """What a script of ours returns; the page's policy does not hold for it."""
        return self.driver.execute_script(script, *given)

    def said(self) -> list[str]:
        """What the console holds since it was asked last."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def asked_for(self) -> list[str]:
        """The addresses that were asked for since they were asked for last."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def picture(self, top: int = 0, height: int = 900) -> bytes:
        """A part of the page as PNG."""
        import base64

        width = self.run("return innerWidth")
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        told = {"captureBeyondViewport": True, "clip": clip}
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", told)["data"])


@contextmanager
def started() -> Iterator[Browser]:
    """A browser without a screen and without a network's help."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    found = {
        name: next(filter(None, map(shutil.which, programs)), None) for name, programs in PROGRAMS.items()
    }
    options = ChromeOptions()
    options.binary_location = found["browser"] or ""
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=ChromeService(found["driver"]))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
