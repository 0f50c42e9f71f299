"""The report of many sessions: making it (memory and files), and opening its study page in Chromium.

Of every thirty sessions one has twelve minutes, the others have one. Two short and two long ones are published, the
others are links to their files: every page is made from a store as it is read, and no two kinds of values are constant.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import numpy as np

from benchmarks.scaling.scale import Measure
from benchmarks.scaling.scale_index import link_version
from benchmarks.scaling.scale_study import SETTINGS, many_sessions
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Current
from storyframes.store.storage.local_folder import LocalStorage
from tasks.clip_index.index import update_clip_index
from tasks.study.load import load_study

_FPS, _SHORT_S, _LONG_S = 15, 60, 720
_LONG_EACH = 30  # sessions, of which the first is long
_KINDS = 2  # of short and of long sessions with values of their own


def published(folder: Path, sessions: int) -> Path:
    """A study, and a store with what the pipeline makes of it, dope apart; with a clip index."""
    study = many_sessions(folder, sessions)
    storage = create_store(folder / "features")
    assert isinstance(storage, LocalStorage)
    originals: dict[tuple[bool, int], list[Current]] = {}
    for number, session_id in enumerate(study.sessions):
        is_long = number % _LONG_EACH == 0
        kind = (is_long, (number // _LONG_EACH if is_long else number) % _KINDS)
        if kind not in originals:
            originals[kind] = _publish(storage, session_id, _LONG_S if is_long else _SHORT_S, number)
        else:
            for version in originals[kind]:
                link_version(storage, version, session_id)
    catalogue.compact(storage)
    update_clip_index(study, WindowSpec(window=120, stride=15), FeatureStore(folder / "features"))
    return folder


def _publish(storage: LocalStorage, session_id: str, seconds: int, seed: int) -> list[Current]:
    """Values that wander and are noisy, as measured ones: the worst for pages whose numbers are compressed."""
    generator = np.random.default_rng(seed)
    rows = {"frame": _FPS * seconds, "audio_frame": 100 * seconds, "word": 2 * seconds, "utterance": seconds // 5}
    versions = []
    for feature in ("frames", "openface", "resnet50", "opensmile", "glove", "sbert"):
        with FeatureWriter(storage, session_id, FEATURES[feature]) as out:
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
                    values = np.minimum(
                        np.arange(count) * rows["word" if "word" in name else "utterance"] // count, 10**6
                    )
                elif name == FEATURES[feature].mask:
                    values = generator.uniform(size=shape) > 0.05
                else:
                    values = np.zeros(shape)
                if array.columns:
                    out.write(name, values.astype(array.dtype), list(array.columns))
                else:
                    out.write(name, values.astype(array.dtype))
            if feature == "sbert":
                out.attributes["speakers"] = ["participant"]
            versions.append(out.publish("0" * 64, {}))
    return versions


def make(folder: Path) -> str:
    """The report, as the command makes it."""
    from tasks.inspect.report.site import build_report

    site = folder / "site"
    build_report(load_study(folder / "study"), FeatureStore(folder / "features"), SETTINGS, site)
    files = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
    study_page = (site / "index.html").stat().st_size
    return f"{sum(files) / 1e6:.1f} MB in {len(files)} files, the study page {study_page / 1e6:.2f} MB"


def made(folder: Path, sessions: int) -> Path:
    make(published(folder, sessions))
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
