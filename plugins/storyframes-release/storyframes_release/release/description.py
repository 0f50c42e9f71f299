"""How a release describes itself to people: a data card, which the Hugging Face hub reads as well, and a citation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import storyframes
from storyframes import CLOCK, Axis, FeatureStore, shown_names
from storyframes.clips import SPLITS
from storyframes_release.export.readme import data_configs, front_matter, markdown_table
from storyframes_release.release.methods import bibtex, methods, model_of
from storyframes_release.release.released_features import ReleasedFeature
from storyframes_release.release.settings import ReleaseSettings

_HOW = """
`features` is a feature store (Zarr v3 with zstd, two Parquet tables); any Zarr reader opens it, and storyframes does:

```python
from storyframes import ClipDataset, FeatureStore

store = FeatureStore("features")
frame = store.to_pandas(store.sessions[0], store.all_features[0])
```
"""
_HOW_CLIPS = """
Clips, the windows of sessions that have labels, load with their splits where this folder is, or from the hub:

```python
from datasets import load_dataset

clips = load_dataset(".", "clips")
```
"""
_VALUES = """
Values are those of the original store, to the bit. A row whose mask is false is not a measurement. Times are in seconds
since the first video frame. `storyframes release verify FOLDER` checks that every file is as it was released.
"""
_RENAMED = """
Sessions and participants (and stories, targets and phases, where they are not named here) have new numbers in a random
order; the key is not part of the release. Dates, times and machines of the extraction, paths and checksums of the
recordings were dropped; all files bear the date 2000-01-01. What is not known to be harmless was left out.
"""
_RISK = """
These are measurements of persons, and new numbers do not guarantee that nobody can be recognised: a person who was
present may know a session by its length or its labels. Do not try to find out who took part.
"""


@dataclass
class Release:
    """The result of a release.

    Attributes:
        sessions: their number.
        features: by name, the released feature; of the story texts as ``stories/<feature>``.
        having: by feature, the number of sessions that have it.
        provenance: by feature, how it was made, each way once as JSON, and in how many sessions.
        caveats: by feature and caveat, the number of sessions.
        clips: the clip index, with the schemes of its labels; without rows where there is none.
        left_out: what was left out, and why; a sentence each.
        remarks: what could not be checked; a sentence each, for the releasing person only.
        source: what says which sessions the study has, for the releasing person only.
        files: by path, size and SHA-256.
    """

    sessions: int = 0
    features: dict[str, ReleasedFeature] = field(default_factory=dict)
    having: dict[str, int] = field(default_factory=dict)
    caveats: dict[str, dict[str, int]] = field(default_factory=dict)
    provenance: dict[str, dict[str, int]] = field(default_factory=dict)
    clips: pd.DataFrame = field(default_factory=pd.DataFrame)
    left_out: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    source: str = ""
    files: dict[str, dict[str, int | str]] = field(default_factory=dict)

    @property
    def participants(self) -> int:
        """Their number, as far as the clip index knows."""
        return self.clips["participant_id"].nunique() if len(self.clips) else 0

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns of labels."""
        return tuple(self.clips.attrs.get("schemes", {}))


_LICENSES = re.compile(
    r"apache-2\.0|mit|cc0-1\.0|cc-by(-nc)?(-nd|-sa)?-[234]\.0|odc-by|odbl|pddl|cdla-(sharing|permissive)-[12]\.0"
)
_SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
_GATE = "These are measurements of persons. Whoever uses them agrees not to try to find out who took part."


def data_card(done: Release, settings: ReleaseSettings, store: FeatureStore) -> str:
    """``README.md`` of a release.

    Args:
        store: the released one.
    """
    return "\n".join([*front_matter(_metadata(done, settings)), *_card(done, settings, store)]) + "\n"


def splits(clips: pd.DataFrame) -> list[str]:
    """The splits that have clips, ``train`` first."""
    return [split for split in SPLITS if len(clips) and (clips["split"] == split).any()]


def _metadata(done: Release, settings: ReleaseSettings) -> dict[str, Any]:
    """What the hub reads."""
    known = settings.license.lower()
    content: dict[str, Any] = {
        "pretty_name": settings.title,
        "license": known if _LICENSES.fullmatch(known) else "other",
    }
    if content["license"] == "other":
        content["license_name"] = known
    schemes = done.clips.attrs.get("schemes", {}).values()
    tasks = {"regression" if scheme == "interval" else "classification" for scheme in schemes}
    content["task_categories"] = [*sorted(f"tabular-{task}" for task in tasks), "feature-extraction"]
    content["size_categories"] = [next((name for most, name in _SIZES.items() if len(done.clips) < most), "1M<n<10M")]
    content["tags"] = ["storyframes", "zarr", "croissant", *done.features]
    tables = {"clips": {split: f"clips/{split}.parquet" for split in splits(done.clips)}}
    tables["catalogue"] = {"catalogue": "features/catalogue.parquet"}
    content["configs"] = data_configs({name: paths for name, paths in tables.items() if paths})
    content["configs"][0]["default"] = True
    content["extra_gated_prompt"] = _GATE
    return content


def _card(done: Release, settings: ReleaseSettings, store: FeatureStore) -> Iterator[str]:
    hours, rates = _hours_and_rates(store)
    yield f"# {settings.title}\n"
    yield settings.description
    yield ""
    people = f" of {done.participants} participants" if done.participants else ""
    length = f", {hours:.1f} hours" if hours >= 1 else f", {60 * hours:.1f} minutes"
    size = f"{len(done.features)} features, {len(done.clips)} rows in the clip index"
    yield f"{done.sessions} sessions{people}{length if hours else ''}, {size}."
    yield f"Version {settings.version}, {settings.license}, by {', '.join(settings.authors)}."
    yield f"Made by storyframes {storyframes.__version__}."
    yield f"{_HOW}{_HOW_CLIPS if len(done.clips) else ''}{_VALUES}"
    yield "## Clips\n"
    rows = []
    for split in splits(done.clips):
        of_split = done.clips[done.clips["split"] == split]
        rows.append(
            [split, str(len(of_split)), *(str(of_split[f"{who}_id"].nunique()) for who in ("session", "participant"))]
        )
    yield from markdown_table(("split", "rows", "sessions", "participants"), rows) if rows else ("None.", "")
    rows = [
        [f"`{label}`", scheme, *_range(done.clips, label)]
        for label, scheme in done.clips.attrs.get("schemes", {}).items()
    ]
    yield from markdown_table(("label", "scheme", "values", "rows that have it"), rows) if rows else ("No labels.", "")
    yield "## Features\n"
    for name, released in done.features.items():
        main = next(iter(released.arrays.values())).spec.axis
        rate = rates.get(name) or (rates.get(CLOCK) if main is Axis.FRAME else None)
        size = f"{done.having[name]} sessions{f', {rate} rows a second' if rate else ''}"
        yield f"**{name}** ({size}): {_about(name, released, done)}\n"
        rows = []
        for array, of in released.arrays.items():
            dims = " x ".join([str(of.spec.axis), *map(str, of.spec.shape)])
            columns = shown_names("", of.spec.columns)
            rows.append([f"`{array}`", dims, of.spec.units, of.spec.about, columns])
        yield from markdown_table(("array", "rows x values", "unit", "what", "columns"), rows)
    yield from _methods(done)
    yield "## Caveats\n"
    caveats = [[name, caveat, str(count)] for name, of in done.caveats.items() for caveat, count in of.items()]
    yield from markdown_table(("feature", "caveat", "sessions"), caveats) if caveats else ("None.", "")
    yield "## What was done so that nobody is named"
    yield _RENAMED
    yield "Left out:\n"
    for line in done.left_out:
        yield f"- {line}"
    yield _RISK
    permissions = [
        ("allow_biometric", settings.allow_biometric, "features by which somebody may be recognised"),
        ("allow_text_vectors", settings.allow_text_vectors, "vectors from which texts can be guessed"),
    ]
    for name, is_given, what in permissions:
        yield f"- {what}: {'may be in it' if is_given else 'are not in it'} (`{name} = {str(is_given).lower()}`)"


def _about(name: str, released: ReleasedFeature, done: Release) -> str:
    """What a feature is: of ``[[embed]]``, by its model."""
    models = [model for way in done.provenance.get(name, ()) if (model := model_of(json.loads(way)))]
    return f"embeddings by {'; '.join(dict.fromkeys(models))}" if models else released.spec.about


def _methods(done: Release) -> Iterator[str]:
    yield "## How it was made\n"
    cited: set[str] = set()
    for name, ways in done.provenance.items():
        for way, count in ways.items():
            sentence, keys = methods(name, done.features[name].spec.groups, json.loads(way))
            yield sentence if len(ways) == 1 else f"{sentence} ({count} sessions)"
            cited |= keys
    yield ""
    yield "`storyframes release configuration FOLDER` prints the configuration that does the same. Please cite:\n"
    yield f"```bibtex\n{bibtex(cited)}\n```\n"


def _range(clips: pd.DataFrame, label: str) -> tuple[str, str]:
    """The values that a label may have, or has where its scheme sets no limits; and how many rows have one."""
    values = clips[label].dropna()
    if limits := clips.attrs.get("ranges", {}).get(label):
        shown = f"{limits[0]:g} to {limits[1]:g}"
    elif pd.api.types.is_numeric_dtype(values):
        shown = f"{values.min():g} to {values.max():g}" if len(values) else ""
    else:
        shown = ", ".join(sorted(map(str, values.unique())))
    return shown, str(len(values))


def _hours_and_rates(store: FeatureStore) -> tuple[float, dict[str, str]]:
    """Hours of all sessions by the times that are released, and by feature its rows a second."""
    ends: dict[str, float] = {}
    rates: dict[str, set[str]] = {}
    for session in store.sessions:
        for feature in store.features(session):
            arrays = store.spec(session, feature).arrays
            if "time" not in arrays or arrays["time"].axis not in (Axis.FRAME, Axis.AUDIO_FRAME, Axis.WINDOW):
                continue
            time = np.asarray(store.view(session, feature, array="time"), np.float64)
            if len(time):
                ends[session] = max(ends.get(session, 0.0), float(time[-1]))
            if len(time) > 1 and (step := float(np.median(np.diff(time)))):
                rates.setdefault(feature, set()).add(f"{1 / step:.4g}")
    shown = {feature: " or ".join(sorted(of, key=float)) for feature, of in rates.items() if len(of) < 4}
    shown |= {feature: f"{min(of, key=float)} to {max(of, key=float)}" for feature, of in rates.items() if len(of) > 3}
    return sum(ends.values()) / 3600, shown


def citation(settings: ReleaseSettings) -> str:
    """``CITATION.cff`` of a release; every text as JSON has it, which YAML reads."""
    lines = [
        "cff-version: 1.2.0",
        "message: If you use these data, please cite them.",
        "type: dataset",
        f"title: {_text(settings.title)}",
        f"abstract: {_text(settings.description)}",
        f"version: {_text(settings.version)}",
        f"license: {_text(settings.license)}",
    ]
    lines += [f"date-released: {settings.date}"] if settings.date else []
    lines += [f"url: {_text(settings.url)}"] if settings.url else []
    lines += ["authors:", *(f"  - name: {_text(author)}" for author in settings.authors)]
    return "\n".join(lines) + "\n"


def _text(text: Any) -> str:
    return json.dumps(text, ensure_ascii=False)
