from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import missing, naming
from support.opened_files import below, files_opened
from support.stores import local

from storyframes.store import catalogue, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.times import ticks
from tasks.extractors.base import ExtractionError, Source
from tasks.extractors.frames import FrameClock
from tasks.extractors.glove import GloveSettings, WordVectorsError, load_word_vectors, look_up, vectors_file
from tasks.extractors.registry import ExtractorsSettings
from tasks.extractors.sbert import SbertSettings, model_folder
from tasks.extractors.text.speech import read_stories, speaker_labels
from tasks.inspect.study_check import check_study
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.planning.sources import input_file
from tasks.study.load import StudyError, load_study
from tasks.study.transcript import read_transcript

ROOT = Path(__file__).parents[2]


def vector_line(word: str, value: float, width: int = 300) -> str:
    return f"{word} " + " ".join([f"{value:.3f}"] * width) + "\n"


@pytest.fixture
def vectors(tmp_path: Path):
    path = tmp_path / "glove.txt"
    words = ["the", "The", ". . .", "at name@domain.com", "don't", "garden", "3.5", "über", "U.S."]
    path.write_text("".join(vector_line(word, i + 1) for i, word in enumerate(words)), encoding="utf-8")
    return load_word_vectors(path)


def known(vectors, word: str) -> float | None:
    values, is_known = look_up([word], vectors)
    return float(values[0, 0]) if is_known[0] else None


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("the", 1),
        ("The", 2),  # exact case first
        ("THE", 1),  # then lower case
        ("Garden", 6),
        ("garden.", 6),
        ("“Garden”,", 6),
        ("don’t", 5),
        ("Don't!", 5),
        (". . .", 3),  # a token with spaces survives
        ("at name@domain.com", 4),
        ("3.5", 7),
        ("über", 8),
        ("U.S.", 9),
        ("zebra", None),
        ("don`t", 5),
        ("“don´t”", 5),
        ("(U.S.),", 9),
        ("U.S.?!", 9),
        ("...", None),
        ("", None),
    ],
)
def test_how_a_word_is_looked_up(vectors, word: str, value: float | None) -> None:
    assert known(vectors, word) == value


PARTS = [
    "20",
    "%",
    "$",
    "yes",
    "no",
    "e.g.",
    "do",
    "n't",
    "it",
    "'s",
    "can",
    "not",
    "ca",
    "Well",
    "garden",
    "and/or",
    "...",
]


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("20%", ["20", "%"]),
        ("$20", ["$", "20"]),
        ("$20.", ["$", "20"]),
        ("yes—no", ["yes", "no"]),
        ("yes--no", ["yes", "no"]),
        ("yes…no", ["yes", "no"]),
        ("Yes—NO!", ["yes", "no"]),
        ("(e.g.)", ["e.g."]),
        ("E.G.", ["e.g."]),
        ("don`t", ["do", "n't"]),
        ("don’t", ["do", "n't"]),
        ("DON'T", ["do", "n't"]),
        ("can't", ["ca", "n't"]),
        ("cannot", ["can", "not"]),
        ("it's", ["it", "'s"]),
        ("it's—no!", ["it", "'s", "no"]),
        ("garden", ["garden"]),
        ("20€", ["20"]),  # a symbol that the vocabulary has not
        ("...", ["..."]),
        ("garden...", ["garden"]),
        ("and/or", ["and/or"]),
        ("yes—zebra", None),  # one part is unknown: so is the word
        ("yes-no", None),  # hyphens stay in Stanford's tokens, and so in the vocabulary
        ("yes/no", None),
        ("—", None),
        ("€", None),
    ],
)
def test_a_word_of_several_of_the_vectors_tokens_is_their_mean(tmp_path: Path, word: str, parts: list | None) -> None:
    path = tmp_path / "parts.txt"
    path.write_text("".join(vector_line(part, 2**i) for i, part in enumerate(PARTS)), encoding="utf-8")
    values, is_known = look_up([word], load_word_vectors(path))
    assert is_known[0] == (parts is not None)
    if parts:
        np.testing.assert_allclose(values[0], np.mean([2 ** PARTS.index(part) for part in parts]))


def test_unknown_words_are_nan_and_masked(vectors) -> None:
    values, is_known = look_up(["the", "zebra"], vectors)
    assert is_known.tolist() == [True, False]
    assert np.isnan(values[1]).all()


def test_a_repeated_word_keeps_its_first_vector(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text(vector_line("a", 1) + vector_line("a", 2) + vector_line("b", 3) + vector_line("a", 4))
    loaded = load_word_vectors(path)
    assert loaded.index_to_key == ["a", "b"]
    assert (loaded["a"][0], loaded["b"][0]) == (1, 3)


def test_the_binary_form_is_made_once_and_mapped(tmp_path: Path, monkeypatch) -> None:
    import tasks.extractors.glove as module

    path = tmp_path / "v.txt"
    path.write_text(vector_line("once", 1) + vector_line("upon", 2))
    first = load_word_vectors(path)
    assert isinstance(first.vectors, np.memmap)
    monkeypatch.setattr(module, "_convert", lambda *args: pytest.fail("converted again"))
    np.testing.assert_array_equal(load_word_vectors(path).vectors, first.vectors)


def test_two_workers_make_the_binary_form_together(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = tmp_path / "v.txt"
    path.write_text("".join(vector_line(f"w{i}", i) for i in range(500)))
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(load_word_vectors, [path] * 4))
    assert {len(each) for each in loaded} == {500}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: is not a word and its numbers"),
        ("only words here\n", "line 1: is not a word and its numbers"),
        (vector_line("a", 1) + "b 1 2 3\n", "line 2: has 3 values, line 1 has 300"),
        (
            vector_line("a", 1) + vector_line("b", 1).replace("1.000", "x", 1),
            "line 2: has something that is not a number",
        ),
    ],
)
def test_a_damaged_vector_file_names_the_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "v.txt"
    path.write_text(content)
    with pytest.raises(WordVectorsError, match=message):
        load_word_vectors(path)


def test_no_vectors_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ExtractionError, match="storyframes models fetch glove-840b"):
        vectors_file(GloveSettings())
    with pytest.raises(ExtractionError, match="does not exist"):
        vectors_file(GloveSettings(vectors=tmp_path / "absent.txt"))


# --- sbert -----------------------------------------------------------------------------------------------------------


def test_sentences_equal_the_librarys_and_mean_something() -> None:
    texts = ["I failed an exam.", "She did not pass the test.", "The bread is fresh."]
    got = SbertSettings().open_model().embed_together(texts)
    from sentence_transformers import SentenceTransformer  # importable once torchvision is

    expected = SentenceTransformer(str(model_folder(SbertSettings())), local_files_only=True).encode(texts)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1, atol=1e-5)
    assert got[0] @ got[1] > got[0] @ got[2] + 0.2


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExtractionError, match=naming("folder", "model")):
        SbertSettings(model=tmp_path).open_model()


def test_no_utterances_give_no_rows() -> None:
    assert SbertSettings().open_model().embed_together([]).shape == (0, 384)


def test_names_of_speakers_do_not_reach_the_store() -> None:
    rows, labels = speaker_labels(["robot", "Anna Smith", "A", "SPEAKER_01", "Anna Smith", "Participant", "Bob"])
    assert labels == ["robot", "speaker_2", "A", "SPEAKER_01", "Participant", "speaker_6"]
    assert rows == [0, 1, 2, 3, 1, 4, 5]


# --- alignment -------------------------------------------------------------------------------------------------------


@given(
    gaps=st.lists(st.floats(0.01, 0.3), min_size=1, max_size=40),
    spans=st.lists(st.tuples(st.floats(0, 8), st.floats(0, 3)), max_size=12),
)
def test_the_span_of_a_frame_is_the_last_starting_one_that_holds_its_time(gaps, spans) -> None:
    clock = FrameClock(np.cumsum(gaps), truncated=False)
    spans = sorted(spans, key=lambda span: span[0])
    start = np.array([s for s, _ in spans])
    end = np.array([s + length for s, length in spans])
    rows = clock.rows_at(start, end)
    for frame, time in enumerate(clock.time):
        holding = [i for i in range(len(spans)) if ticks(start[i]) <= ticks(time) < ticks(end[i])]
        assert rows[frame] == (holding[-1] if holding else -1)


# --- the extractors --------------------------------------------------------------------------------------------------


def extract(study: Path, root: Path, *only: str, session_id: str = "p01-s01", **sections):
    from flows.settings import load_settings
    from tasks.extract import extract as do_work

    settings = load_settings(Path(__file__).parents[2] / "demo/storyframes.toml")
    sections = {name: type(getattr(settings, name))(**values) for name, values in sections.items()}
    settings = settings.model_copy(update=sections)
    plan = plan_extraction(load_study(study), root, settings, Selection((session_id,), only))
    outcomes = {outcome.feature: outcome for outcome in plan.settled}
    return outcomes | {outcome.feature: outcome for work in plan.units for outcome in do_work(work)}


def test_words_and_utterances_of_the_demo(demo_study: Path, store_root: Path) -> None:
    outcomes = extract(demo_study, store_root, "glove", "sbert")
    assert outcomes["glove"].rows == 47
    assert outcomes["glove"].caveats == ("demo word vectors",)
    assert outcomes["sbert"].rows == 5
    store = FeatureStore(store_root)
    words = json.loads((demo_study / "transcripts/p01-s01.json").read_text())["utterances"]
    starts = [word["start_s"] for utterance in words for word in utterance["words"]]
    np.testing.assert_allclose(store.read("p01-s01", "glove", array="start"), starts)
    frame_word = store.read("p01-s01", "glove", array="frame_word")
    assert frame_word.shape == (360,)
    second_three = frame_word[45]  # t = 3.0 s: between "week" (…2.975) and "I" (3.025…)
    assert second_three == -1
    assert frame_word[46] == starts.index(3.025)
    assert store.read("p01-s01", "glove", array="known").all()
    assert store.attributes("p01-s01", "sbert")["speakers"] == ["robot", "participant"]
    assert store.read("p01-s01", "sbert", array="speaker").tolist() == [0, 1, 0, 1, 0]
    speakers = [utterance["speaker"] for utterance in words for _ in utterance["words"]]
    names = store.attributes("p01-s01", "glove")["speakers"]
    assert names == ["robot", "participant"]
    assert [names[number] for number in store.read("p01-s01", "glove", array="speaker")] == speakers
    frame_utterance = store.read("p01-s01", "sbert", array="frame_utterance")
    assert (frame_utterance[100], frame_utterance[359]) == (1, -1)


def test_the_stories_are_read_of_their_own_table_alone(study_copy: Path) -> None:
    path = study_copy / "stories.csv"
    source = Source("stories", {"stories": input_file(path)})
    with files_opened() as opened:
        stories = read_stories(source)
    assert list(map(str, below(opened, study_copy))) == ["stories.csv"]
    assert [story.story_id for story in stories] == sorted(story.story_id for story in load_study(study_copy).stories)
    (study_copy / "ratings.csv").write_text("nobody reads this now")
    assert read_stories(source) == stories
    path.write_text(path.read_text() + "s1,again\ns1,and again\n")
    with pytest.raises(ExtractionError, match="not valid any more: stories"):
        read_stories(source)


def test_the_stories(demo_study: Path, store_root: Path) -> None:
    outcomes = extract(demo_study, store_root, "glove", "sbert", session_id="stories")
    assert {name: outcome.rows for name, outcome in outcomes.items()} == {"glove": 6, "sbert": 6}
    catalogue.compact(local(store_root))
    store = FeatureStore(store_root)
    ids = ["st-bakery", "st-exam", "st-garden", "st-letter", "st-move", "st-race"]
    assert store.attributes("stories", "sbert")["story_ids"] == ids
    assert store.attributes("stories", "glove")["story_ids"] == ids
    np.testing.assert_allclose(store.read("stories", "glove", array="known"), 1)
    assert store.sessions == []


def break_transcript(study: Path, content: str) -> None:
    (study / "transcripts/p01-s01.json").write_text(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{zebra", "p01-s01.json: is not JSON"),
        (
            '{"utterances": [{"start_s": 1, "end_s": 95, "text": "zebra"}]}',
            "utterance 1 (in order of time): ends at 95.00 s, but the recording ends at 24.00 s",
        ),
        ('{"utterances": [{"start_s": 1, "end_s": "zebra", "text": ""}]}', "utterances.0.end_s"),
    ],
)
def test_a_broken_transcript_fails_both_text_features_and_quotes_nothing(
    study_copy: Path, store_root: Path, content: str, message: str
) -> None:
    break_transcript(study_copy, content)
    outcomes = extract(study_copy, store_root, "glove", "sbert")
    for feature in ("glove", "sbert"):
        assert outcomes[feature].status == "failed"
        assert message in outcomes[feature].reason
        assert "zebra" not in outcomes[feature].reason
    assert outcomes["frames"].status == "done"


def transcribed(study: Path, name: str, content: str) -> None:
    """Give the demo's first session another transcript."""

    (study / "transcripts" / name).write_text(content)
    sessions = pd.read_csv(study / "sessions.csv")
    sessions.loc[0, "transcript"] = f"transcripts/{name}"
    sessions.to_csv(study / "sessions.csv", index=False)


MALFORMED = {
    "m.vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\nthe garden\n\n99:99:99 --> 99:99:99\nzebra\n",
    "m.srt": "1\n00:00:01,000 --> 00:00:02,000\nthe garden\n\n2\n00:00:04,000 --> 00:00:03,000\nzebra\n",
    "m.json": '{"segments": [{"start": 1, "end": 2, "text": "the garden", "words": '
    '[{"word": "the"}, {"word": "garden", "start": 1.5, "end": 9.0}]}]}',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_cues_fail_the_text_features_unless_allowed_and_then_have_a_caveat(
    study_copy: Path, store_root: Path, name: str
) -> None:
    transcribed(study_copy, name, MALFORMED[name])
    outcomes = extract(study_copy, store_root, "glove", "sbert")
    for feature in ("glove", "sbert"):
        assert outcomes[feature].status == "failed"
        assert name in outcomes[feature].reason
        assert "allow_malformed_cues" in outcomes[feature].reason
        assert "zebra" not in outcomes[feature].reason
    outcomes = extract(study_copy, store_root, "glove", "sbert", transcript={"allow_malformed_cues": True})
    assert (outcomes["glove"].rows, outcomes["sbert"].rows) == (2, 1)
    for entry in record_status.scan(local(store_root)):
        if entry.feature in ("glove", "sbert"):
            assert "malformed cues left out" in entry.record.caveats
            assert entry.record.quality["malformed_cues"] == 1
            assert entry.record.provenance["settings"]["allow_malformed_cues"] is True


ZOOM = "WEBVTT\n\n" + "\n".join(
    f"00:0{n}.000 --> 00:0{n + 1}.000\n{who}: {text}\n"
    for n, (who, text) in enumerate(
        [("Anna Kowalski", "the garden"), ("Ben", "a dog"), ("Anna Kowalski", "the dog")], 1
    )
)


@pytest.mark.slow
def test_captions_of_a_call_are_embedded_without_the_names_and_no_name_reaches_the_store(
    study_copy: Path, store_root: Path
) -> None:
    """Against the same words with the speakers in fields of their own."""
    spoken = [("participant", "the garden"), ("robot", "a dog"), ("participant", "the dog")]
    own = [
        {"speaker": who, "start_s": n, "end_s": n + 1, "text": text} for n, (who, text) in enumerate(spoken, start=1)
    ]
    transcribed(study_copy, "own.json", json.dumps({"utterances": own}))
    extract(study_copy, store_root, "glove", "sbert")
    store = FeatureStore(store_root)
    expected = {feature: store.read("p01-s01", feature) for feature in ("glove", "sbert")}
    transcribed(study_copy, "zoom.vtt", ZOOM)
    extract(study_copy, store_root, "glove", "sbert")
    store = FeatureStore(store_root)
    for feature, values in expected.items():
        np.testing.assert_array_equal(store.read("p01-s01", feature), values)
        assert store.attributes("p01-s01", feature)["speakers"] == ["speaker_1", "speaker_2"]
        assert "captions whose speakers are uncertain" not in store.attributes("p01-s01", feature).get("stamps", [])
    assert store.read("p01-s01", "sbert", array="speaker").tolist() == [0, 1, 0]
    written = b"".join(path.read_bytes() for path in store_root.rglob("*") if path.is_file())
    assert not [name for name in (b"Kowalski", b"Anna", b"Ben") if name in written]


@pytest.mark.slow
def test_speakers_have_the_roles_of_the_table_of_persons(study_copy: Path, store_root: Path) -> None:
    """And a role that changes makes the features due again."""
    transcribed(study_copy, "zoom.vtt", ZOOM)
    persons = "session_id,person_id,role,transcript_name\np01-s01,a,{},anna  kowalski\np01-s01,b,,BEN\np01-s02,c,x,Ben"
    for role in ("teller", "listener"):
        (study_copy / "persons.csv").write_text(persons.format(role))
        outcomes = extract(study_copy, store_root, "glove", "sbert")
        assert [(outcomes[name].status, outcomes[name].skipped) for name in ("glove", "sbert")] == [("done", False)] * 2
        store = FeatureStore(store_root)
        for feature in ("glove", "sbert"):
            assert store.attributes("p01-s01", feature)["speakers"] == [role, "b"]
        assert store.read("p01-s01", "glove", array="speaker").tolist() == [0, 0, 1, 1, 0, 0]
    assert extract(study_copy, store_root, "glove")["glove"].skipped
    written = b"".join(path.read_bytes() for path in store_root.rglob("*") if path.is_file()).lower()
    assert not [name for name in (b"kowalski", b"anna") if name in written]
    (study_copy / "persons.csv").write_text(persons.format("third"))
    study = load_study(study_copy)
    (work,) = plan_extraction(study, store_root, ExtractorsSettings(), Selection(("p01-s01",), ("sbert",))).units
    assert work.source.speakers == {"anna kowalski": "third", "ben": "b"}
    assert "kowalski" not in repr(work) + repr(study)


def test_one_name_for_two_persons_of_a_session_is_refused_without_the_name(study_copy: Path) -> None:
    rows = ["p01-s01,a,Anna Berg", "p01-s01,b,anna berg", "p01-s02,a,Anna Berg"]
    (study_copy / "persons.csv").write_text("\n".join(["session_id,person_id,transcript_name", *rows]) + "\n")
    with pytest.raises(StudyError, match=naming("row 2", "transcript_name")) as error:
        load_study(study_copy)
    assert "row 3 has the same" in str(error.value)
    assert "erg" not in str(error.value).split("transcript_name", 1)[1].split(":")[0]


def test_captions_that_roll_have_a_row_for_each_word_that_is_said(study_copy: Path, store_root: Path) -> None:
    cues = [
        "00:01.000 --> 00:02.000\n \nthe<00:01.500><c> garden</c>",
        "00:02.000 --> 00:02.010\nthe garden\n ",
        "00:02.010 --> 00:03.000\nthe garden\n[laughter]",
    ]
    transcribed(study_copy, "rolling.vtt", "WEBVTT\n\n" + "\n\n".join(cues))
    extract(study_copy, store_root, "glove")
    store = FeatureStore(store_root)
    times = [store.read("p01-s01", "glove", array=name).tolist() for name in ("start", "end")]
    assert times == [[1.0, 1.5], [1.5, 2.0]]
    records = {entry.feature: entry.record for entry in record_status.scan(local(store_root))}
    glove = records["glove"]
    assert glove.quality["not_speech"] == 1
    assert glove.quality["word_times_interpolated"] == 0


@pytest.mark.slow
def test_captions_whose_speakers_are_uncertain_have_a_caveat(study_copy: Path, store_root: Path) -> None:
    transcribed(study_copy, "zoom.vtt", ZOOM.replace("Ben: ", ""))
    extract(study_copy, store_root, "glove", "sbert")
    records = {entry.feature: entry.record for entry in record_status.scan(local(store_root))}
    for feature in ("glove", "sbert"):
        assert "captions whose speakers are uncertain" in records[feature].caveats
        assert records[feature].quality["uncertain_speakers"] == 2
    (finding,) = [one for one in check_study(study_copy, ExtractorsSettings())[0].remarks if "speaker" in one]
    assert missing(finding, "2 of", "3 captions", "transcripts/zoom.vtt") == []
    assert "Anna" not in finding
    extract(study_copy, store_root, "glove", "sbert", transcript={"speaker_prefixes": True})
    records = {entry.feature: entry.record for entry in record_status.scan(local(store_root))}
    assert not any("speakers" in caveat for feature in ("glove", "sbert") for caveat in records[feature].caveats)


def test_words_after_the_end_of_the_recording_are_said(study_copy: Path, store_root: Path) -> None:
    """The recording ends at 24 s; recognisers round, so up to a second more is no error."""
    words = [{"word": "the", "start_s": 23.0, "end_s": 23.5}, {"word": "garden", "start_s": 24.0, "end_s": 24.5}]
    spoken = [{"start_s": 23.0, "end_s": 24.5, "text": "the garden", "words": words}]
    spoken.append({"start_s": 24.2, "end_s": 24.9, "text": "the"})
    break_transcript(study_copy, json.dumps({"utterances": spoken}))
    outcomes = extract(study_copy, store_root, "glove", "sbert")
    entries = {entry.feature: entry.record for entry in record_status.scan(local(store_root))}
    for feature, count in (("glove", 2), ("sbert", 1)):
        assert "speech after the end of the recording" in outcomes[feature].caveats
        assert entries[feature].quality["after_end"] == count


def test_no_transcript_is_missing(study_copy: Path, store_root: Path) -> None:

    sessions = pd.read_csv(study_copy / "sessions.csv")
    sessions["transcript"] = ""
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    outcomes = extract(study_copy, store_root, "glove", "sbert")
    assert {str(outcomes[name].status) for name in ("glove", "sbert")} == {"missing"}
    assert missing(outcomes["glove"].reason, "transcript", "session") == []


def test_interpolated_times_have_a_caveat(study_copy: Path, store_root: Path) -> None:
    break_transcript(study_copy, '{"utterances": [{"start_s": 1, "end_s": 3, "text": "the garden zebra"}]}')
    outcome = extract(study_copy, store_root, "glove")["glove"]
    assert "interpolated word times" in outcome.caveats
    (entry,) = [entry for entry in record_status.scan(local(store_root)) if entry.feature == "glove"]
    known = pytest.approx(2 / 3)
    assert entry.record.quality == {"word_times_interpolated": 1.0, "words_known": known, "measured": known}


def test_words_in_a_language_that_was_guessed_have_a_caveat_and_are_named(study_copy: Path, store_root: Path) -> None:
    path = study_copy / "transcripts/p01-s01.json"
    for made_by, probability, is_guess in (("storyframes-transcribe 0.1.0", 0.8, False), ("somebody", 0.35, False),
                                           ("storyframes-transcribe 0.1.0", 0.35, True)):  # fmt: skip
        provenance = {"made_by": made_by, "language": "th", "language_probability": probability}
        utterances = [{"start_s": 1, "end_s": 3, "text": "the garden"}]
        break_transcript(study_copy, json.dumps({"provenance": provenance, "utterances": utterances}))
        assert read_transcript(path).guessed_language is is_guess
    assert "transcript in a guessed language" in extract(study_copy, store_root, "glove")["glove"].caveats
    (remark,) = [one for one in check_study(study_copy, ExtractorsSettings())[0].remarks if "column language" in one]
    assert remark.startswith("transcripts/p01-s01.json: ")


def test_speakers_by_doubtful_voices_have_a_caveat(study_copy: Path, store_root: Path) -> None:
    said = {"speaker": "kim", "person_id": "kim", "start_s": 1, "end_s": 3, "text": "the garden"}
    by_voice = {"doubts": ["the voices are hard to tell apart"]}
    for doubts, expected in ((by_voice, True), ({"doubts": []}, False)):
        provenance = {"made_by": "storyframes-transcribe 0.2.0", "by_voice": doubts}
        break_transcript(study_copy, json.dumps({"provenance": provenance, "utterances": [said]}))
        caveats = extract(study_copy, store_root, "glove")["glove"].caveats
        assert ("doubtful speakers by voice" in caveats) is expected


def test_words_have_their_confidence_and_the_share_of_low_ones_is_said(study_copy: Path, store_root: Path) -> None:
    spoken = [("the", 2.0, 0.4), ("garden", 1.0, 0.9), ("the", 3.0, None), ("garden", 4.0, 0.5), ("the", 5.0, 0.75)]
    words = [{"word": word, "start": at, "end": at + 0.5, "score": score} for word, at, score in spoken]
    break_transcript(study_copy, json.dumps({"segments": [{"start": 1, "end": 6, "text": "x", "words": words}]}))
    outcomes = extract(study_copy, store_root, "glove", "sbert")
    session = outcomes["glove"].session_id
    stored = FeatureStore(store_root).read(session, "glove", array="confidence")
    np.testing.assert_array_equal(stored, np.array([0.9, 0.4, np.nan, 0.5, 0.75], np.float32))  # in order of time
    assert "words of low confidence" in outcomes["glove"].caveats
    assert outcomes["sbert"].caveats == ()
    (record,) = [entry.record for entry in record_status.scan(local(store_root)) if entry.feature == "glove"]
    assert record.quality["low_confidence"] == 0.25  # of the four that have one; 0.5 is not below 0.5
    again = extract(study_copy, store_root, "glove", "sbert", transcript={"low_confidence": 0.3})
    assert "words of low confidence" not in again["glove"].caveats
    assert again["sbert"].skipped  # which has no words of its own


def test_confidences_on_another_scale_are_not_stored_and_said(study_copy: Path, store_root: Path) -> None:
    words = [{"word": "the", "start": 1, "end": 2, "score": 97.5}, {"word": "garden", "start": 2, "end": 3, "score": 1}]
    break_transcript(study_copy, json.dumps({"segments": [{"start": 1, "end": 3, "text": "x", "words": words}]}))
    outcome = extract(study_copy, store_root, "glove")["glove"]
    assert "confidences that are not from 0 to 1" in outcome.caveats
    assert "words of low confidence" not in outcome.caveats
    assert np.isnan(FeatureStore(store_root).read(outcome.session_id, "glove", array="confidence")).all()


def test_texts_that_are_longer_than_the_model_reads_are_said(study_copy: Path, store_root: Path) -> None:
    texts = [" ".join(["garden"] * words) for words in (254, 255, 400)]
    utterances = [{"start_s": number, "end_s": number + 1, "text": text} for number, text in enumerate(texts)]
    break_transcript(study_copy, json.dumps({"utterances": utterances}))
    outcome = extract(study_copy, store_root, "sbert")["sbert"]
    assert outcome.caveats == ("texts longer than the model reads",)
    (entry,) = [entry for entry in record_status.scan(local(store_root)) if entry.feature == "sbert"]
    assert entry.record.quality["texts_cut"] == 2  # 254 words and the two marks around them just fit
    break_transcript(study_copy, json.dumps({"utterances": utterances[:1]}))
    assert extract(study_copy, store_root, "sbert")["sbert"].caveats == ()


def test_texts_in_a_script_that_the_model_does_not_know_are_said(study_copy: Path, store_root: Path) -> None:
    """Amharic, Khmer and Chinese are mostly unknown pieces; Russian and Urdu are not, nor English with an emoji."""
    unknown = ["ሰላም ለዓለም ደስ ብሎኛል", "ខ្ញុំស្រឡាញ់អ្នក ណាស់", "我昨天在公园里遇到了一位老朋友"]
    known = ["Я вчера встретил друга", "میں نے کل ایک دوست", "I was so happy 😀 to see José"]
    utterances = [{"start_s": at, "end_s": at + 1, "text": text} for at, text in enumerate([*unknown, *known])]
    break_transcript(study_copy, json.dumps({"utterances": utterances}))
    outcome = extract(study_copy, store_root, "sbert")["sbert"]
    assert outcome.caveats == ("texts in a script that the model does not know",)
    (entry,) = [entry for entry in record_status.scan(local(store_root)) if entry.feature == "sbert"]
    assert entry.record.quality["texts_unknown"] == 3
    break_transcript(study_copy, json.dumps({"utterances": utterances[3:]}))
    assert extract(study_copy, store_root, "sbert")["sbert"].caveats == ()


def test_an_empty_transcript_is_an_empty_feature(study_copy: Path, store_root: Path) -> None:
    break_transcript(study_copy, '{"utterances": []}')
    outcomes = extract(study_copy, store_root, "glove", "sbert")
    assert {str(outcomes[name].status) for name in ("glove", "sbert")} == {"done"}
    store = FeatureStore(store_root)
    assert store.read("p01-s01", "glove").shape == (0, 300)
    assert (store.read("p01-s01", "sbert", array="frame_utterance") == -1).all()


@pytest.mark.parametrize(("word", "parts"), [("US's", [1, 4]), ("us's", [2, 4]), ("Us's", [2, 4])])
def test_a_part_of_a_word_is_taken_as_it_is_written_first(tmp_path: Path, word: str, parts: list[float]) -> None:
    path = tmp_path / "cased.txt"
    path.write_text("".join(vector_line(form, value) for form, value in (("US", 1), ("us", 2), ("'s", 4))))
    assert known(load_word_vectors(path), word) == np.mean(parts)
