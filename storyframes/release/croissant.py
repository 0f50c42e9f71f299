"""What a release says of itself to machines: Croissant 1.0, as ``mlcroissant`` and search engines read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from storyframes.release.settings import ReleaseSettings
from storyframes.store.layout import CLIPS
from storyframes.store.storage.durable import sha256_file

if TYPE_CHECKING:
    from storyframes.release.run import Release

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def croissant(done: Release, settings: ReleaseSettings, folder: Path) -> str:
    """``croissant.json`` of a release.

    Args:
        done: what was released.
        settings: what is said of it.
        folder: where it lies.
    """
    content: dict[str, Any] = {
        "@context": _CONTEXT,
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
