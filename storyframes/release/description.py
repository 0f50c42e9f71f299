"""How a release describes itself: the data card and citation for people, Croissant 1.0 for machines.

Croissant is what ``mlcroissant`` and search engines read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import storyframes
from storyframes.export.readme import markdown_table
from storyframes.release.released_features import ReleasedFeature
from storyframes.release.settings import ReleaseSettings
from storyframes.spec import shown_names
from storyframes.store.layout import CLIPS
from storyframes.store.storage.files import sha256_file

_HOW = """
`features` is a feature store (Zarr v3 with zstd, two Parquet tables); any Zarr reader opens it, and storyframes does:

```python
from storyframes import ClipDataset, FeatureStore

store = FeatureStore("features")
print(store)
frame = store.to_pandas(store.sessions[0], store.all_features[0])
```

Values are those of the original store, to the bit. A row whose mask is false is not a measurement. Times are in seconds
since the first video frame. `storyframes release verify FOLDER` checks that every file is as it was released.
"""
_RENAMED = """
Sessions and participants (and stories, targets and phases, where they are not named here) have new numbers in a random
order; the key is not part of the release. Dates, times and machines of the extraction, paths, settings and checksums of
the recordings were dropped; all files bear the date 2000-01-01. What is not known to be harmless was left out.
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
        participants: their number, as far as the clip index knows.
        features: by name, the released feature; of the story texts as ``stories/<feature>``.
        having: by feature, the number of sessions that have it.
        caveats: by feature and caveat, the number of sessions.
        rows: of the clip index.
        labels: columns of labels.
        left_out: what was left out, and why; a sentence each.
        remarks: what could not be checked; a sentence each, for the releasing person only.
        files: by path, size and SHA-256.
    """

    sessions: int = 0
    participants: int = 0
    features: dict[str, ReleasedFeature] = field(default_factory=dict)
    having: dict[str, int] = field(default_factory=dict)
    caveats: dict[str, dict[str, int]] = field(default_factory=dict)
    rows: int = 0
    labels: tuple[str, ...] = ()
    left_out: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    files: dict[str, dict[str, int | str]] = field(default_factory=dict)


def data_card(done: Release, settings: ReleaseSettings) -> str:
    """``README.md`` of a release."""
    return "\n".join(_card(done, settings)) + "\n"


def _card(done: Release, settings: ReleaseSettings) -> Iterator[str]:
    yield f"# {settings.title}"
    yield ""
    yield settings.description
    yield ""
    people = f" of {done.participants} participants" if done.participants else ""
    yield f"{done.sessions} sessions{people}, {len(done.features)} features, {done.rows} rows in the clip index."
    yield f"Version {settings.version}, {settings.license}, by {', '.join(settings.authors)}."
    yield f"Made by storyframes {storyframes.__version__}."
    yield _HOW
    yield "## Features"
    yield ""
    for name, released in done.features.items():
        yield f"**{name}** ({done.having[name]} sessions): {released.spec.about}"
        yield ""
        rows = []
        for array, of in released.arrays.items():
            dims = " x ".join([str(of.spec.axis), *map(str, of.spec.shape)])
            columns = shown_names("", of.spec.columns)
            rows.append([f"`{array}`", dims, of.spec.units, of.spec.about, columns])
        yield from markdown_table(("array", "rows x values", "unit", "what", "columns"), rows)
    yield "## Caveats"
    yield ""
    caveats = [[name, caveat, str(count)] for name, of in done.caveats.items() for caveat, count in of.items()]
    yield from markdown_table(("feature", "caveat", "sessions"), caveats) if caveats else ("None.", "")
    yield "## Labels"
    yield ""
    yield f"{', '.join(f'`{label}`' for label in done.labels) or 'None'}, in `features/clips.parquet`."
    yield ""
    yield "## What was done so that nobody is named"
    yield _RENAMED
    yield "Left out:"
    yield ""
    for line in done.left_out:
        yield f"- {line}"
    yield _RISK
    permissions = [
        ("allow_biometric", settings.allow_biometric, "features by which somebody may be recognised"),
        ("allow_text_vectors", settings.allow_text_vectors, "vectors from which texts can be guessed"),
    ]
    for name, is_given, what in permissions:
        yield f"- {what}: {'may be in it' if is_given else 'are not in it'} (`{name} = {str(is_given).lower()}`)"


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


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_CROISSANT_TERMS = (
    "citeAs column extract field fileProperty fileObject fileSet format includes isLiveDataset jsonPath key md5 "
    "parentField path recordSet references regex repeated replace samplingRate separator source subField transform "
    "equivalentProperty"
)
_CONTEXT: dict[str, Any] = {
    **{term: f"cr:{term}" for term in _CROISSANT_TERMS.split()},
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}


def croissant(done: Release, settings: ReleaseSettings, folder: Path) -> str:
    """``croissant.json`` of a release."""
    content: dict[str, Any] = {
        "@context": dict(sorted(_CONTEXT.items())),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": settings.title,
        "description": settings.description,
        "license": f"https://spdx.org/licenses/{settings.license}",
        "version": settings.version,
        "creator": [{"@type": "sc:Person", "name": author} for author in settings.authors],
        "citeAs": f"{', '.join(settings.authors)}: {settings.title}, version {settings.version}",
        "distribution": [],
        "recordSet": [],
    }
    if settings.url:
        content["url"] = settings.url
    if settings.date:
        content["datePublished"] = settings.date
    content["keywords"] = sorted(done.features)
    for name in ("catalogue.parquet", CLIPS):
        path = folder / "features" / name
        if path.exists():
            content["distribution"].append(_file(name, path))
            content["recordSet"].append(_records(name, pq.read_schema(path)))
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _file(name: str, path: Path) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": f"features/{name}",
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": "application/x-parquet",
        "sha256": sha256_file(path),
    }


def _records(name: str, schema: pa.Schema) -> dict[str, Any]:
    records = name.removesuffix(".parquet")
    return {
        "@type": "cr:RecordSet",
        "@id": records,
        "name": records,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{records}/{field.name}",
                "name": f"{records}/{field.name}",
                "dataType": _type(field.type),
                "source": {"fileObject": {"@id": name}, "extract": {"column": field.name}},
            }
            | ({"repeated": True} if pa.types.is_list(field.type) else {})
            for field in schema
        ],
    }


def _type(dtype: pa.DataType) -> str:
    if pa.types.is_list(dtype):
        return _type(dtype.value_type)
    if pa.types.is_boolean(dtype):
        return "sc:Boolean"
    if pa.types.is_integer(dtype):
        return "sc:Integer"
    return "sc:Float" if pa.types.is_floating(dtype) else "sc:Text"
