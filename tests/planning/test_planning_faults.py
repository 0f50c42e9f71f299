"""Planning with an extractor that raises: it costs its own feature, and tells nobody what somebody said."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from tasks.extractors import registry
from tasks.extractors.base import ExtractionError, Extractor, Input, MissingInputError
from tasks.extractors.registry import ExtractorsSettings
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.planning.plan import expected_versions, plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import Study, load_study

WORDS = "my sister left in May"
ERRORS = (
    RuntimeError(WORDS),
    KeyError(WORDS),
    ExtractionError(WORDS),
    MissingInputError(WORDS),
    PermissionError(13, WORDS, f"/data/{WORDS}"),
    type(WORDS.title().replace(" ", ""), (ValueError,), {})(WORDS),
)


class Mumbling(Extractor):
    """Cannot say which model it has."""

    spec = FeatureSpec("mumbling", "", {"values": ArraySpec(Axis.FRAME, "float32", "")})
    version = 1
    inputs = (Input.VIDEO, Input.TRANSCRIPT)
    error: ClassVar[Exception]

    def models(self):
        raise self.error

    def extract(self, source, out) -> None:
        raise AssertionError


@pytest.fixture
def study(tmp_path: Path) -> Study:
    write_study(tmp_path / "study", SyntheticStudy(sessions=2, seconds=1))
    return load_study(tmp_path / "study")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("reads_words", [True, False])
def test_it_costs_its_own_feature_and_tells_no_words(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, *, reads_words: bool
) -> None:
    monkeypatch.setattr(Mumbling, "error", error, raising=False)
    monkeypatch.setattr(Mumbling, "inputs", (Input.VIDEO, Input.TRANSCRIPT) if reads_words else (Input.VIDEO,))
    monkeypatch.setattr(registry, "_plug_ins", lambda: ((Mumbling,), {}))
    settings = ExtractorsSettings(features=("frames", "opensmile", "mumbling"))
    store = tmp_path / "features"
    plan = plan_extraction(study, store, settings, Selection(tuple(study.sessions)))
    assert {work.name for work in plan.units} == {
        f"{session}/{feature}" for session in study.sessions for feature in ("frames", "opensmile")
    }
    status = Status.MISSING if isinstance(error, MissingInputError) else Status.FAILED
    assert [(one.feature, one.status) for one in plan.settled] == [("mumbling", status)] * 2
    wanted = {
        one.session_id: one.reason for one in expected_versions(study, create_store(store), settings) if one.reason
    }
    assert wanted == {one.session_id: one.reason for one in plan.settled}
    records = [path.read_text() for path in store.glob("*/mumbling/attempt.json")]
    assert len(records) == 2
    if not reads_words:
        assert all(WORDS in text for text in (*wanted.values(), *records)) or isinstance(error, OSError)
        return
    for text in (*wanted.values(), *records):
        for word in ("sister", "Sister"):
            assert word not in text
