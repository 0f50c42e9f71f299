"""Take the pictures of docs/report.md from the demo study's report.

    storyframes demo storyframes-demo
    python docs/take_screenshots.py storyframes-demo

Needs the extras ``pipeline``, ``report`` and ``dev``, and Debian's package chromium. The report is the default one, so
no frame of a recording is on any picture.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from flows.settings import load_settings
from storyframes.store.feature_store import FeatureStore
from tasks.inspect.report.site import build_report
from tasks.study.load import load_study

IMAGES = Path(__file__).parent / "images"
# name, page, width and height in CSS pixels, colour scheme
SHOTS = (
    ("report-study", "index.html", 1280, 1250, "light"),
    ("report-session", "sessions/p01-s01.html", 1280, 1900, "dark"),
    ("report-phone", "sessions/p01-s01.html", 390, 1250, "light"),
)


def main(demo: Path) -> None:
    """Build the demo's report and take every picture of it."""
    chromium = shutil.which("chromium") or sys.exit("Chromium is not installed (Debian's package chromium)")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        site = Path(folder) / "site"
        settings = load_settings(demo / "storyframes.toml")
        build_report(load_study(demo / "study"), FeatureStore(demo / "features"), settings, site)
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=chromium, args=flags)
        for name, page, width, height, scheme in SHOTS:
            picture = _take(browser, site / page, width, height, scheme)
            # 256 colours are enough for charts, and a third of the bytes.
            small = Image.open(io.BytesIO(picture)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
            small.save(IMAGES / f"{name}.png", optimize=True)
        browser.close()


def _take(browser: Browser, page: Path, width: int, height: int, scheme: str) -> bytes:
    tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    tab.goto(page.as_uri())
    tab.wait_for_function("document.documentElement.dataset.drawn !== undefined", timeout=90_000)
    picture = tab.screenshot()
    tab.close()
    return picture


if __name__ == "__main__":
    main(Path(sys.argv[1]))
