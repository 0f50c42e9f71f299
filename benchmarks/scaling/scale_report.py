"""The report of many sessions: making it (memory and files), and opening its study page in Chromium.

For making it, of every thirty sessions one has twelve minutes and the others have one; for opening it all have four
seconds, since the study page has as much of a short session as of a long one. Each is published by itself.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import numpy as np

from benchmarks.scaling.scale import Measure
from benchmarks.scaling.scale_study import SETTINGS, many_sessions
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage import Storage
from tasks.clip_index.index import update_clip_index
from tasks.study.load import load_study

_FPS, _SHORT_S, _LONG_S, _SHORTEST_S = 15, 60, 720, 4
_LONG_EACH = 30  # sessions, of which the first is long


def published(folder: Path, sessions: int) -> Path:
    """A study, and a store with what the pipeline makes of it, dope apart; with a clip index."""
    return _publish_all(folder, sessions, _SHORT_S, _LONG_S)


def _publish_all(folder: Path, sessions: int, short_s: int, long_s: int) -> Path:
    study = many_sessions(folder, sessions)
    storage = create_store(folder / "features")
    values = {seconds: _values(seconds) for seconds in (short_s, long_s)}
    for number, session_id in enumerate(study.sessions):
        _publish(storage, session_id, values[short_s if number % _LONG_EACH else long_s])
    catalogue.compact(storage)
    update_clip_index(study, WindowSpec(window=30, stride=15), FeatureStore(folder / "features"))
    return folder


def _values(seconds: int) -> dict[str, dict[str, np.ndarray]]:
    """By feature and array: values wander and are noisy, as measured ones, the worst for pages that compress them."""
    generator = np.random.default_rng(0)
    rows = {"frame": _FPS * seconds, "audio_frame": 100 * seconds, "word": 2 * seconds, "utterance": -(-seconds // 5)}
    features: dict[str, dict[str, np.ndarray]] = {}
    for feature in ("frames", "openface", "resnet50", "opensmile", "glove", "sbert"):
        for name, array in FEATURES[feature].arrays.items():
            if array.optional:
                continue
            count = rows[str(array.axis)]
            shape = (count, *array.shape)
            if name in ("time", "start", "end"):
                values = np.linspace(0, seconds, count, endpoint=False) + (0.3 if name == "end" else 0)
            elif array.dtype.startswith("float"):
                values = np.cumsum(generator.normal(size=shape, scale=0.05), axis=0) + generator.normal(size=shape)
                values = np.abs(values) * (0.01 if feature == "opensmile" else 1)
            elif name.startswith("frame_"):
                values = np.arange(count) * rows[name.removeprefix("frame_")] // count
            elif name == FEATURES[feature].mask:
                values = generator.uniform(size=shape) > 0.05
            else:
                values = np.zeros(shape)
            features.setdefault(feature, {})[name] = values.astype(array.dtype)
    return features


def _publish(storage: Storage, session_id: str, features: dict[str, dict[str, np.ndarray]]) -> None:
    for feature, arrays in features.items():
        with FeatureWriter(storage, session_id, FEATURES[feature]) as out:
            if feature == "sbert":
                out.attributes["speakers"] = ["participant"]
            for name, values in arrays.items():
                if columns := FEATURES[feature].arrays[name].columns:
                    out.write(name, values, list(columns))
                else:
                    out.write(name, values)
            out.publish("0" * 64, {})


def make(folder: Path) -> str:
    """The report, as the command makes it."""
    from tasks.inspect.report.site import build_report

    site = folder / "site"
    build_report(load_study(folder / "study"), FeatureStore(folder / "features"), SETTINGS, site)
    files = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
    study_page = (site / "index.html").stat().st_size
    return f"{sum(files) / 1e6:.1f} MB in {len(files)} files, the study page {study_page / 1e6:.2f} MB"


def made(folder: Path, sessions: int) -> Path:
    make(_publish_all(folder, sessions, _SHORTEST_S, _SHORTEST_S))
    return folder


def open_page(folder: Path) -> str:
    """The study page in Chromium, five times: until the table is there, and until the last chart is drawn."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as started:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        for _ in range(5):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            begun = time.perf_counter()
            page.goto((folder / "site/index.html").as_uri(), wait_until="commit")
            page.wait_for_selector("html[data-listed]", state="attached", timeout=120_000)
            listed = time.perf_counter() - begun
            page.wait_for_selector("html[data-drawn]", state="attached", timeout=120_000)
            drawn = time.perf_counter() - begun
            sizes = page.evaluate("[document.documentElement.scrollHeight, document.querySelectorAll('*').length]")
            times.append((listed, drawn, *sizes))
            page.close()
        browser.close()
    listed, drawn, height, elements = np.median(np.array(times), axis=0)
    return f"table after {listed:.2f} s, all drawn after {drawn:.2f} s, {height:.0f} pixels, {elements:.0f} elements"


MAKING = Measure("the report", published, make, sizes=(30, 300))
OPENING_PAGE = Measure("the study page in Chromium", made, open_page, sizes=(269, 2_000))
