"""``[[embed]]`` sections with models of texts: the built-in sbert as one, tiny models of several families."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.recordings import FPS, write_recording
from support.studies import extract_session, make_study

from storyframes.store.feature_store import FeatureStore
from tasks.extractors.sbert import SbertSettings, model_folder

LONG = "We walked for hours along the river and talked about nothing in particular, " * 20
UTTERANCES = [(6.0, 8.0, "Rain"), (0.5, 2.5, "the garden was full"), (3.0, 5.5, "until he told me that he failed.")]


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    """A session and two stories, one longer than MiniLM reads: sbert, and the same model as a section."""
    folder = tmp_path_factory.mktemp("study")
    write_recording(folder / "v.mkv", 10 * FPS)
    spoken = [{"start_s": start, "end_s": end, "text": text} for start, end, text in UTTERANCES]
    (folder / "t.json").write_text(json.dumps({"utterances": spoken}))
    study = make_study(folder, video="v.mkv", transcript="t.json")
    (study / "stories.csv").write_text(f'story_id,text\nb,the zebra garden\na,"{LONG}bread"\n')
    model = {"name": "minilm", "kind": "text", "source": f"path:{model_folder(SbertSettings())}"}
    root = folder / "features"
    extract_session(study, root, "sbert", "minilm", embed=[model])
    store, outcomes = extract_session(study, root, "sbert", "minilm", session_id="stories", embed=[model])
    assert {str(outcome.status) for outcome in outcomes.values()} == {"done"}
    return store


@pytest.mark.parametrize(
    ("session", "array"),
    [("s", "values"), ("s", "start"), ("s", "end"), ("s", "frame_utterance"), ("s", "speaker"), ("stories", "values")],
)
def test_sbert_as_a_section_stores_what_sbert_stores(minilm: FeatureStore, session: str, array: str) -> None:
    built_in = minilm.read(session, "sbert", array=array)
    assert len(built_in) in (2, 3, 10 * FPS)
    np.testing.assert_array_equal(minilm.read(session, "minilm", array=array), built_in)
