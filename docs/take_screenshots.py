"""Take the pictures of README.md and docs/report.md from the demo study's report.

    storyframes demo storyframes-demo
    python docs/take_screenshots.py storyframes-demo

Needs the extras ``pipeline``, ``report`` and ``dev``, and Debian's package chromium. The face on the pictures is the
public-domain portrait of the demo (demo/README.md).
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from flows.settings import load_settings
from storyframes.store.feature_store import FeatureStore
from storyframes_report.report.session_page import ReportOptions
from storyframes_report.report.site import build_report
from tasks.study.load import load_study

IMAGES = Path(__file__).parent / "images"
TIMELINE = "timeline"  # the top of it alone
# name, page, width and height in CSS pixels, colour scheme or print
SHOTS = (
    (TIMELINE, "sessions/p01-s01.html", 1500, 590, "light"),
    ("report-study", "index.html", 1280, 1250, "light"),
    ("report-session", "sessions/p01-s01.html", 1280, 1500, "light"),
    ("report-dark", "sessions/p02-s01.html", 1280, 1500, "dark"),
    ("report-phone", "sessions/p01-s01.html", 390, 1250, "light"),
    ("report-print", "sessions/p01-s01.html", 794, 1123, "print"),  # a sheet of A4
)


def main(demo: Path) -> None:
    """Build the demo's report and take every picture of it."""
    chromium = shutil.which("chromium") or sys.exit("Chromium is not installed (Debian's package chromium)")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        site = Path(folder) / "site"
        settings = load_settings(demo / "storyframes.toml")
        options = ReportOptions(proxies=Path(folder), points=True)
        build_report(load_study(demo / "study"), FeatureStore(demo / "features"), settings, site, options)
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=chromium, args=flags)
        for name, page, width, height, scheme in SHOTS:
            picture = _take(browser, site / page, width, height, scheme, is_timeline=name == TIMELINE)
            # 256 colours are enough for charts, and a third of the bytes.
            small = Image.open(io.BytesIO(picture)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
            small.save(IMAGES / f"{name}.png", optimize=True)
        browser.close()


def _take(browser: Browser, path: Path, width: int, height: int, scheme: str, *, is_timeline: bool) -> bytes:
    colours = "light" if scheme == "print" else scheme
    tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)  # type: ignore[arg-type]
    tab.goto(path.as_uri())
    tab.wait_for_selector("html[data-drawn]", state="attached", timeout=90_000)
    if is_timeline:
        tab.add_style_tag(content=".cursor { display: none; }")
        left, top, wide = tab.evaluate(
            "(() => { const box = document.getElementById('timeline').getBoundingClientRect();"
            " return [box.left + scrollX, box.top + scrollY, box.width]; })()"
        )
        picture = tab.screenshot(full_page=True, clip={"x": left, "y": top, "width": wide, "height": height})
        tab.close()
        return picture
    if "sessions" in path.parts:
        _play_to(tab, 6.0)
    if scheme == "print":
        tab.emulate_media(media="print")
        tab.wait_for_selector("html.paper", state="attached")
    picture = tab.screenshot()
    tab.close()
    return picture


def _play_to(tab: Page, second: float) -> None:
    """Wait until the linked copy is open and shows what is there at this second, with what was found in it."""
    while not tab.evaluate("window.storyframesPlayer && storyframesPlayer.zero !== null"):
        tab.wait_for_timeout(50)
    tab.click("#player-draw")
    tab.evaluate(f"storyframesPlayer.seek({second})")
    while not tab.evaluate(f"storyframesPlayer.points && storyframesPlayer.second > {second} - 0.1"):
        tab.wait_for_timeout(50)
    tab.wait_for_function("[...document.querySelectorAll('video')].every((video) => video.readyState === 4)")
    tab.wait_for_timeout(2000)  # the browser's own sign of waiting fades away


if __name__ == "__main__":
    main(Path(sys.argv[1]))
