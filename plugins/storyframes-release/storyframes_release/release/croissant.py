"""How a release describes itself to machines: Croissant 1.1, which ``mlcroissant`` and search engines read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storyframes import STORIES, FeatureName, FeatureSpec
from storyframes.store import CLIPS, sha256_file
from storyframes_release.release.description import Release
from storyframes_release.release.settings import ReleaseSettings

_CROISSANT_TERMS = (
    "arrayShape citeAs column containedIn excludes extract field fileProperty fileObject fileSet format includes "
    "isArray isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate "
    "separator source subField transform equivalentProperty"
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
        "conformsTo": "http://mlcommons.org/croissant/1.1",
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
    for name, released in done.features.items():
        content["distribution"].append(_zarr_group(name, of_stories=f"{STORIES}/{name}" in done.features))
        content["recordSet"].append(_arrays(name, released.spec))
    content["recordSet"].append(_columns({name: released.spec for name, released in done.features.items()}))
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


def _zarr_group(feature: str, *, of_stories: bool) -> dict[str, Any]:
    """The Zarr groups of a feature, one in each session.

    Args:
        of_stories: whether the stories, which are beside the sessions, have a feature of this name too.
    """
    folder = feature if feature.startswith(f"{STORIES}/") else f"*/{feature}"
    return {
        "@type": "cr:FileSet",
        "@id": f"{feature}.zarr",
        "name": f"{feature}.zarr",
        "encodingFormat": "application/vnd.zarr",
        "includes": f"features/{folder}/*/**",
    } | ({"excludes": f"features/{STORIES}/{feature}/*/**"} if of_stories else {})


def _arrays(feature: str, spec: FeatureSpec) -> dict[str, Any]:
    """A record for each session: its arrays, whose first dimension is of rows. ``mlcroissant`` reads no Zarr."""
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{feature}/{name}",
            "name": f"{feature}/{name}",
            "description": f"({', '.join(array.dimension_names)}) {array.dtype}: {array.about}"
            + (f" [{array.units}]" if array.units else ""),
            "dataType": "sc:Float" if array.dtype.startswith("float") else "sc:Integer",
            "isArray": True,
            "arrayShape": ",".join(map(str, (-1, *array.shape))),
            "source": {"fileSet": {"@id": f"{feature}.zarr"}, "extract": {"fileProperty": "content"}},
        }
        for name, array in spec.arrays.items()
    ]
    about = f"{spec.about}; Zarr v3, which zarr and storyframes read"
    return {"@type": "cr:RecordSet", "@id": feature, "name": feature, "description": about, "field": fields}


def _columns(specs: Mapping[str, FeatureSpec]) -> dict[str, Any]:
    """The name, place and unit of each column of an array."""
    rows = [
        (feature, name, place, column, array.units or FeatureName(feature).unit_of(column))
        for feature, spec in specs.items()
        for name, array in spec.arrays.items()
        for place, column in enumerate(array.columns)
    ]
    names = ("feature", "array", "place", "column", "unit")
    return {
        "@type": "cr:RecordSet",
        "@id": "columns",
        "name": "columns",
        "description": "the columns of the last dimension of each array",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"columns/{name}",
                "name": f"columns/{name}",
                "dataType": "sc:Integer" if name == "place" else "sc:Text",
            }
            for name in names
        ],
        "data": [{f"columns/{name}": value for name, value in zip(names, row, strict=True)} for row in rows],
    }


def _type(dtype: pa.DataType) -> str:
    if pa.types.is_list(dtype):
        return _type(dtype.value_type)
    if pa.types.is_boolean(dtype):
        return "sc:Boolean"
    if pa.types.is_integer(dtype):
        return "sc:Integer"
    return "sc:Float" if pa.types.is_floating(dtype) else "sc:Text"
