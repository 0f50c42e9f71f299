"""The report's page of a session of 2 hours, 30 frames a second and 10 curves, in Chromium: bytes, drawing, scrolling.

Frames a second are counted with requestAnimationFrame while the page scrolls by 8 pixels a frame, while the timeline,
zoomed to a tenth and to a half, moves by a hundredth of what it shows a frame, and while it is zoomed by 2 % a frame.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from support.pages.browser import chromium
from support.stores import local

from benchmarks.measure import print_machine
from storyframes.features import FEATURES
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.report.site import build_report
from tasks.inspect.session_curves import ACTION_UNITS
from tasks.study.load import load_study

HOURS, RATE = 2, 30
COLUMNS = ("pose_Rx", "pose_Ry", "pose_Rz", "gaze_angle_x", "gaze_angle_y", *ACTION_UNITS)
FACE = FeatureSpec(
    "face",
    "a face with the columns that the page draws as 9 curves and a strip",
    {
        "values": ArraySpec(Axis.FRAME, "float32", "a face", shape=(22,), dims=("column",), columns=COLUMNS),
        "confidence": ArraySpec(Axis.FRAME, "float32", "how sure"),
        "valid": ArraySpec(Axis.FRAME, "uint8", "1 where a face was tracked", fill=0),
    },
    mask="valid",
)
MOTION = FeatureSpec("motion", "one curve", {"values": ArraySpec(Axis.FRAME, "float32", "motion")})
FRAMES = """(step) => new Promise((done) => {
    const times = [];
    const next = (now) => {
        times.push(now);
        if (now - times[0] > 4000) done(times);
        else { step(times.length); requestAnimationFrame(next); }
    };
    requestAnimationFrame(next);
})"""
SCROLL = """() => {
    const most = document.documentElement.scrollHeight - innerHeight;
    window.way = window.scrollY >= most ? -8 : window.scrollY <= 0 ? 8 : window.way;
    window.scrollBy(0, window.way);
}"""
MOVE = """(number) => {
    const start = 720 + WIDTH / 100 * number;
    storyframesTimeline.move(document.getElementById("timeline"), start, start + WIDTH);
}"""
ZOOM = """(number) => {
    const half = 3600 * 0.98 ** (number % 200);
    storyframesTimeline.move(document.getElementById("timeline"), 3600 - half, 3600 + half);
}"""


def write_store(folder: Path) -> None:
    """Smooth random curves, with a lost face now and then."""
    rows = HOURS * 3600 * RATE
    generator = np.random.default_rng(0)
    noise = np.cumsum(generator.normal(size=(rows, 24)), axis=0, dtype=np.float64)
    curves = (noise - noise.min(axis=0)) / np.ptp(noise, axis=0)
    valid = (np.arange(rows) // 500 % 20 > 0).astype(np.uint8)
    (folder / "sessions.csv").write_text("session_id,participant_id,video\nlong,p1,long.mp4\n")
    create_store(folder / "features")
    for spec, arrays in (
        (FEATURES["frames"], {"time": np.arange(rows) / RATE}),
        (FACE, {"values": curves[:, :22], "confidence": curves[:, 22], "valid": valid}),
        (MOTION, {"values": curves[:, 23]}),
    ):
        with FeatureWriter(local(folder / "features"), "long", spec) as out:
            for name, values in arrays.items():
                out.write(name, values.astype(spec.arrays[name].dtype))
            out.publish("f", {})
    catalogue.compact(local(folder / "features"))


def frames_a_second(page: object, step: str) -> str:
    times = np.array(page.evaluate(f"({FRAMES})({step})"))  # type: ignore[attr-defined]
    gaps = np.diff(times)
    return f"{1000 / gaps.mean():.0f} frames a second, the slowest twentieth {np.quantile(gaps, 0.95):.0f} ms or more"


def main() -> None:
    print_machine()
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        write_store(folder)
        build_report(load_study(folder), FeatureStore(folder / "features"), ExtractorsSettings(), folder / "site")
        path = folder / "site/sessions/long.html"
        print(f"page: {path.stat().st_size:,} bytes, {len(gzip.compress(path.read_bytes())):,} by gzip")
        library = (folder / "site/assets/plotly-cartesian.min.js").read_bytes()
        print(f"plotly: {len(library):,} bytes, {len(gzip.compress(library)):,} by gzip")
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_init_script(
            "addEventListener('storyframes-drawn', () => { window.drawn_ms = performance.now(); }, true)"
        )
        for _ in range(3):
            page = context.new_page()
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-drawn]", state="attached", timeout=90_000)
            print(f"drawn after {page.evaluate('window.drawn_ms'):.0f} ms", end="; ")
            print(f"the page scrolls at {frames_a_second(page, SCROLL)}", end="; ")
            for part, seconds in (("a tenth", 720), ("a half", 3600)):
                print(f"{part} moves at {frames_a_second(page, MOVE.replace('WIDTH', str(seconds)))}", end="; ")
            print(f"it is zoomed at {frames_a_second(page, ZOOM)}")
            page.close()


if __name__ == "__main__":
    main()
