"""Looking at studies of several people: every camera and microphone for itself, on its own clock, and any labels."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from html import unescape
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from support.messages import missing, naming
from support.pages.page_data import page_data
from support.pairs import SECONDS, write_dyad, write_group
from support.stores import local
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES, OPENFACE_COLUMNS
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Status
from storyframes_report import Disclosure
from storyframes_report.report.facts import read_facts
from storyframes_report.report.session_page import ReportOptions
from storyframes_report.report.site import build_report
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.clip_index.label_rules import LabelRule
from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.quality import Quality, Rule
from tasks.inspect.track_curves import read_curves
from tasks.study.load import Study, load_study


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def group(tmp_path_factory) -> Path:
    return write_group(tmp_path_factory.mktemp("group"))


@pytest.fixture(scope="module")
def dyad(tmp_path_factory) -> Path:
    return write_dyad(tmp_path_factory.mktemp("dyad"))


# --- curves and findings ---


@pytest.mark.slow
def test_every_track_has_its_own_curves(group: Path) -> None:
    store = FeatureStore(group / "features")
    main, child = read_curves(store, "s0001"), read_curves(store, "s0001", "child_b")
    assert (len(main.time), main.tracked) == (3 * 30, None)
    assert len(child.time) == len(child.tracked) == round(SECONDS * 0.9 * 25)
    assert child.end_s == pytest.approx(68 / 25)  # by its own clock, which began later
    assert child.head_pose[0, 1] == pytest.approx(np.degrees(0.5))
    assert len(child.sound_time) < len(main.sound_time)
    assert repr(child) == "s0001, track child_b: 2.72 s, 68 frames; curves of face, sound"
    (lost,) = [one for one in Quality.of(child).findings if one.rule is Rule.FACE_LOST]
    assert lost.spans == ((pytest.approx(43 / 25), pytest.approx(68 / 25)),)
    assert not [one for one in Quality.of(main).findings if one.rule is Rule.FACE_LOST]


def test_a_microphone_breaks_no_rule_about_pictures(dyad: Path) -> None:
    store = FeatureStore(dyad / "features")
    for track in ("listener_mic", "speaker_mic"):
        curves = read_curves(store, "s0001", track)
        assert not curves.has_frames
        assert curves.length_s == curves.sound_end_s == pytest.approx(store.read(
            "s0001", f"opensmile@{track}", array="time")[-1] + 0.06)  # fmt: skip
        assert Quality.of(curves).findings == []
    quiet = read_curves(store, "s0001", "listener_mic")
    quiet.sound_time = np.arange(2000) / 100
    quiet.loudness, quiet.f0, quiet.sound_end_s = np.full(2000, -80.0), None, 20.0
    assert [one.rule for one in Quality.of(quiet).findings] == [Rule.SILENCE]


def test_words_alone_are_as_long_as_what_is_said(store_root: Path) -> None:
    with FeatureWriter(local(store_root), "s", FEATURES["sbert"], track="anna", frames=False) as out:
        out.attributes["speakers"] = ["A"]
        out.write("values", np.ones((1, 384), np.float32))
        out.write("start", np.array([0.5]))
        out.write("end", np.array([1.5]))
        out.write("speaker", np.zeros(1, np.int16))
        out.publish("f", {})
    catalogue.compact(local(store_root))
    curves = read_curves(FeatureStore(store_root), "s", "anna")
    assert (curves.extent, Quality.of(curves).findings) == ("1.50 s, no picture", [])


def test_show_has_every_track_or_the_one_that_is_asked_for(dyad: Path) -> None:
    shown = run("show", dyad / "features", "s0001")
    assert shown.exit_code == 0, shown.output
    for track in ("main", "speaker_camera", "listener_mic", "speaker_mic"):
        assert f"{track}: no rule is broken" not in shown.stdout  # none has all that the rules judge
        assert f"{track}: no finding by" in shown.stdout
        assert f"{track}: not looked at: " in shown.stdout
    assert "main: 3.00 s, 75 frames\n" in shown.stdout.replace(" \n", "\n").replace("  ", "")
    assert not missing(shown.stdout, "listener_mic", "3.15 s")
    one = run("show", dyad / "features", "s0001", "--track", "speaker_mic")
    assert "opensmile@speaker_mic" in one.stdout
    assert "listener_mic" not in one.stdout
    assert "main" not in one.stdout
    content = json.loads(run("show", dyad / "features", "s0001", "--json").stdout)
    assert content["frames"] == 75  # of the session's own files, as in a study without tracks
    assert {track: of["frames"] for track, of in content["tracks"].items()} == {
        "listener_mic": 0,
        "speaker_camera": 69,
        "speaker_mic": 0,
    }
    assert content["tracks"]["speaker_mic"]["curves"][0]["name"] == "loudness"


def test_show_refuses_a_track_that_is_not_there(dyad: Path) -> None:
    result = run("show", dyad / "features", "s0001", "--track", "speaker")
    assert result.exit_code == 2
    assert "s0001 has no track 'speaker'" in result.stderr
    assert not missing(result.stderr, "listener_mic", "speaker_camera", "speaker_mic")


def test_a_camera_whose_frames_failed_has_no_curves_and_the_others_have(store_root: Path) -> None:
    for track in ("main", "b"):
        with FeatureWriter(local(store_root), "s", FEATURES["frames"], track=track) as out:
            out.write("time", np.arange(60) / 15)
            out.publish("f", {})
    record_attempt(local(store_root), "s", "frames@c", Status.FAILED, "no decoder", "")
    catalogue.compact(local(store_root))
    shown = run("show", store_root, "s")
    assert shown.exit_code == 0, shown.output
    assert not missing(shown.stdout, "the track c has no")
    assert "b: 4.00 s, 60 frames" in shown.stdout


# --- overlay, view, compare ---


def test_an_overlay_is_of_the_cameras_own_frame(group: Path, tmp_path: Path) -> None:
    arguments = ("overlay", group / "study", group / "features", "s0001", "--out", tmp_path / "x.png")
    result = run(*arguments, "--track", "child_b", "--frame", 5)
    assert result.exit_code == 0, result.output
    green = (0, 220, 0)
    assert (cv2.imread(str(tmp_path / "x.png"))[..., ::-1] == green).all(axis=2).sum() > 8
    own = run(*arguments)
    assert own.exit_code == 2
    assert "s0001 has no landmarks" in own.stderr
    assert "it has frames, opensmile" in own.stderr
    assert not missing(run(*arguments, "--track", "child_a").stderr, "s0001", "track child_a")
    assert "frame 70 was requested" in run(*arguments, "--track", "child_b", "--frame", 70).stderr


def test_an_overlay_needs_a_camera_that_there_is(dyad: Path, tmp_path: Path) -> None:
    arguments = ("overlay", dyad / "study", dyad / "features", "s0001", "--out", tmp_path / "x.png", "--track")
    microphone = run(*arguments, "speaker_mic")
    assert microphone.exit_code == 2
    assert not missing(microphone.stderr, "'speaker_mic'", "s0001", "speaker_camera")
    unknown = run(*arguments, "speaker_cam")
    assert (unknown.exit_code, "is 'speaker_camera' meant?" in unknown.stderr) == (2, True)
    assert not list(tmp_path.iterdir())


def test_texts_are_no_session(demo_study: Path, store_root: Path, tmp_path: Path) -> None:
    result = run("overlay", demo_study, store_root, "stories", "--out", tmp_path / "x.png")
    assert result.exit_code == 2
    assert "'stories' are texts" in result.stderr


@pytest.mark.needs("rerun")
def test_the_rerun_recording_has_every_track_on_the_sessions_timeline(group: Path, tmp_path: Path) -> None:
    from rerun.chunk import RrdReader

    result = run("view", group / "study", group / "features", "s0001", "--out", tmp_path / "x.rrd")
    assert result.exit_code == 0, result.output
    assert not missing(result.stdout, "main 90 frames", "child_a 71 frames", "child_b 68 frames")
    assert {"/video/frame", "/child_a/video/frame", "/child_b/video/landmarks", "/child_b/curves/head/pitch"} <= set(
        RrdReader(tmp_path / "x.rrd").store().schema().entity_paths()
    )
    one = run("view", group / "study", group / "features", "s0001", "--track", "child_b", "--out", tmp_path / "y.rrd")
    assert "child_b 68 frames" in one.stdout
    paths = RrdReader(tmp_path / "y.rrd").store().schema().entity_paths()
    assert {path.split("/")[1] for path in paths} == {"child_b"}
    times = [
        number.as_py()
        for chunk in RrdReader(tmp_path / "y.rrd").stream().to_chunks()
        if chunk.entity_path == "/child_b/video/frame"
        for number in chunk.to_record_batch()["time"]
    ]
    clock = load_study(group / "study").clock("s0001", "child_b")
    expected = clock.to_session(FeatureStore(group / "features").read("s0001", "frames@child_b", array="time"))
    assert expected[0] == pytest.approx(SECONDS * 0.1)
    np.testing.assert_allclose(sorted(time.total_seconds() for time in times), expected, atol=1e-6)
    session = FeatureStore(group / "features").session("s0001")
    with pytest.raises(ValueError, match=naming("openface@child_b", "does not know when the")):
        session.plot(["openface@child_b.AU12_r"])  # a store without a clip index has no clocks


@pytest.mark.slow
def test_a_comparison_is_of_all_tracks_or_of_one_and_tells_the_tracks_own_times(tmp_path: Path) -> None:
    """The camera has 10 frames a second, the session's own 15: row 20 is at 2.0 s there, not at 1.33 s."""
    stores = []
    for name, value in (("a", 0.0), ("b", 1.0)):
        stores.append(tmp_path / name)
        create_store(tmp_path / name)
        for track, fps in (("main", 15), ("cam.2", 10)):
            with FeatureWriter(local(tmp_path / name), "s", FEATURES["frames"], track=track) as out:
                out.write("time", np.arange(30) / fps)
                out.publish("f", {})
            values = np.zeros((30, 714), np.float32)
            values[20, OPENFACE_COLUMNS.index("AU12_r")] = value if track != "main" else 0.0
            with FeatureWriter(local(tmp_path / name), "s", FEATURES["openface"], track=track) as out:
                out.write("values", values)
                out.write("valid", np.ones(30, np.uint8))
                out.write("confidence", np.ones(30, np.float32))
                out.publish("f", {})
        catalogue.compact(local(tmp_path / name))
    of_all = run("compare", *stores, "--features", "openface", "--json")
    assert of_all.exit_code == 1
    found = json.loads(of_all.stdout)
    assert {column["feature"] for column in found["columns"]} == {"openface", "openface@cam.2"}
    ((feature, (row,)),) = found["worst_rows"].items()
    assert (feature, row["row"], row["time_s"]) == ("openface@cam.2", 20, 2.0)
    of_one = json.loads(run("compare", *stores, "--features", "openface@cam.2", "--json").stdout)
    assert {column["feature"] for column in of_one["columns"]} == {"openface@cam.2"}
    for tolerance, code in {
        "openface@cam.2=2": 0, "openface@cam.2.AU12_r=2": 0, "openface.AU12_r=2": 0, "openface=0.5": 1,
        "openface@cam.3=2": 2, "openface@cam.2.AU99_r=2": 2, "openface.x.y=2": 2,
    }.items():  # fmt: skip
        assert run("compare", *stores, "--tolerance", tolerance).exit_code == code, tolerance


# --- labels ---


def indexed(folder: Path, track: str = "main", **rules: LabelRule) -> Study:
    """The study of a folder, its clips written into the store there."""
    study, spec = load_study(folder / "study"), WindowSpec(window_s=1.0, stride_s=0.5, track=track)
    index = build_clip_index(study, spec, FeatureStore(folder / "features"), rules)
    write_clip_index(index.clips, local(folder / "features"))
    return study


def report_of(folder: Path, out: Path, **rules: LabelRule) -> str:
    study = indexed(folder, **rules)
    build_report(study, FeatureStore(folder / "features"), ExtractorsSettings(), out)
    return (out / "index.html").read_text()


def copied(folder: Path, to: Path) -> Path:
    for part in ("study", "features"):
        shutil.copytree(folder / part, to / part)
    return to


def cells(page: str) -> list[list[str]]:
    """The texts of every row of every table."""
    rows = re.findall(r"<tr>(.*?)</tr>", unescape(page), re.DOTALL)
    return [[re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


@pytest.mark.slow
def test_every_scheme_of_labels_is_in_the_report(group: Path, tmp_path: Path) -> None:
    folder = copied(group, tmp_path)
    (folder / "study/schemes.csv").write_text(
        "scheme,type,min,max,labels,private\nrapport,ordinal,,,low|medium|high,\nmood,nominal,,,,\n"
        "warmth,interval,0,100,,\nstars,ordinal,1,5,,\nnote,text,,,,\nnobody,nominal,,,a|b,\nremark,text,,,,no\n"
    )
    (folder / "study/labels.csv").write_text(
        "session_id,scheme,value,start_s,end_s,rater_id\n"
        "s0001,rapport,high,,,rater-1\ns0001,rapport,high,,,rater-2\ns0001,note,WHISPERED,,,rater-1\n"
        "s0001,remark,WHISPERED TOO,0,2,rater-1\n"
        "s0001,mood,<b>calm</b>,0,2,\ns0001,mood,tense,2.1,3,\n"
        "s0001,warmth,12.5,,,\ns0002,warmth,80,,,\ns0002,stars,4,,,rater-1\n"
    )
    page = report_of(folder, tmp_path / "site")
    rows = cells(page)
    for row in (
        ["rapport", "ordinal", "2", "1 of 2", "2"],
        ["mood", "nominal", "2", "1 of 2", ""],
        ["warmth", "interval", "2", "2 of 2", ""],
        ["stars", "ordinal", "1", "1 of 2", "1"],
        ["note", "text, private", "1", "1 of 2", "1"],
        ["nobody", "nominal", "0", "0 of 2", ""],
    ):
        assert row in rows, row
    facts = read_facts(load_study(folder / "study"), FeatureStore(folder / "features"), ExtractorsSettings())
    columns = {one.name: one for one in facts.labels}
    assert set(columns) == {"mood", "nobody", "rapport", "stars", "warmth"}
    assert columns["rapport"].counts.sum(axis=1).to_dict() == {"low": 0, "medium": 0, "high": 5, "no label": 5}
    assert sum(map(len, columns["warmth"].values.values())) == columns["warmth"].labelled == facts.clips == 10
    assert columns["rapport"].made_of == "the name that most give of 2 raters"
    assert columns["stars"].counts.sum(axis=1).to_dict() == {"4": 5, "no label": 5}
    given = {one.name: one for one in facts.schemes}
    assert given["stars"].counts == {"1": 0, "2": 0, "3": 0, "4": 1, "5": 0}
    assert given["rapport"].counts == {"low": 0, "medium": 0, "high": 2}
    for name in columns:
        assert f"How are the clips of each {name} split?" in page
    assert "10 clips: from 12.5 to 80 warmth, median 46.25" in page
    assert "empathy" not in page
    assert "stor" not in re.sub("storyframes", "", page)  # no stories where there are none
    for shown in (path.read_text() for path in (tmp_path / "site").rglob("*.html")):
        assert "WHISPERED" not in shown
        assert "<b>calm" not in shown
    session = (tmp_path / "site/sessions/s0001.html").read_text()
    about = page_data(session, "windows")[0]["about"]
    assert ["rapport", "high"] in about
    assert ["mood", "<b>calm</b>"] in about
    assert ["warmth", "12.5"] in about
    assert "click one to see its labels" in session


def test_columns_of_several_raters_are_shown_each(group: Path, tmp_path: Path) -> None:
    store = FeatureStore(copied(group, tmp_path) / "features")
    facts = read_facts(indexed(tmp_path, rapport=LabelRule(raters="all")), store, ExtractorsSettings())
    assert {"rapport_rater-1", "rapport_rater-2"} <= {column.name for column in facts.labels}


@pytest.mark.slow
def test_a_study_without_labels_says_so(group: Path, dyad: Path, tmp_path: Path) -> None:
    curves = report_of(copied(dyad, tmp_path / "dyad"), tmp_path / "curves")
    assert ["valence", "curve", "1", "1 of 1", "1"] in cells(curves)
    assert "The clip index has no column of labels." in curves
    folder = copied(group, tmp_path / "group")
    for table in ("labels", "schemes", "raters"):
        (folder / f"study/{table}.csv").unlink()
    page = report_of(folder, tmp_path / "none")
    assert "The study has no labels." in page
    assert set(re.findall("How are the clips of each ([^<]*) split", page)) == {"phase"}
    facts = read_facts(load_study(folder / "study"), FeatureStore(folder / "features"), ExtractorsSettings())
    assert (facts.participants, [row.participants for row in facts.splits.rows]) == (2, [2])  # both children
    assert "click one to see more" in (tmp_path / "none/sessions/s0001.html").read_text()


# --- the report ---


def test_whoever_is_in_sessions_of_two_splits_is_leaked(group: Path, tmp_path: Path) -> None:
    """Sessions of other participants, but the second child is the same."""
    folder = copied(group, tmp_path)
    persons, sessions = (pd.read_csv(folder / f"study/{name}.csv") for name in ("persons", "sessions"))
    persons.loc[2, "participant_id"] = sessions.loc[1, "participant_id"] = "c009"
    pd.concat([pd.read_csv(folder / "study/participants.csv"), pd.DataFrame({"participant_id": ["c009"]})]).to_csv(
        folder / "study/participants.csv", index=False
    )
    persons.to_csv(folder / "study/persons.csv", index=False)
    sessions.to_csv(folder / "study/sessions.csv", index=False)
    study, store = indexed(folder), FeatureStore(folder / "features")
    assert read_facts(study, store, ExtractorsSettings()).splits.leaked == {}
    clips = store.clips()
    clips["split"] = clips["session_id"].map({"s0001": "train", "s0002": "test"})
    write_clip_index(clips, local(folder / "features"))
    facts = read_facts(study, store, ExtractorsSettings())
    assert facts.splits.leaked == {"c002": ("test", "train")}
    assert {row.split: row.participants for row in facts.splits.rows} == {"train": 2, "test": 2}
    assert facts.participants == 3


@pytest.fixture(scope="module")
def site(group: Path, tmp_path_factory) -> Path:
    """The report of the group, with everything that can be asked for, a phase, and a track that was not extracted."""
    folder = copied(group, tmp_path_factory.mktemp("site"))
    with (folder / "study/tracks.csv").open("a") as tracks:
        tracks.write("s0001,late,,media/s0001-child_a.avi,,,\n")
    (folder / "study/phases.csv").write_text("session_id,phase,start_s,end_s\ns0001,play,1,2\n")
    options = ReportOptions(Disclosure(text=True, video=True), check_sound=True)
    study, store = indexed(folder), FeatureStore(folder / "features")
    summary = build_report(study, store, ExtractorsSettings(), folder / "site", options)
    assert summary.findings["s0001"] == 1
    return folder / "site"


def test_a_sessions_page_has_every_track_with_its_clock(site: Path) -> None:
    page = (site / "sessions/s0001.html").read_text()
    rows = cells(page)
    clock = "its second 0 is at 0.30 s of the session, its clock is 60 ppm fast"
    assert ["child_b", "child_b (child)", "2.72", "68", "63.2 %", "", "1", clock] in rows
    assert ["main", "", "3.00", "90", "", "", "0", "its seconds are the session's"] in rows
    assert ["late", "", "", "", "", "", "", "its seconds are the session's"] in rows
    assert [row[1:3] for row in rows if row[0] == "openface"] == [["main", "○ no input"], ["child_b", "✓ done"]]
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert headings == [
        "Play",
        "Track main",
        "Track child_a",
        "Track child_b",
        "Track late",
        "Tracks",
        "Ratings by rater",
        "Features",
    ]
    assert "c001 (child), c002 (child)" in page
    part = page[page.index("<h2>Track child_b") : page.index("<h2>Track late")]
    assert f"<p>2.72 s, 68 frames; {clock}. All times here are in seconds of its own recording.</p>" in part
    assert "face lost" in part
    assert 'data-chart="timeline-3" data-start="1.72"' in part
    assert part.count("<img ") == 8
    assert 'alt="Frame 7 of s0001, track child_b with' in part
    assert "Nothing of it has been extracted." in page[page.index("<h2>Track late") : page.index("<h2>Tracks<")]


def test_a_tracks_timeline_is_in_its_own_seconds(site: Path) -> None:
    page = (site / "sessions/s0001.html").read_text()
    ids = re.findall(r'class="plot timeline" id="([^"]+)"', page)
    assert ids == ["timeline", "timeline-2", "timeline-3"]
    figures = [page_data(page, f"{key}-figure") for key in ids]
    assert [one["layout"]["xaxis"]["title"]["text"] for one in figures] == [
        "seconds",
        "seconds of child_a's own recording",
        "seconds of child_b's own recording",
    ]
    spans = [next(trace for trace in one["data"] if trace["name"] == "phase") for one in figures]
    assert spans[0]["base"] == [1.0]
    assert spans[2]["base"] == [pytest.approx(0.7, abs=1e-3)]  # of a camera that began .3 s later
    assert [one["layout"]["meta"]["range"][1] for one in figures] == [
        pytest.approx(end, abs=0.02) for end in (3.0, 2.84, 2.72)
    ]
    assert page.count('id="windows"') == 1


def test_the_study_page_has_the_features_of_every_track(site: Path) -> None:
    page = (site / "index.html").read_text()
    columns = page_data(page, "sessions")
    features = {"main": 6, "child_a": 3, "child_b": 4, "late": 1}  # resnet50 of the cameras is absent
    assert Counter(feature["track"] for feature in columns["features"]) == features
    assert "openface@" not in re.sub(r'(?s)<section id="(versions|training)">.*?</section>', "", page)
    assert ["child_b", "2 of 2", "child", "0.00", "0.00"] in cells(page)
    assert ["late", "1 of 2", "", "", ""] in cells(page)
    # only the child_b of s0001 has an OpenFace table: 43 of its 68 frames have a face
    assert ["openface of child_b", "1 of 1", f"{43 / 68:.1%}", f"s0001: {43 / 68:.1%}", ""] in cells(page)


def test_the_study_page_names_the_clock_that_runs_worst(site: Path) -> None:
    page = (site / "index.html").read_text()
    # child_a and child_b of both sessions have clocks, late has none
    assert "4 of 5 tracks beside the sessions&#39; own files run on another clock" in page
    assert "the largest drift 60 ppm, 0.22 s an hour (s0001 child_b)" in page


def test_a_microphones_part_has_sound_and_nothing_of_pictures(dyad: Path, tmp_path: Path) -> None:
    folder = copied(dyad, tmp_path)
    summary = build_report(
        load_study(folder / "study"), FeatureStore(folder / "features"), ExtractorsSettings(), tmp_path / "site"
    )
    assert summary.problems == {}
    page = (tmp_path / "site/sessions/s0001.html").read_text()
    start = page.index("<h2>Track listener_mic")
    part = page[start : page.index('<section id="track-', start)]
    assert "3.15 s, no picture; its second 0 is at -0.15 s of the session, its clock is 120 ppm slow" in part
    assert "No rule is broken" not in part
    assert re.search(r"No finding by \d of 10 rules: silence, clipping", part)
    assert "Not looked at: face lost (no feature tracks a face); " in part
    study_page = (tmp_path / "site/index.html").read_text()
    assert "No rule is broken in any session" not in study_page
    assert "face lost in 1 of 1 session" in study_page
    assert "Loudness" in part
    (track,) = [track for track in summary.facts.tracks if track.name == "listener_mic"]
    assert (track.sessions, track.roles) == (1, "listener")


def test_a_damaged_track_does_not_cost_the_others_their_part(group: Path, tmp_path: Path) -> None:
    folder = copied(group, tmp_path)
    (array,) = (folder / "features/s0001/opensmile@child_a").glob("*/values")
    shutil.rmtree(array)
    result = run("report", folder / "study", folder / "features", "--out", tmp_path / "site")
    assert result.exit_code == 0, result.output
    assert "s0001 child_a: " in result.stdout
    page = (tmp_path / "site/sessions/s0001.html").read_text()
    assert page.count("Nothing can be drawn") == 1
    assert page.count('class="plot timeline"') == 2


def test_clips_of_another_camera_say_whose_frames_they_are(group: Path, tmp_path: Path) -> None:
    folder = copied(group, tmp_path)
    study = indexed(folder, track="child_b")
    build_report(study, FeatureStore(folder / "features"), ExtractorsSettings(), tmp_path / "site")
    assert "<dt>clips of child_b</dt>" in (tmp_path / "site/index.html").read_text()
    page = (tmp_path / "site/sessions/s0001.html").read_text()
    about = dict(page_data(page, "windows")[0]["about"])
    assert (about["frames"], about["time"]) == ("0 to 25 of child_b", "0.30 s to 1.30 s")
