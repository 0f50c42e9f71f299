"""The report's pages: what they say, what they never hold, and that they are made whole or not at all."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
from pathlib import Path

import av
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.messages import missing, naming
from support.pages.page_data import page_data
from support.servers.terminals import in_terminal
from support.stores import local, publish_openface
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.features import FEATURES
from storyframes.store import catalogue, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Status
from storyframes_report import Disclosure
from storyframes_report.report.chart import embed_json
from storyframes_report.report.facts import read_facts
from storyframes_report.report.matrix import CellState, build_matrix
from storyframes_report.report.pages import ReportError, new_site
from storyframes_report.report.session_page import ReportOptions
from storyframes_report.report.site import build_report
from tasks.media.sound import read_audio
from tasks.media.video_header import read_header
from tasks.planning.plan import ExpectedVersion
from tasks.study.load import Phase, Session, Study, Survey, Timepoint, load_study

HOSTILE = "<script>window.hacked=1</script>"


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def extractors(demo: Path):
    from flows.settings import load_settings

    return load_settings(demo / "storyframes.toml")


def build(demo: Path, out: Path, options: ReportOptions):
    study, store = load_study(demo / "study"), FeatureStore(demo / "features")
    return build_report(study, store, extractors(demo), out, options)


@pytest.fixture(scope="module")
def demo(extracted_demo) -> Path:
    folder, result = extracted_demo
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="module")
def site(demo: Path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("report") / "site"
    result = run("report", demo / "study", demo / "features", "--out", out, "--config", demo / "storyframes.toml")
    assert result.exit_code == 0, result.output
    assert "features done │ 20" in result.stdout
    return out


# --- privacy ---


def spoken_words(demo: Path) -> set[str]:
    """Words of the transcripts and of the stories that no page has a reason to hold."""
    stories = pd.read_csv(demo / "study/stories.csv")
    text = " ".join(stories["text"]) + " "
    for path in (demo / "study/transcripts").iterdir():
        text += " ".join(one["text"] for one in json.loads(path.read_text())["utterances"]) + " "
    common = {"have", "from", "there", "what", "when", "with", "that", "this", "them", "they", "never", "keep", "after"}
    ids = set(re.findall(r"[a-z]{4,}", " ".join(stories["story_id"])))  # st-garden: an id, which pages do show
    return {word.lower() for word in re.findall(r"[A-Za-z]{4,}", text)} - common - ids


@pytest.mark.slow
def test_nothing_that_was_said_or_seen_is_in_the_report(demo: Path, site: Path) -> None:
    assert {"grandfather", "neighbour", "cried"} <= spoken_words(demo)
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == 4
    our_own = "\n".join(
        path.read_text()
        for path in (Path(__file__).parents[1] / "storyframes_report").rglob("*.*")
        if path.suffix != ".pyc" and ".min." not in path.name  # plotly's, which no page holds
    ).lower()
    telling = {word for word in spoken_words(demo) if not re.search(rf"\b{word}\b", our_own)}
    assert len(telling) > 60  # the others are words of the pages too
    for page in pages:
        text = page.read_text()
        readable = re.sub(r'"(bdata|steps|deflated|frames)": ?"[^"]*"', "", text)
        if 'id="windows"' in text:
            readable += json.dumps(page_data(text, "windows"))
            traces = page_data(text, "timeline-figure")["data"]
            words = [trace["meta"]["words"] for trace in traces if "words" in (trace.get("meta") or ())]
            assert all(len(of["steps"]) == len(of["lengths"]) > 3 and set(of["texts"]) == {""} for of in words)
            assert words
        shown = set(re.findall(r"[a-z]{4,}", readable.lower()))
        assert not shown & telling, page
        assert "data:image" not in text
        assert "<img" not in text
    names = {path.suffix for path in site.rglob("*") if path.is_file()}
    assert not names & {".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".mp4", ".avi", ".wav"}


def test_pictures_are_claimed_only_where_there_are_some(demo_study: Path, store_root: Path, tmp_path: Path) -> None:
    """Nothing was extracted that could be drawn on a frame, so a report that was asked for pictures has none."""
    from tasks.extractors.registry import ExtractorsSettings

    study, store = load_study(demo_study), FeatureStore(store_root)
    options = ReportOptions(Disclosure(text=True, video=True))
    summary = build_report(study, store, ExtractorsSettings(), tmp_path / "s", options)
    assert (summary.quoted, summary.pictured) == (3, 0)
    index = (tmp_path / "s/index.html").read_text()
    assert "This report holds transcripts of 3 of 3 sessions." in index
    assert "This report holds no pictures: they were asked for, and no session has any." in index
    assert "<img" not in (tmp_path / "s/sessions/p01-s01.html").read_text()


def test_without_being_asked_no_page_has_a_text_or_a_picture(
    demo_study: Path, store_root: Path, tmp_path: Path
) -> None:
    from tasks.extractors.registry import ExtractorsSettings

    publish_openface(store_root, "p01-s01", 60)
    catalogue.compact(local(store_root))
    build_report(load_study(demo_study), FeatureStore(store_root), ExtractorsSettings(), tmp_path / "s")
    transcripts = [json.loads(path.read_text()) for path in (demo_study / "transcripts").iterdir()]
    said = [one["text"] for transcript in transcripts for one in transcript["utterances"]]
    stories = pd.read_csv(demo_study / "stories.csv")["text"].tolist()
    for page in (tmp_path / "s").rglob("*.html"):
        text = html.unescape(page.read_text())
        assert [one for one in said + stories if one in text] == []
        assert "<img" not in text
        assert "data:image" not in text


@pytest.mark.slow
def test_the_site_is_its_owners_and_needs_no_network(site: Path) -> None:
    for path in [site, *site.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    assert len(list(site.rglob("plotly*.js"))) == 1
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", text)
        assert "Content-Security-Policy" in text
        for target in re.findall(r'(?:src|href)="([^"#:]+)"', text):
            assert (page.parent / target).exists(), target


# --- content ---


@pytest.mark.slow
def test_the_study_page_says_what_there_is(demo: Path, site: Path) -> None:
    page = (site / "index.html").read_text()
    for title in (
        "Which sessions cannot be trained on, and why?",
        "Each of 3 sessions has clips.",
        "No: every feature that was asked for is there",
        "2 participants with features: too few to say, it takes 5.",
        "No session has a second camera or microphone, so there is one clock",
        "This is the first report in this folder",
        "How long are the sessions?",
        "How much is said in a session?",
        "How often was each value of empathy given?",
        "How are the clips of each empathy split?",
        "How do participants score once?",
        "How do scores change over the study?",
    ):
        assert title in page
    assert "54 clips: reflection 27, story_share 27." in page
    assert "No participant is in two splits" in page
    columns = page_data(page, "sessions")
    assert columns["sessions"] == ["p01-s01", "p01-s02", "p02-s01", "stories"]
    assert columns["pages"] == [1, 1, 1, 0]
    assert columns["participants"] == ["p01", "p01", "p02", ""]
    assert (columns["clips"], columns["obstacles"]) == ([18, 18, 18, 0], [""] * 4)
    openface = next(feature for feature in columns["features"] if feature["name"] == "openface")
    tracked = FeatureStore(demo / "features").read("p01-s01", "openface", array="valid").mean()
    assert (openface["states"], openface["measured"][0]) == ("dddn", round(1000 * tracked))
    assert "untrained" in page
    for one in (page, (site / "sessions/p01-s01.html").read_text()):
        assert ">caveats</th>" in one
        assert '<td class="text">demo word vectors</td>' in one


@pytest.mark.slow
def test_a_participant_in_two_splits_is_an_alarm(demo: Path, tmp_path: Path) -> None:
    study, store = load_study(demo / "study"), FeatureStore(demo / "features")
    clips = store.clips()
    clips.loc[clips.index[0], "split"] = "test"

    class Leaking(FeatureStore):
        def clips(self) -> pd.DataFrame:
            return clips

    person = clips["participant_id"].iloc[0]
    leaking = Leaking(demo / "features")
    facts = read_facts(study, leaking, extractors(demo))
    assert set(facts.splits.leaked) == {person}
    build_report(study, leaking, extractors(demo), tmp_path / "site")
    assert f"{person} is in test and in" in (tmp_path / "site/index.html").read_text()
    assert read_facts(study, store, extractors(demo)).splits.leaked == {}


@pytest.mark.slow
def test_a_changed_transcript_makes_its_features_stale(demo: Path, tmp_path: Path) -> None:
    shutil.copytree(demo / "study", tmp_path / "study")
    changed = tmp_path / "study/transcripts/p01-s02.json"
    changed.write_text(changed.read_text() + "\n")
    matrix = read_facts(load_study(tmp_path / "study"), FeatureStore(demo / "features"), extractors(demo)).matrix
    stale = {key for key, cell in matrix.cells.items() if cell.state is CellState.STALE}
    assert stale == {("p01-s02", "glove"), ("p01-s02", "sbert")}
    assert not (demo / "features/p01-s02/glove/attempt.json").exists()  # looking notes nothing


def test_every_state_of_a_feature(store_root: Path) -> None:
    for session_id in ("done", "old", "kept", "unknown"):
        publish_openface(store_root, session_id, 60)
    record_attempt(local(store_root), "lost", "openface", Status.FAILED, "a <b>reason</b>", "")
    record_attempt(local(store_root), "kept", "openface", Status.FAILED, "broke", "")
    record_attempt(local(store_root), "bare", "openface", Status.MISSING, "no csv", "")
    wanted = [
        ExpectedVersion(session_id, "openface", "e" * 64 if session_id == "old" else "f" * 64)
        for session_id in ("done", "old", "kept", "lost", "bare", "new")
    ]
    wanted += [ExpectedVersion("unknown", "openface", "", "no model"), ExpectedVersion("done", "glove", "f" * 64)]
    matrix = build_matrix(["new"], record_status.scan(local(store_root)), wanted)
    states = {session: matrix.cells[session, "openface"].state for session in matrix.sessions}
    assert states == {
        "new": CellState.NOT_EXTRACTED,
        "bare": CellState.NO_INPUT,
        "done": CellState.DONE,
        "kept": CellState.FAILED,
        "lost": CellState.FAILED,
        "old": CellState.STALE,
        "unknown": CellState.DONE,
    }
    assert matrix.cells["kept", "openface"].kept
    assert matrix.cells["lost", "openface"].rows == 0
    assert not missing(matrix.cells["unknown", "openface"].reason, "cannot be compared here")
    assert matrix.cells["old", "glove"].state is CellState.NOT_ASKED
    assert matrix.features == ("openface", "glove")


def test_looking_downloads_no_model_and_tells_no_folder(demo_study: Path, store_root: Path, monkeypatch) -> None:
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.models import weights

    def download(*_: object) -> str:
        raise AssertionError("a download was started")

    monkeypatch.setattr(weights, "_download", download)
    monkeypatch.setenv("TORCH_HOME", str(store_root.parent / "nothing"))
    publish_openface(store_root, "p01-s01", 60)
    given = ExtractorsSettings.model_validate({"glove": {"vectors": "/home/somebody/private/vectors.txt"}})
    cells = read_facts(load_study(demo_study), FeatureStore(store_root), given).matrix.cells
    assert not missing(cells["p01-s01", "resnet50"].reason, "resnet50-0676ba61", "pth is not on this")
    assert "vectors.txt" in cells["p01-s01", "glove"].reason
    assert not [cell.reason for cell in cells.values() if "/home" in cell.reason]


# --- made whole or not at all ---


def test_a_failed_build_leaves_the_old_site_and_nothing_else(tmp_path: Path) -> None:
    with new_site(tmp_path / "site") as folder:
        (folder / "index.html").write_text("first")
    with pytest.raises(RuntimeError), new_site(tmp_path / "site") as folder:
        (folder / "index.html").write_text("second")
        assert not list(tmp_path.glob("site/second"))
        raise RuntimeError
    assert (tmp_path / "site/index.html").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    with new_site(tmp_path / "site") as folder:
        (folder / "index.html").write_text("third")
    assert (tmp_path / "site/index.html").read_text() == "third"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_full_disk_leaves_no_half_site(small_disk: Path, demo_study: Path, store_root: Path) -> None:
    result = run("report", demo_study, store_root, "--out", small_disk / "site")
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert list(small_disk.iterdir()) == []


def test_a_folder_that_is_no_report_is_left_alone(tmp_path: Path, demo_study: Path, store_root: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("x")
    with pytest.raises(ReportError, match=naming("exists and is not a")), new_site(tmp_path / "mine"):
        pass
    result = run("report", demo_study, store_root, "--out", tmp_path / "mine")
    assert result.exit_code == 2
    assert (tmp_path / "mine/thesis.txt").read_text() == "x"


def test_a_study_without_any_feature(demo_study: Path, store_root: Path, tmp_path: Path) -> None:
    result = run("report", demo_study, store_root, "--out", tmp_path / "site")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "site/index.html").read_text()
    assert sum(feature["states"].count("a") for feature in page_data(page, "sessions")["features"]) == 20
    about = (tmp_path / "site/sessions/p01-s01.html").read_text()
    assert "Nothing can be drawn" in about
    assert str(store_root.parent) not in about  # a page that is handed on does not tell where things lie


def test_a_damaged_session_does_not_cost_the_others_their_pages(
    demo_study: Path, store_root: Path, tmp_path: Path
) -> None:
    for session_id in ("p01-s01", "p01-s02"):
        with FeatureWriter(local(store_root), session_id, FEATURES["frames"]) as out:
            out.write("time", np.arange(60) / 15)
            out.publish("f", {})
        publish_openface(store_root, session_id, 60)
    catalogue.compact(local(store_root))
    (array,) = (store_root / "p01-s01/openface").glob("*/values")
    shutil.rmtree(array)
    result = run("report", demo_study, store_root, "--out", tmp_path / "site")
    assert result.exit_code == 0, result.output
    assert "Nothing can be drawn" in (tmp_path / "site/sessions/p01-s01.html").read_text()
    assert 'id="timeline"' in (tmp_path / "site/sessions/p01-s02.html").read_text()


# --- hostile text ---


def hostile_study(root: Path) -> Study:
    """Names that the study's own validation would refuse: the pages do not rely on it."""
    session = Session.model_construct(session_id="s1", participant_id=HOSTILE, video="v.avi", transcript=None)
    phases = (Phase.model_construct(session_id="s1", phase=HOSTILE, start_s=0.0, end_s=2.0),)
    surveys = tuple(
        Survey.model_construct(participant_id=HOSTILE, timepoint=point, scale=HOSTILE, score=1.0)
        for point in (Timepoint.PRE, Timepoint.POST)
    )
    return Study(root, {"s1": session}, phases, surveys=surveys)


def test_hostile_names_are_text_on_every_page(store_root: Path, tmp_path: Path) -> None:
    from tasks.clip_index.index import write_clip_index
    from tasks.extractors.registry import ExtractorsSettings

    with FeatureWriter(local(store_root), "s1", FEATURES["frames"]) as out:
        out.write("time", np.arange(60) / 15)
        out.publish("f", {})
    with FeatureWriter(local(store_root), "s1", FEATURES["sbert"]) as out:
        out.attributes["speakers"] = [HOSTILE]
        out.write("values", np.ones((1, 384), np.float32))
        out.write("start", np.array([0.5]))
        out.write("end", np.array([1.5]))
        out.write("speaker", np.zeros(1, np.int16))
        out.write("frame_utterance", np.zeros(60, np.int32))
        out.publish("f", {})
    record_attempt(local(store_root), "s1", "glove", Status.FAILED, HOSTILE, "")
    catalogue.compact(local(store_root))
    clip = {"clip_id": "c", "session_id": "s1", "participant_id": HOSTILE, "phase": HOSTILE, "story_id": HOSTILE}
    clip |= {"position": 1, "empathy": 3, "split": HOSTILE, "start_frame": 0, "stop_frame": 15, "start_s": 0.0}
    clip |= {"stop_s": 1.0, "face_tracked": None, "words": None}
    index = pd.DataFrame([clip, clip | {"split": "test"}])
    write_clip_index(index, local(store_root))
    video = tmp_path / "v.avi"
    video.write_bytes(b"x")
    study = hostile_study(tmp_path)
    build_report(study, FeatureStore(store_root), ExtractorsSettings(), tmp_path / "site")
    for page in (tmp_path / "site/index.html", tmp_path / "site/sessions/s1.html"):
        text = page.read_text()
        assert "<script>window" not in text
        assert "&lt;script&gt;window" in text
        assert text.count("<script") == text.count("</script>")
        for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL):
            json.loads(block)


@settings(deadline=None, max_examples=15)
@example(["</script><b>&"])
@given(st.lists(st.text()) | st.dictionaries(st.text(), st.text()))
def test_embedded_json_comes_back_and_never_ends_its_element(content: object) -> None:
    embedded = str(embed_json(content))
    assert json.loads(embedded) == content
    assert not set(embedded) & set("<>&")


# --- in the terminal ---


@pytest.mark.slow
def test_show_for_people_and_for_scripts(demo: Path) -> None:
    shown = run("show", demo / "features", "p01-s01")
    assert shown.exit_code == 0
    assert "head pitch" in shown.stdout
    assert "caveats" in shown.stdout
    assert "demo word vectors" in " ".join(shown.stdout.split())
    assert set("▁█") <= set(shown.stdout)
    assert "no rule is broken" in shown.stdout
    code, drawn = in_terminal("show", demo / "features", "p01-s01")
    assert (code, max(map(len, drawn.partition("Next: ")[0].splitlines())) <= 100) == (0, True)
    content = json.loads(run("show", demo / "features", "p01-s01", "--json").stdout)
    assert content["frames"] == 120
    assert {one["feature"]: one["status"] for one in content["features"]}["openface"] == "done"
    by_name = {one["name"]: one for one in content["curves"]}
    tracked = FeatureStore(demo / "features").read("p01-s01", "openface", array="valid").mean()
    assert by_name["head pitch"]["present"] == pytest.approx(tracked)
    assert run("show", demo / "features", "p01-s09").exit_code == 2


@pytest.mark.needs("rerun")
@pytest.mark.slow
def test_the_rerun_recording_has_everything_on_one_timeline(demo: Path, tmp_path: Path) -> None:
    from rerun.chunk import RrdReader

    arguments = ("view", demo / "study", demo / "features", "p01-s01", "--out")
    result = run(*arguments, tmp_path / "x.rrd")
    assert result.exit_code == 0, result.output
    assert "120 frames" in result.stdout
    assert (tmp_path / "x.rrd").stat().st_mode & 0o077 == 0
    schema = RrdReader(tmp_path / "x.rrd").store().schema()
    paths = {"/video/frame", "/video/landmarks", "/curves/head/pitch", "/curves/sound/loudness_db"}
    assert paths <= set(schema.entity_paths())
    assert [column.name for column in schema.index_columns()] == ["time"]
    assert run(*arguments, tmp_path / "y.rrd", "--without-video").exit_code == 0
    without = RrdReader(tmp_path / "y.rrd").store().schema()
    assert set(schema.entity_paths()) - set(without.entity_paths()) == {"/video/frame", "/sound"}
    (sound,) = (chunk for chunk in RrdReader(tmp_path / "x.rrd").stream().to_chunks() if chunk.entity_path == "/sound")
    table = sound.to_record_batch()
    (content,) = (table[name] for name in table.schema.names if name.endswith("blob"))
    with av.open(io.BytesIO(bytes(content[0].as_py()[0]))) as flac:
        samples = np.concatenate([frame.to_ndarray().ravel() for frame in flac.decode(audio=0)])
    video = demo / "study/videos/p01-s01.avi"
    heard = list(read_audio(video, 16_000, read_header(video).start_s))
    assert table["time"][0].as_py().total_seconds() == pytest.approx(heard[0].time, abs=1e-6)
    expected = np.concatenate([block.samples for block in heard])
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(samples / 32767, expected, atol=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.rrd", "y.rrd"]
