"""Who speaks: planted conversations, recorded by each one's microphone or by one for all, with the mouths beside it."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.media.conversations import FPS, RATE, Conversation, plant
from support.media.recordings import with_damaged_sound, write_recording, write_wave
from support.studies import make_study, run

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import OPENFACE_COLUMNS
from storyframes.speaking import Speech, attribute, read_speech
from storyframes.store.feature_store import FeatureStore
from storyframes.store.records import Caveat, Status
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.extract import Outcome
from tasks.planning.selection import Selection
from tasks.study.load import load_study

PAGE = Path(__file__).parents[2] / "docs/speaking.md"
SECONDS = 30.0
OFFSET_S, DRIFT = 3.25, 80e-6  # ben's microphone began so much later, and runs fast


@pytest.fixture(scope="module")
def talk() -> Conversation:
    return plant(1, ("en-us", "de+m3"), seconds=SECONDS, crosstalk_db=-12.0, snr_db=20.0)


def write_table(study: Path, name: str, *rows: str) -> None:
    (study / f"{name}.csv").write_text("\n".join(rows) + "\n")


@pytest.fixture
def lapels(talk: Conversation, tmp_path: Path) -> Path:
    """A camera of the room without sound, and a lapel microphone for each; ben's has a clock of its own."""
    study = tmp_path / "study"
    study.mkdir()
    write_recording(study / "room.mkv", round(SECONDS * 25))
    write_wave(study / "anna.wav", talk.microphones[0] * 32767, RATE)
    at = (np.arange(round((SECONDS - OFFSET_S) * RATE)) / RATE) / (1 + DRIFT) + OFFSET_S
    ben = np.interp(at, np.arange(len(talk.microphones[1])) / RATE, talk.microphones[1])
    write_wave(study / "ben.wav", ben * 32767, RATE)
    write_table(study, "sessions", "session_id,participant_id,video", "s,p,room.mkv")
    write_table(study, "persons", "session_id,person_id,participant_id", "s,a,p", "s,b,")
    write_table(study, "tracks", "session_id,track,audio,person_id,clock", "s,anna,anna.wav,a,", "s,ben,ben.wav,b,late")
    write_table(
        study, "clocks", "session_id,clock,clock_s,session_s", f"s,late,0,{OFFSET_S}",
        f"s,late,{1000 * (1 + DRIFT)},{1000 + OFFSET_S}",
    )  # fmt: skip
    return study


def extracted(study: Path, *, mouth: str = "") -> tuple[FeatureStore, dict[str, Outcome]]:
    store = study.parent / "features"
    if mouth:
        run(study, store, Selection(only=("openface",)))
    outcomes = run(study, store, Selection(only=("speaking",)), speaking={"mouth": mouth})
    return FeatureStore(store), outcomes


@pytest.mark.needs("espeak-ng")
def test_each_one_speaks_where_she_does_on_the_session_s_clock(lapels: Path, talk: Conversation) -> None:
    store, outcomes = extracted(lapels)
    assert {name: outcome.status for name, outcome in outcomes.items()}["s/speaking@ben"] is Status.DONE
    for speech, truth, name in zip(read_speech(store, "s").values(), talk.speaks, ("anna", "ben"), strict=True):
        step = np.floor(speech.time_s / 0.1).astype(int)
        inside = (speech.time_s < SECONDS - 0.2) & (speech.time_s > OFFSET_S + 0.1)
        p, y = speech.probability[inside], truth[step[inside]]
        assert np.mean((p - y) ** 2) < 0.06, name  # no step is unknown; of the other one's truth it is 0.5
        assert np.mean((p > 0.5) == y) > 0.92
    assert store.attributes("s", "speaking@anna")["microphones"] == 2
    assert not outcomes["s/speaking@anna"].caveats


@pytest.mark.needs("espeak-ng")
def test_the_session_s_own_camera_has_the_speech_of_its_participant(lapels: Path) -> None:
    store, _ = extracted(lapels)
    frames = store.read("s", "speaking", array="per_frame")
    own, lapel = store.read("s", "speaking"), store.read("s", "speaking@anna")
    np.testing.assert_array_equal(own[: len(lapel)], lapel)  # anna is p
    time = store.read("s", "frames", array="time")
    np.testing.assert_array_equal(frames, own[np.floor(time * 10 + 1e-6).astype(int)])
    assert list(read_speech(store, "s")) == ["anna", "ben"]


def test_damaged_sound_is_a_caveat(tmp_path: Path) -> None:
    loud = np.random.default_rng(0).integers(-9000, 9000, (3 * RATE, 1))
    loud[RATE : 2 * RATE] //= 100
    write_recording(tmp_path / "whole.mp4", 75, loud.astype(np.int16), RATE, codec="flac")
    study = make_study(tmp_path / "study", video="v.mp4")
    with_damaged_sound(tmp_path / "whole.mp4", study / "v.mp4", [2])
    store, outcomes = extracted(study)
    assert Caveat.DAMAGED_SOUND in outcomes["s/speaking"].caveats
    assert np.isnan(store.read("s", "speaking")).any()  # of the steps in the hole nothing is known


def said_alone(talk: Conversation, after_s: float) -> tuple[list[float], list[int]]:
    """When 0.4 s begin that one person says while the other is silent, and the numbers of these persons."""
    starts: list[float] = []
    owners: list[int] = []
    for person, steps in enumerate(talk.speaks & ~talk.speaks[::-1]):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], steps, [False]]))).reshape(-1, 2)
        for first, _ in edges[(np.diff(edges)[:, 0] >= 6) & (edges[:, 0] > 10 * after_s)]:
            starts.append((first + 1) / 10)
            owners.append(person)
    return starts, owners


@pytest.mark.needs("espeak-ng")
def test_words_are_attributed_to_who_says_them(lapels: Path, talk: Conversation) -> None:
    store, _ = extracted(lapels)
    starts, owners = said_alone(talk, OFFSET_S + 0.1)
    named = attribute(starts, np.array(starts) + 0.4, read_speech(store, "s", ["anna", "ben"]))
    assert len(named) > 6
    tracks = ["anna", "ben"]
    wrong = [words for words, owner in zip(named, owners, strict=True) if words.track not in (tracks[owner], None)]
    assert not wrong
    assert sum(words.track is not None for words in named) >= 0.8 * len(named)
    nobody = attribute([-3.0, SECONDS + 9], [-2.0, SECONDS + 10], read_speech(store, "s"))
    assert [words.track for words in nobody] == [None, None]


@pytest.mark.needs("espeak-ng")
def test_the_example_of_who_speaks(lapels: Path) -> None:
    store, _ = extracted(lapels)
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code.replace('"STORE"', repr(store.storage.location)).replace("anna-1", "s"), names)
    assert list(names["speech"]) == ["anna", "ben"]
    assert len(names["said"]) == 2


def test_what_is_as_likely_of_two_or_not_known_is_nobody_s() -> None:
    time_s = np.arange(30) / 10 + 0.05
    anna = Speech(time_s, np.where(time_s < 2, 0.95, np.nan))
    ben = Speech(time_s, np.where(time_s < 1, 0.95, np.where(time_s < 2, np.nan, 0.2)))
    both, unseen, other = attribute([0, 1, 2], [1, 2, 3], {"anna": anna, "ben": ben})
    assert (both.track, unseen.track, other.track) == (None, "anna", None)
    assert both.probability == pytest.approx(0.5)
    assert np.isnan(attribute([0.0], [1.0], {})[0].probability)


@pytest.mark.parametrize(
    ("start_s", "end_s", "track"), [(0.91, 0.98, "anna"), (0.96, 0.99, "anna"), (1.01, 1.04, "ben")]
)
def test_a_word_between_two_middles_is_of_the_nearest_step(start_s: float, end_s: float, track: str) -> None:
    time_s = np.arange(20) / 10 + 0.05
    anna = Speech(time_s, np.where(time_s < 1, 0.95, 0.02))
    ben = Speech(time_s, np.where(time_s < 1, 0.02, 0.95))
    assert attribute([start_s], [end_s], {"anna": anna, "ben": ben})[0].track == track


@pytest.mark.parametrize(
    ("others", "track"), [([], None), ([0.02], "anna"), ([0.02, np.nan], None), ([0.4], None)]
)  # anna's own probability is 0.7
def test_a_word_is_named_by_comparison_with_all_others(others: list[float], track: str | None) -> None:
    values = dict(zip(("anna", "ben", "cem"), (0.7, *others), strict=False))
    speech = {name: Speech(np.arange(10) / 10 + 0.05, np.full(10, value)) for name, value in values.items()}
    assert attribute([0.2], [0.8], speech)[0].track == track


def test_a_word_that_somebody_without_a_track_may_have_said_needs_a_sure_person() -> None:
    speech = {name: Speech(np.arange(10) / 10 + 0.05, np.full(10, p)) for name, p in (("a", 0.6), ("b", 0.05))}
    (everybody,), (others,) = (attribute([0.2], [0.8], speech, has_everybody=known) for known in (True, False))
    assert everybody.track == "a"
    assert (others.track, others.probability) == (None, pytest.approx(0.6))


@pytest.mark.parametrize(("end_s", "track"), [(0.6, None), (0.8, "a")])
def test_another_may_speak_in_a_quarter_of_what_a_person_says(end_s: float, track: str | None) -> None:
    time_s = np.arange(10) / 10 + 0.05
    speech = {"a": Speech(time_s, np.full(10, 0.99)), "b": Speech(time_s, np.where(time_s < 0.4, 0.7, 0.01))}
    assert attribute([0.3], [end_s], speech)[0].track == track


def test_a_word_while_two_persons_speak_is_nobody_s() -> None:
    speech = {name: Speech(np.arange(10) / 10 + 0.05, np.full(10, value)) for name, value in (("a", 0.99), ("b", 0.6))}
    (word,) = attribute([0.2], [0.8], speech)
    assert word.track is None
    assert word.probability == pytest.approx(0.5)


@pytest.mark.slow
@pytest.mark.needs("espeak-ng")
def test_another_person_s_sound_and_clock_decide_the_fingerprint(lapels: Path) -> None:
    assert not extracted(lapels)[1]["s/speaking@anna"].skipped
    assert extracted(lapels)[1]["s/speaking@anna"].skipped
    write_table(lapels, "clocks", "session_id,clock,clock_s,session_s", "s,late,0,3.4")
    assert not extracted(lapels)[1]["s/speaking@anna"].skipped
    write_wave(lapels / "ben.wav", np.zeros(4 * RATE), RATE)
    assert not extracted(lapels)[1]["s/speaking@anna"].skipped


@pytest.mark.needs("espeak-ng")
def test_where_another_microphone_has_no_sound_nobody_is_named(lapels: Path, talk: Conversation) -> None:
    write_wave(lapels / "ben.wav", talk.microphones[1][round(OFFSET_S * RATE) : 10 * RATE] * 32767, RATE)
    store, _ = extracted(lapels)
    valid = store.read("s", "speaking@anna", array="valid")
    assert valid[40:95].all()
    assert not valid[:30].any()
    assert not valid[105:].any()
    assert np.isnan(store.read("s", "speaking@anna")[valid == 0]).all()


@pytest.mark.needs("espeak-ng")
def test_one_microphone_alone_hears_anybody_and_says_so(talk: Conversation, tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    write_wave(study / "room.wav", talk.room * 32767, RATE)
    write_table(study, "sessions", "session_id,participant_id,audio", "s,p,room.wav")
    store, outcomes = extracted(study)
    assert outcomes["s/speaking"].caveats == ("speech of anybody whom the microphone hears",)
    heard, truth = store.read("s", "speaking")[: talk.speaks.shape[1]], talk.speaks.any(axis=0)
    assert np.mean((heard - truth) ** 2) < 0.08
    windows = WindowSpec(window_s=2.0, stride_s=2.0, split_shares=(1, 0, 0))
    write_clip_index(build_clip_index(load_study(study), windows, store).clips, store.storage)
    clip = ClipDataset(FeatureStore(store.storage.location), [ClipInput("speaking")])[1]
    np.testing.assert_array_equal(clip["speaking"][: clip["speaking_length"]], store.read("s", "speaking")[20:40])


@pytest.mark.parametrize("samples", [np.zeros(5 * RATE), np.random.default_rng(1).normal(0, 300, 5 * RATE)])
def test_silence_is_not_speech(samples: np.ndarray, tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    write_wave(study / "room.wav", samples, RATE)
    write_table(study, "sessions", "session_id,participant_id,audio", "s,p,room.wav")
    store, outcomes = extracted(study)
    if not samples.any():
        assert outcomes["s/speaking"].status is Status.MISSING
        assert "muted" in outcomes["s/speaking"].reason
    else:
        assert store.read("s", "speaking").max() < 0.5


@dataclass(frozen=True)
class Mouth:
    opening: np.ndarray
    seen: np.ndarray


def write_faces(path: Path, mouth: Mouth) -> None:
    """OpenFace's output of a face 100 pixels high whose lips move as they did."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, OPENFACE_COLUMNS)
        writer.writeheader()
        for frame, (opening, seen) in enumerate(zip(mouth.opening, mouth.seen, strict=True)):
            row = dict.fromkeys(OPENFACE_COLUMNS, 0) | {"frame": frame + 1, "timestamp": f"{frame / 25:.3f}"}
            row |= {"confidence": 0.9 * seen, "success": int(seen), "y_27": 50, "y_8": 150}
            row |= {"y_62": 120, "y_66": round(120 + 100 * opening, 3), "x_16": 80}
            writer.writerow(row)


@pytest.fixture
def cameras(talk: Conversation, tmp_path: Path) -> Path:
    """A camera for each, and one sound for both."""
    study = tmp_path / "study"
    study.mkdir()
    sound = (talk.room * 32767).astype(np.int16)[:, None]
    frames = round(SECONDS * FPS)
    write_recording(study / "anna.mkv", frames, sound, RATE)
    write_recording(study / "ben.mkv", frames)
    write_wave(study / "room.wav", talk.room * 32767, RATE)
    for name, opening in zip(("anna", "ben"), talk.mouths, strict=True):
        seen = np.ones(frames, bool)
        seen[200:300] = name != "ben"
        write_faces(study / f"{name}.csv", Mouth(opening[:frames], seen))
    write_table(study, "sessions", "session_id,participant_id,video,audio,openface", "s,p,anna.mkv,room.wav,anna.csv")
    write_table(study, "persons", "session_id,person_id,participant_id", "s,a,p", "s,b,")
    write_table(study, "tracks", "session_id,track,video,audio,openface,person_id", "s,ben,ben.mkv,room.wav,ben.csv,b")
    return study


@pytest.mark.slow
@pytest.mark.needs("espeak-ng")
def test_of_one_microphone_the_mouths_tell_who_speaks(cameras: Path, talk: Conversation) -> None:
    store, outcomes = extracted(cameras, mouth="openface")
    assert [outcomes[f"s/speaking{track}"].status for track in ("", "@ben")] == [Status.DONE] * 2, outcomes
    for feature, truth in zip(("speaking", "speaking@ben"), talk.speaks, strict=True):
        p = store.read("s", feature)[: len(truth)]
        known = ~np.isnan(p)
        assert np.mean((p[known] - truth[known]) ** 2) < 0.12, feature
        assert p[known & truth].mean() > p[known & ~truth].mean() + 0.3
    unseen = store.read("s", "speaking@ben", array="valid")[85:115]
    assert not unseen.any()  # his face is out of sight, and somebody may speak all the same
    assert store.read("s", "speaking", array="valid")[85:115].all()
    starts, owners = said_alone(talk, 0.0)
    named = attribute(starts, np.array(starts) + 0.4, read_speech(store, "s", ["main", "ben"]), least=0.8)
    right = [words.track == ("main", "ben")[owner] for words, owner in zip(named, owners, strict=True) if words.track]
    assert all(right)
    assert len(right) >= 0.4 * len(named)


@pytest.mark.slow
@pytest.mark.needs("espeak-ng")
def test_regions_of_one_picture_speak_by_its_sound_and_their_mouths(
    cameras: Path, talk: Conversation, tmp_path: Path
) -> None:
    study = tmp_path / "one_camera"
    study.mkdir()
    (cameras / "anna.mkv").rename(study / "room.mkv")  # its picture is 64 pixels wide
    rows = []
    for face_id, name in enumerate(("anna", "ben")):
        with (cameras / f"{name}.csv").open() as file:
            for row in csv.DictReader(file):
                if row["success"] == "1":
                    moved = {f"x_{point}": 16 + 32 * face_id for point in range(68)}
                    shrunk = {f"y_{point}": float(row[f"y_{point}"]) / 4 for point in range(68)}
                    rows.append(row | moved | shrunk | {"face_id": face_id})
    with (study / "faces.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, OPENFACE_COLUMNS)
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: int(row["frame"])))
    write_table(study, "sessions", "session_id,participant_id,video", "s,p,room.mkv")
    write_table(
        study,
        "tracks",
        "session_id,track,region,openface",
        's,anna,"0,0,0.5,1",faces.csv',
        's,ben,"0.5,0,0.5,1",faces.csv',
    )
    store, outcomes = extracted(study, mouth="openface")
    for name, truth in zip(("anna", "ben"), talk.speaks, strict=True):
        assert outcomes[f"s/speaking@{name}"].status is Status.DONE, outcomes
        p = store.read("s", f"speaking@{name}")[: len(truth)]
        known = ~np.isnan(p)
        assert np.mean((p[known] - truth[known]) ** 2) < 0.12, name
        doubtful = store.attributes("s", f"openface@{name}")[
            "doubtful_s"
        ]  # a face without a width jumps whenever it moves
        assert doubtful
        assert store.attributes("s", f"speaking@{name}")["doubtful_s"] == doubtful
        assert Caveat.DOUBTFUL_REGION in outcomes[f"s/speaking@{name}"].caveats
    assert not store.read("s", "speaking@ben", array="valid")[85:115].any()
    assert list(read_speech(store, "s")) == ["anna", "ben"]


@pytest.mark.needs("espeak-ng")
def test_of_one_microphone_without_mouths_nobody_is_named(cameras: Path) -> None:
    store, outcomes = extracted(cameras)
    assert outcomes["s/speaking@ben"].status is Status.MISSING
    assert read_speech(store, "s") == {}  # that of the session's own is anybody's
    assert "[speaking] mouth = 'openface'" in outcomes["s/speaking@ben"].reason
    assert outcomes["s/speaking"].caveats == ("speech of anybody whom the microphone hears",)


@pytest.mark.needs("espeak-ng")
def test_a_mouth_that_no_feature_shows_is_refused(cameras: Path) -> None:
    outcomes = run(cameras, cameras.parent / "f", Selection(only=("speaking",)), speaking={"mouth": "lips"})
    assert "there is no such feature" in outcomes["s/speaking"].reason


@pytest.mark.parametrize(("known", "track"), [(4, None), (5, None), (6, "anna")])
def test_a_word_is_somebody_s_where_more_than_half_of_it_is_known(known: int, track: str | None) -> None:
    said = Speech(np.arange(10) / 10 + 0.05, np.where(np.arange(10) < known, 0.95, np.nan))
    (words,) = attribute([0.0], [1.0], {"anna": said})
    assert words.track == track
    assert np.isnan(words.probability) == (track is None)


def test_of_a_shared_microphone_nothing_is_known_where_the_mouth_is_not_seen(tmp_path: Path) -> None:
    """Somebody else has a microphone of her own, so what is heard is of one of the two who share the other."""
    study, frames = tmp_path / "study", 50
    study.mkdir()
    noise = np.random.default_rng(2).normal(0, 1, 2 * RATE) * np.repeat([30, 3000], RATE)
    write_wave(study / "room.wav", noise, RATE)
    write_wave(study / "cem.wav", noise / 30, RATE)
    opening = 0.05 + 0.04 * np.sin(np.arange(frames))
    for name, first, stop in (("anna", 0, 25), ("ben", 0, frames), ("cem", 0, 25)):
        write_recording(study / f"{name}.mkv", frames)
        seen = (np.arange(frames) >= first) & (np.arange(frames) < stop)
        write_faces(study / f"{name}.csv", Mouth(opening, seen))
    write_table(study, "sessions", "session_id,participant_id,video,audio,openface", "s,p,anna.mkv,room.wav,anna.csv")
    write_table(study, "persons", "session_id,person_id,participant_id", "s,a,p", "s,b,", "s,c,")
    columns = "session_id,track,video,audio,openface,person_id"
    write_table(study, "tracks", columns, "s,ben,ben.mkv,room.wav,ben.csv,b", "s,cem,cem.mkv,cem.wav,cem.csv,c")
    store, outcomes = extracted(study, mouth="openface")
    assert outcomes["s/speaking"].status is Status.DONE, outcomes
    valid = store.read("s", "speaking", array="valid")
    assert valid[:10].all()
    assert not valid[13:].any()
    assert np.isnan(store.read("s", "speaking")[13:]).all()
    assert store.read("s", "speaking@cem", array="valid").all()  # whose microphone is hers alone
