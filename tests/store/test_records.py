"""The records beside a feature's versions: read back as written, refused where they are anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.messages import naming

from storyframes.store.records import (
    Attempt,
    Current,
    RecordError,
    Status,
    StoredArray,
    StoredFile,
    condemn,
    now,
    seal,
    unseal,
)

CURRENT = Current(
    "s", "frames", "20260101T000000Z-00000000", "f" * 64, now(), {"time": StoredArray((3,), "float64", 60)},
    {"time/c/0": StoredFile(24, "a" * 64, 1)}, ["truncated video"], {"fps": 15.0}, {"inputs": {}}, 4, ["x"],
)  # fmt: skip
ATTEMPT = Attempt("s", "frames", Status.MISSING, "the study names no video", "", now(), 5)


@pytest.mark.parametrize("record", [CURRENT, ATTEMPT])
def test_a_record_is_read_back_as_it_was_written(record: Current | Attempt) -> None:
    assert type(record).parse(record.to_json(), "here") == record
    assert list(unseal(record.to_json(), "here") or {})[:2] == ["session_id", "feature"]


def test_there_may_be_none() -> None:
    assert Current.parse(None, "here") is None
    assert Attempt.parse(None, "here") is None
    assert Current.parse(condemn(None, "here", "20260101T000000Z-00000000"), "here") is None


WRONG: list[tuple[type[Current] | type[Attempt], Callable[[dict[str, Any]], Any]]] = [
    (kind, change)
    for kind, changes in (
        (
            Current,
            [
                lambda content: content | {"arrays": []},
                lambda content: content | {"arrays": {"time": {"shape": [3]}}},
                lambda content: content | {"arrays": {"time": {"shape": 3, "dtype": "f8", "chunk_rows": 60}}},
                lambda content: content | {"files": {"time/c/0": {"bytes": 24}}},
                lambda content: content | {"files": ["time/c/0"]},
                lambda content: content | {"more": 1},
                lambda content: {name: content[name] for name in content if name != "fingerprint"},
            ],
        ),
        (
            Attempt,
            [
                lambda content: content | {"status": "perhaps"},
                lambda content: content | {"status": []},
                lambda content: content | {"more": 1},
                lambda content: {name: content[name] for name in content if name != "status"},
                lambda content: {name: content[name] for name in content if name != "reason"},
            ],
        ),
    )
    for change in changes
]


@pytest.mark.parametrize(("kind", "change"), WRONG)
def test_one_of_another_form_is_refused(kind: Any, change: Callable[[dict[str, Any]], Any]) -> None:
    content = unseal((CURRENT if kind is Current else ATTEMPT).to_json(), "here") or {}
    with pytest.raises(RecordError, match=naming("not a record of this")):
        kind.parse(seal(change(content)), "here")


@pytest.mark.parametrize("data", [b"", b"[]", b"5", b'"x"', b"null", b"{}", b"{", b"\x00\xff", b'{"checksum": 1}'])
@pytest.mark.parametrize("kind", [Current, Attempt])
def test_what_is_no_record_is_refused(kind: Any, data: bytes) -> None:
    with pytest.raises(RecordError, match="here: not a record"):
        kind.parse(data, "here")
