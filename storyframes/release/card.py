"""What a release says of itself to people: the data card, and how it is cited."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import storyframes
from storyframes.release.settings import ReleaseSettings
from storyframes.spec import shown_names

if TYPE_CHECKING:
    from storyframes.release.run import Release

_HOW = """
`features` is a feature store (Zarr v3 with zstd, two Parquet tables); any Zarr reader opens it, and storyframes does:

```python
from storyframes import ClipDataset, FeatureStore

store = FeatureStore("features")
print(store)
frame = store.to_pandas(store.sessions[0], store.all_features[0])
```

Values are those of the original store, to the bit. A row whose mask is false is not a measurement. Times are seconds of
the recording. `storyframes release verify FOLDER` tells whether every file is as it was released.
"""
_RENAMED = """
Sessions and participants (and stories, targets and phases, where they are not named here) have new numbers in a random
order; the key is not part of the release. Dates, times and machines of the extraction, paths, settings and checksums of
the recordings were dropped; all files bear the date 2000-01-01. What is not known to be harmless was left out.
"""
_RISK = """
These are measurements of persons, and numbers are no promise that nobody can be recognised: who was there may know a
session by how long it was, or by what it was labelled. Do not try to find out who took part.
"""


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
        yield from _table(("array", "rows x values", "unit", "what", "columns"), rows)
    yield "## Caveats"
    yield ""
    caveats = [[name, caveat, str(count)] for name, of in done.caveats.items() for caveat, count in of.items()]
    yield from _table(("feature", "caveat", "sessions"), caveats) if caveats else ("None.", "")
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


def _table(head: tuple[str, ...], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in row)} |"
    yield ""
