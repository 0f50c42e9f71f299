"""Annotations for ELAN and Praat, read by pympi and praatio, and imported again."""

from __future__ import annotations

import csv
import json
import re
import shutil
import stat
from pathlib import Path

import numpy as np
import pympi  # type: ignore[import-untyped]  # it has no type hints
import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from praatio import textgrid
from support.stores import local, publish_arrays
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import FeatureStore
from storyframes.features import FEATURES
from storyframes.store import compact
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes_release.annotations.elan import write_elan
from storyframes_release.annotations.praat import write_textgrid
from storyframes_release.annotations.tiers import Span, Tier, _edges, apart, runs
from tasks.study import read_transcript

FRAMES = 347
SESSIONS = ("p01-s01", "p01-s02", "p02-s01")
SCHEMES = (
    "scheme,type,min,max,labels",
    "act,nominal,,,\"smile|nod|say 'hi'\"",
    "arousal,interval,0,1,",
    "note,text,,,",
)
LABELS = [  # scheme, value, start_s, end_s, person_id, rater_id
    ("act", "smile", 0.5, 1.250001, "", "r1"),
    ("act", "nod", 1.0, 2.0, "", "r1"),
    ("act", "nod", 1.5, 1.5, "", "r1"),
    ("act", "say 'hi'", 3.0, 4.0, "", "r2"),
    ("arousal", "0.3333333333", 0.0, 2.5, "", ""),
    ("note", "what nobody may read", 0.0, 2.0, "", ""),
]
SAID = (b"what nobody may read", b"Hello.")
WRITERS = {"eaf": write_elan, "textgrid": write_textgrid}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo study with labels, and a store of random faces that is indexed: ``study`` and ``features``."""
    folder = tmp_path_factory.mktemp("indexed")
    shutil.copytree("demo/study", folder / "study")
    (folder / "study/schemes.csv").write_text("\n".join(SCHEMES))
    with (folder / "study/labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("session_id", "scheme", "value", "start_s", "end_s", "person_id", "rater_id"))
        rows.writerows(("p01-s01", *label) for label in LABELS)
    create_store(folder / "features")
    valid = np.ones(FRAMES, np.uint8)
    valid[[0, *range(100, 131), FRAMES - 1]] = 0
    faces = {"values": np.zeros((FRAMES, 714), np.float32), "valid": valid, "confidence": np.ones(FRAMES, np.float32)}
    for session in SESSIONS:
        publish_arrays(folder / "features", session, "frames", {"time": np.arange(FRAMES) / 15})
        publish_arrays(folder / "features", session, "openface", faces)
    result = run("index", folder / "study", folder / "features")
    assert result.exit_code == 0, result.output
    return folder


def export(indexed: Path, out: Path, to: str, *options: object) -> Result:
    return run("export", indexed / "features", "--out", out, "--format", to, "--study", indexed / "study", *options)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["eaf", "textgrid"])
def test_labels_are_imported_again_as_they_were(indexed: Path, tmp_path: Path, to: str) -> None:
    result = export(indexed, tmp_path / "out", to)
    assert result.exit_code == 0, result.output
    shutil.copytree(indexed / "study", tmp_path / "study")
    (tmp_path / "study/labels.csv").unlink()
    tiers = ["act by r1", "act by r1 (2)", "act by r1 (moments)", "act by r2"]
    maps = [part for tier in tiers for part in ("--map", f"{tier}=act")]
    (file,) = (path for path in (tmp_path / "out").iterdir() if path.stem == "p01-s01")
    maps += ["--map", "arousal=arousal", "--skip", "*"]
    imported = run("import", "labels", file, "--to", tmp_path / "study", *maps)
    assert imported.exit_code == 0, imported.output
    with (tmp_path / "study/labels.csv").open(newline="") as lines:
        rows = [(r["scheme"], r["value"], float(r["start_s"]), float(r["end_s"])) for r in csv.DictReader(lines)]
    assert len(rows) == 5  # the private scheme is not among them
    in_elan = {1.250001: 1.25}
    expected = [
        (scheme, value, start, (in_elan.get(end, end + 0.001 * (end == start)) if to == "eaf" else end))
        for scheme, value, start, end, *_ in LABELS[:5]
    ]
    assert sorted(rows) == sorted(expected)


def test_an_eaf_does_not_say_where_recordings_outside_the_study_are(indexed: Path, tmp_path: Path) -> None:
    shutil.copytree(indexed / "study", tmp_path / "study")
    (tmp_path / "study/videos").rename(tmp_path / "videos")
    (tmp_path / "another-disk").mkdir()
    (tmp_path / "videos").rename(tmp_path / "another-disk/videos")
    (tmp_path / "study/storyframes.toml").write_text('[recording]\nroot = "../another-disk"\n')
    given = ("--format", "eaf", "--study", tmp_path / "study", "--session", "p01-s01")
    result = run("export", indexed / "features", "--out", tmp_path / "out", *given)
    assert result.exit_code == 0, result.output
    assert "[recording] root" in result.output
    assert b"another-disk" not in b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert pympi.Elan.Eaf(tmp_path / "out/p01-s01.eaf", suppress_version_warning=True).media_descriptors == []


def test_pympi_reads_raters_clips_and_the_recording(indexed: Path, tmp_path: Path) -> None:
    export(indexed, tmp_path / "out", "eaf")
    file = pympi.Elan.Eaf(tmp_path / "out/p01-s01.eaf", suppress_version_warning=True)
    assert file.get_annotation_data_for_tier("act by r2") == [(3000, 4000, "say 'hi'")]
    assert file.tiers["act by r1"][2]["ANNOTATOR"] == "r1"
    (media,) = file.media_descriptors
    assert (tmp_path / "out" / media["RELATIVE_MEDIA_URL"]).samefile(indexed / "study/videos/p01-s01.avi")
    clips = FeatureStore(indexed / "features").clips()
    clips = clips[clips["session_id"] == "p01-s01"]
    windows = {(round(row.start_s * 1000), round(row.stop_s * 1000)) for row in clips.itertuples()}
    tiers = [name for name in file.get_tier_names() if name.startswith("clips")]
    assert {span[:2] for name in tiers for span in file.get_annotation_data_for_tier(name)} == windows
    note = json.loads((tmp_path / "out/export.json").read_text())
    assert note["rounded"]["p01-s01.eaf"] >= 1
    assert stat.S_IMODE((tmp_path / "out/p01-s01.eaf").stat().st_mode) == 0o600


def test_stretches_without_a_measurement(indexed: Path, tmp_path: Path) -> None:
    export(indexed, tmp_path / "out", "textgrid")
    file = textgrid.openTextgrid(str(tmp_path / "out/p01-s01.TextGrid"), includeEmptyIntervals=False)
    (table,) = FeatureStore(indexed / "features").feature_tables("p01-s01", "openface")
    keys = table.read(0, table.rows).keys
    assert (~keys["mask"]).sum() == 33
    inside = np.zeros(table.rows, bool)
    for start, end, _ in file.getTier("not measured: openface").entries:
        inside |= (np.round(keys["time"], 6) >= start) & (np.round(keys["time"], 6) < end)
    np.testing.assert_array_equal(inside, ~keys["mask"])


@pytest.mark.slow
def test_words_speakers_and_private_labels_only_with_text(indexed: Path, tmp_path: Path) -> None:
    for to in WRITERS:
        export(indexed, tmp_path / to, to)
        content = b"".join(path.read_bytes() for path in (tmp_path / to).iterdir())
        assert not any(text in content for text in (b"words:", b"utterances:", *SAID))
        export(indexed, tmp_path / f"{to}-text", to, "--with-text")
        content = b"".join(path.read_bytes() for path in (tmp_path / f"{to}-text").iterdir())
        assert all(text in content for text in SAID)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["eaf", "textgrid"])
def test_corrected_words_become_a_transcript(indexed: Path, tmp_path: Path, to: str) -> None:
    export(indexed, tmp_path / "out", to, "--with-text")
    (file,) = (path for path in (tmp_path / "out").iterdir() if path.stem == "p01-s01")
    file.write_text(file.read_text().replace("Hello.", "Hallo."))
    shutil.copytree(indexed / "study", tmp_path / "study")
    before = read_transcript(tmp_path / "study/transcripts/p01-s01.json")
    result = run("import", "transcripts", file, "--to", tmp_path / "study")
    assert result.exit_code == 0, result.output
    with (tmp_path / "study/sessions.csv").open(newline="") as lines:
        (path,) = (row["transcript"] for row in csv.DictReader(lines) if row["session_id"] == "p01-s01")
    after = read_transcript(tmp_path / "study" / path)
    expected = [(word.text.replace("Hello.", "Hallo."), word.start_s, word.end_s) for word in before.words()]
    assert [(word.text, word.start_s, word.end_s) for word in after.words()] == expected
    assert len(expected) > 20
    texts = [(of.speaker, of.text.replace("Hello.", "Hallo.")) for of in before.utterances]
    assert [(utterance.speaker, utterance.text) for utterance in after.utterances] == texts
    assert len({speaker for speaker, _ in texts}) == 2
    assert read_transcript(tmp_path / "study/transcripts/p01-s01.json") == before


@pytest.mark.slow
def test_a_forgotten_session_is_in_no_file(indexed: Path, tmp_path: Path) -> None:
    shutil.copytree(indexed, tmp_path / "lab")
    forgotten = run("forget", tmp_path / "lab/study", tmp_path / "lab/features", "p01-s02", "--tables")
    assert forgotten.exit_code == 0, forgotten.output
    result = export(tmp_path / "lab", tmp_path / "out", "eaf", "--with-text")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "out").glob("*.eaf")) == ["p01-s01.eaf", "p02-s01.eaf"]
    assert not any(b"p01-s02" in path.read_bytes() for path in (tmp_path / "out").iterdir())
    refused = export(tmp_path / "lab", tmp_path / "out2", "eaf", "--session", "p01-s02")
    assert refused.exit_code == 2
    assert "p01-s02" in refused.output
    assert not (tmp_path / "out2").exists()


@pytest.mark.slow
def test_who_has_the_floor(indexed: Path, tmp_path: Path) -> None:
    from storyframes_dyads.turn_feature import SPEC

    shutil.copytree(indexed, tmp_path / "lab")
    time = np.arange(40) / 10
    values = np.zeros((40, len(SPEC.arrays["values"].columns)), np.float32)
    values[5:12, 4], values[12:30, 5] = 1, 1
    valid = np.ones(40, np.uint8)
    valid[8:10] = 0
    with FeatureWriter(local(tmp_path / "lab/features"), "p01-s01", SPEC) as out:
        for name, rows in {"values": values, "time": time, "valid": valid}.items():
            out.write(name, rows)
        out.publish("f" * 64, {"inputs": {}})
    compact(local(tmp_path / "lab/features"), [("p01-s01", "turns")])
    result = export(tmp_path / "lab", tmp_path / "out", "textgrid")
    assert result.exit_code == 0, result.output
    file = textgrid.openTextgrid(str(tmp_path / "out/p01-s01.TextGrid"), includeEmptyIntervals=False)
    assert [entry[:2] for entry in file.getTier("turns: first").entries] == [(0.5, 0.8), (1.0, 1.2)]
    assert [entry[:2] for entry in file.getTier("turns: second").entries] == [(1.2, 3.0)]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--format", "eaf"], "--study"),
        (["--format", "csv", "--with-text"], "--with-text"),
        (["--format", "eaf", "--study", "STUDY", "--rate", "5"], "--session"),
        (["--format", "nwb", "--study", "STUDY", "--by", "session"], "--format nwb.*--by"),
        (["--format", "nwb", "--study", "STUDY", "--functionals", "std"], "--format nwb.*--functionals"),
        (["--format", "nwb", "--study", "STUDY", "--raw-text", "STUDY"], "--format nwb.*--raw-text"),
    ],
)
def test_wrong_calls(indexed: Path, tmp_path: Path, options: list[str], named: str) -> None:
    options = [str(indexed / "study") if option == "STUDY" else option for option in options]
    result = run("export", indexed / "features", "--out", tmp_path / "out", *options)
    assert result.exit_code == 2
    assert re.search(named, " ".join(result.output.split()))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_persons_stay_who_they_are_and_interpolated_words_are_interpolated_again(indexed: Path, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    shutil.copytree(indexed, lab)
    (lab / "study/persons.csv").write_text(
        "session_id,person_id,role,transcript_name\np01-s01,anna,,Anna Muster\np01-s01,p9,mother,Berta Muster\n"
    )
    said = [("Berta Muster", 1.0, 2.0), ("Anna Muster", 2.5, 4.0)]
    utterances = [{"speaker": name, "start_s": s, "end_s": e, "text": "two words"} for name, s, e in said]
    (lab / "study/transcripts/p01-s01.json").write_text(json.dumps({"utterances": utterances}))
    export(lab, tmp_path / "out", "textgrid", "--with-text")
    file = tmp_path / "out/p01-s01.TextGrid"
    assert "Muster" not in file.read_text()
    assert run("import", "transcripts", file, "--to", lab / "study").exit_code == 0
    transcript = read_transcript(lab / "study/transcripts/p01-s01.corrected1.json")
    assert [of.speaker for of in transcript.utterances] == ["mother", "anna"]
    assert sorted(transcript.pseudonyms.values()) == ["anna", "mother"]
    assert not any(word.timed for word in transcript.words())


@pytest.mark.slow
def test_a_track_of_who_was_forgotten_is_in_no_file(indexed: Path, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    shutil.copytree(indexed, lab)
    (lab / "study/tracks.csv").write_text('session_id,track,video,of,region\np01-s01,bob,,main,"0,0,0.5,1"\n')
    valid = np.zeros(FRAMES, np.uint8)
    faces = {"values": np.zeros((FRAMES, 714), np.float32), "valid": valid, "confidence": np.ones(FRAMES, np.float32)}
    with FeatureWriter(local(lab / "features"), "p01-s01", FEATURES["openface"], track="bob") as out:
        for name, rows in faces.items():
            out.write(name, rows)
        out.publish("f" * 64, {"inputs": {}})
    frames = {"time": np.arange(FRAMES) / 15}
    with FeatureWriter(local(lab / "features"), "p01-s01", FEATURES["frames"], track="bob") as out:
        out.write("time", frames["time"])
        out.publish("f" * 64, {"inputs": {}})
    assert run("index", lab / "study", lab / "features").exit_code == 0
    assert export(lab, tmp_path / "before", "eaf").exit_code == 0
    assert b"openface@bob" in (tmp_path / "before/export.json").read_bytes()
    (lab / "study/tracks.csv").unlink()  # a store from a backup still has the feature
    assert export(lab, tmp_path / "after", "eaf").exit_code == 0
    assert not any(b"bob" in path.read_bytes() for path in (tmp_path / "after").iterdir())


def test_media_that_begin_later_and_words_without_times_are_refused(indexed: Path, tmp_path: Path) -> None:
    export(indexed, tmp_path / "out", "eaf", "--with-text")
    file = tmp_path / "out/p01-s01.eaf"
    whole = file.read_text()
    file.write_text(whole.replace("<MEDIA_DESCRIPTOR", '<MEDIA_DESCRIPTOR TIME_ORIGIN="7500"'))
    refused = run("import", "transcripts", file, "--to", indexed / "study", "--dry-run")
    assert refused.exit_code == 2
    assert "TIME_ORIGIN" in refused.output
    end = pympi.Elan.Eaf(file, suppress_version_warning=True).get_annotation_data_for_tier("words: robot")[0][1]
    file.write_text(whole.replace(f' TIME_VALUE="{end}"', "", 1))
    refused = run("import", "transcripts", file, "--to", indexed / "study", "--dry-run")
    assert refused.exit_code == 2
    assert "words: " in refused.output


def test_labels_of_a_track_come_back_in_its_seconds(indexed: Path, tmp_path: Path) -> None:
    shutil.copytree(indexed / "study", tmp_path / "study")
    (tmp_path / "study/tracks.csv").write_text("session_id,track,video\np01-s01,cam2,videos/p01-s02.avi\n")
    (tmp_path / "study/labels.csv").unlink()
    write_textgrid(tmp_path / "p01-s01@cam2.TextGrid", [Tier("act", (Span(10**6, 2 * 10**6, "nod"),))], "")
    for options in ([], ["--session", "p01-s01"]):
        result = run("import", "labels", tmp_path / "p01-s01@cam2.TextGrid", "--to", tmp_path / "study", "--map",
                     "act=act", *options)  # fmt: skip
        assert result.exit_code == 0, result.output
        with (tmp_path / "study/labels.csv").open(newline="") as lines:
            assert [row["track"] for row in csv.DictReader(lines)] == ["cam2"]
        (tmp_path / "study/labels.csv").unlink()


def test_a_row_of_sound_is_around_its_time() -> None:
    middles = np.array([0.05, 0.15, 0.25])
    assert _edges(middles, are_middles=True).tolist() == [0, 100_000, 200_000, 300_000]
    assert _edges(np.array([0.0, 0.1])).tolist() == [0, 100_000, 200_000]


def test_a_word_outside_of_every_utterance_is_named(indexed: Path, tmp_path: Path) -> None:
    write_textgrid(
        tmp_path / "p01-s01.TextGrid",
        [Tier("utterances: a", (Span(0, 10**6, "x"),)), Tier("words: a", (Span(2 * 10**6, 3 * 10**6, "x"),))],
        "",
    )
    before = (indexed / "study/sessions.csv").read_bytes()
    result = run("import", "transcripts", tmp_path / "p01-s01.TextGrid", "--to", indexed / "study")
    assert result.exit_code == 2
    assert all(text in result.output for text in ("p01-s01.TextGrid", "words: a"))
    assert (indexed / "study/sessions.csv").read_bytes() == before


SPAN = st.tuples(st.integers(0, 10**7), st.integers(0, 10**6), st.sampled_from(["a", 'b "c"', "é\u4e2d"]))


@given(st.lists(SPAN, max_size=8))
def test_no_tier_overlaps_and_nothing_is_lost(drawn: list[tuple[int, int, str]]) -> None:
    spans = tuple(Span(start, start + length, text) for start, length, text in drawn)
    for unit in (1, 1000):
        made = list(apart(Tier("t", spans), unit))
        assert len({tier.name for tier in made}) == len(made)
        assert sum(len(tier.spans) for tier in made) == len(spans)
        for tier in made:
            for before, after in zip(tier.spans, tier.spans[1:], strict=False):
                assert before.end <= after.start
                assert before.start < after.start
        shifts = [abs(was.start - now.start) for was, now in zip(sorted(spans), _sorted(made), strict=True)]
        assert max(shifts, default=0) <= unit // 2
    assert sorted(span for tier in apart(Tier("t", spans)) for span in tier.spans) == sorted(spans)


def _sorted(made: list[Tier]) -> list[Span]:
    return sorted((span for tier in made for span in tier.spans), key=lambda span: span.start)


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_runs_are_the_flagged_rows(flags: list[bool]) -> None:
    edges = np.arange(len(flags) + 1) * 7
    covered = np.zeros(len(flags), bool)
    for start, end in runs(np.array(flags), edges):
        covered |= (edges[:-1] >= start) & (edges[:-1] < end)
    assert covered.tolist() == flags
