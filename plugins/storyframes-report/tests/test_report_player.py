"""A recording of one's own disk is played beside the timelines, in a real browser: one cursor, true to the frame.

Each planted frame shows its own number as ten black or white fields, so what the browser shows is known.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import av
import numpy as np
import pytest
from support.media.recordings import write_video, write_wave
from support.pages.browser import Visit, chromium
from support.processes import HANG_S
from support.stores import local
from support.studies import run as extract
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.features import FEATURES, OPENFACE_COLUMNS
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Status
from storyframes_report.report import previews
from storyframes_report.report.previews import write_preview
from tasks.planning.selection import Selection

pytestmark = pytest.mark.slow
SECONDS = 4
RATES = {"s15": Fraction(15), "s25": Fraction(25), "s29": Fraction(30000, 1001)}
OFFSET_S, DRIFT_PPM = 0.75, 900  # of the side camera's clock: starts late, runs fast
# What the video shows, as a number; read in the callback of the shown frame, with what the page says of it then: frame,
# second, and of each timeline the second of the cursor and the one at which it really is, from its place on the screen.
SHOWN = """() => {
    const video = document.querySelector('#stage video'), canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [320, 180];
    const context = canvas.getContext('2d', { willReadFrequently: true });
    window.shownNumber = () => {
        context.drawImage(video, 0, 0, 320, 180);
        let number = 0;
        for (let bit = 0; bit < 10; bit++)
            if (context.getImageData(23 + 30 * bit, 90, 1, 1).data[1] > 127) number |= 1 << bit;
        return number;
    };
    window.cursorPlace = (chart) => {
        const { xaxis } = chart._fullLayout, line = chart.querySelector('.cursor'), box = line.getBoundingClientRect();
        const x = box.left + box.width / 2 - chart.getBoundingClientRect().left - xaxis._offset;
        return line.hidden ? null : xaxis.p2l(x);
    };
    window.seen = [];
    const look = () => {
        const { frame, second } = window.storyframesPlayer, charts = [...document.querySelectorAll('.plot.timeline')];
        window.seen.push([window.shownNumber(), frame, second,
            charts.map((chart) => [Number(chart.querySelector('.cursor').dataset.second), window.cursorPlace(chart)])]);
        video.requestVideoFrameCallback(look);
    };
    video.requestVideoFrameCallback(look);
}"""

# Of each turn of a loop, the last two seconds of the recording that were seen before it, and how long after them the
# browser had the page draw nothing.
TURNS = """(() => {
    const { video, zero } = window.storyframesPlayer;
    let [then, earlier, before] = [performance.now(), 0, 0];
    window.turns = [];
    const look = (now) => {
        const second = video.currentTime - zero, gap = (now - then) / 1000;
        if (second < before - 0.1) window.turns.push([earlier, before, gap]);
        [then, earlier, before] = [now, before, second];
        requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})()"""


def write_counter(path: Path, rate: Fraction, codec: str = "libvpx", *, with_sound: bool = True) -> None:
    """A video in which frame k shows k, with a tone that sets in at each second."""
    path.parent.mkdir(exist_ok=True)
    with av.open(str(path), "w") as container:
        video: Any = container.add_stream(codec, rate=rate)
        video.width, video.height, video.pix_fmt = 320, 180, "yuv420p"
        video.options = {"deadline": "realtime", "cpu-used": "8"} if codec == "libvpx" else {}
        video.codec_context.thread_count = 1  # libvpx's threads wait for each other in loops
        sound: Any = None
        if with_sound:
            sound = container.add_stream("libopus" if codec == "libvpx" else "pcm_s16le", rate=48_000, layout="mono")
        for number in range(round(SECONDS * rate)):
            picture = np.zeros((180, 320, 3), np.uint8)
            for bit in range(10):
                picture[40:140, 10 + 30 * bit : 36 + 30 * bit] = 255 * (number >> bit & 1)
            frame = av.VideoFrame.from_ndarray(picture, "rgb24")
            frame.pts, frame.time_base = number, 1 / rate
            container.mux(video.encode(frame))
        if sound:
            samples = av.AudioFrame.from_ndarray(beeps()[None], "s16", "mono")
            samples.sample_rate, samples.pts, samples.time_base = 48_000, 0, Fraction(1, 48_000)
            container.mux(sound.encode(samples))
        for stream in filter(None, (video, sound)):
            container.mux(stream.encode(None))


def beeps() -> np.ndarray:
    """Samples (n,) int16 at 48 kHz."""
    time = np.arange(SECONDS * 48_000) / 48_000
    return (0.3 * np.sin(2 * np.pi * 880 * time) * (time % 1 < 0.1) * 32767).astype(np.int16)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sessions, and beside the last a second camera with a late start and a fast clock; one with its sound in a
    file of its own; and one that has only words, and a camera beside them."""
    folder = tmp_path_factory.mktemp("played")
    for session, rate in RATES.items():
        write_counter(folder / f"media/{session}.webm", rate)
    write_counter(folder / "media/side.avi", Fraction(25), "mpeg4")
    write_counter(folder / "media/quiet.webm", Fraction(25), with_sound=False)
    write_wave(folder / "media/quiet.wav", beeps(), 48_000)
    said = {"speaker": "A", "start": 0.5, "end": 1, "text": "well"}
    (folder / "told.json").write_text(json.dumps({"utterances": [said]}))
    rows = "".join(f"{session},p{number},media/{session}.webm,,\n" for number, session in enumerate(RATES))
    (folder / "sessions.csv").write_text(
        f"session_id,participant_id,video,audio,transcript\n{rows}"
        "quiet,p3,media/quiet.webm,media/quiet.wav,\ntold,p4,,,told.json\n"
    )
    (folder / "schemes.csv").write_text("scheme,type\nmood,nominal\n")
    (folder / "labels.csv").write_text("session_id,scheme,value,start_s,end_s\ntold,mood,calm,0,4\n")
    (folder / "tracks.csv").write_text(
        'session_id,track,video,clock,region\ns29,side,media/side.avi,camera,\ns25,left,,,"0,0,0.5,1"\n'
        "told,cam,media/s25.webm,camera,\n"
    )
    moments = [(0.0, OFFSET_S), (1 + DRIFT_PPM * 1e-6, OFFSET_S + 1)]
    rows = "".join(f"{one},camera,{own},{session}\n" for one in ("s29", "told") for own, session in moments)
    (folder / "clocks.csv").write_text(f"session_id,clock,clock_s,session_s\n{rows}")
    config = folder / "storyframes.toml"
    config.write_text("[clips]\nwindow_s = 1\nstride_s = 1\n")
    create_store(folder / "features")
    outcomes = extract(folder, folder / "features", Selection(only=("frames", "opensmile")))
    statuses = Counter(outcome.status for outcome in outcomes.values())
    assert (statuses[Status.MISSING], statuses[Status.FAILED]) == (2, 0)
    indexed = run("index", folder, folder / "features", "--config", config)
    assert "no clips of told" in indexed.stderr, indexed.output  # it has no video
    plant_landmarks(folder / "features", "s25", round(SECONDS * 25))
    for site, options in (
        ("site", ("--points",)),
        ("linked", ("--proxy", folder / "proxies")),
        ("relative", ("--recordings", "relative")),
    ):
        made = run("report", folder, folder / "features", "--out", folder / site, *options)
        assert made.exit_code == 0, made.output
    return folder


def plant_landmarks(root: Path, session: str, frames: int) -> None:
    """OpenFace's landmarks, all in the middle of a picture's lower edge but number 0, which moves with the frames."""
    values = np.zeros((frames, 714), np.float32)
    for number in range(68):
        values[:, OPENFACE_COLUMNS.index(f"x_{number}")] = 160
        values[:, OPENFACE_COLUMNS.index(f"y_{number}")] = 170
    values[:, OPENFACE_COLUMNS.index("x_0")] = 20 + 2 * np.arange(frames)
    values[:, OPENFACE_COLUMNS.index("y_0")] = 20
    tracked = (np.arange(frames) % 2 == 0).astype(np.uint8)
    with FeatureWriter(local(root), session, FEATURES["openface"]) as out:
        out.write("values", values)
        out.write("valid", tracked)
        out.write("confidence", tracked.astype(np.float32))
        out.publish("planted", {})
    catalogue.compact(local(root))


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


def opened(browser: Any, study: Path, session: str, recording: str) -> Visit:
    """The page of a session in which the reader has chosen a recording, at its first frame."""
    visit = Visit(browser, study / f"site/sessions/{session}.html")
    visit.until("window.storyframesPlayer !== undefined")
    visit.page.evaluate(SHOWN)
    visit.page.set_input_files("#player-file", str(study / recording))
    visit.until("window.seen.length > 0 && window.storyframesPlayer.frame === 0")
    return visit


def cursor_s(visit: Visit, chart: str) -> float:
    """The second at which a timeline's cursor really is, from its place on the screen."""
    return visit.page.evaluate(f"cursorPlace(document.getElementById('{chart}'))")


def to_side(second: float) -> float:
    """The side camera's second of a second of the session."""
    return (second - OFFSET_S) * (1 + DRIFT_PPM * 1e-6)


def seen_frames(visit: Visit, rate: Fraction, *clocks: Callable[[float], float]) -> list[int]:
    """The frames that were shown since ``seen`` was emptied, each at most one from where every cursor was then.

    Args:
        clocks: of each timeline, from the seconds of the recording that is played.
    """
    seen = visit.page.evaluate("window.seen")
    for (shown, frame, second, cursors), (_, after, *_) in pairwise([*seen, seen[-1]]):
        # drawImage may already have the frame after the one whose callback runs; in a loop that is its first.
        assert abs(shown - frame) <= 1 or (after < frame and abs(shown - after) <= 1)
        assert second == pytest.approx(float(frame / rate), abs=1e-3)
        assert len(cursors) == len(clocks)
        for to_own, (cursor, place) in zip(clocks, cursors, strict=True):
            assert cursor == pytest.approx(to_own(second), abs=1e-6)
            assert place is None or place == pytest.approx(cursor, abs=0.005)  # out of sight, or there
    assert sum(cursors[0][1] is not None for *_, cursors in seen) > 3
    return [shown for shown, *_ in seen]


@pytest.mark.parametrize("session", [*(pytest.param(one, marks=pytest.mark.nightly) for one in ("s15", "s25")), "s29"])
def test_seeking_stepping_playing_and_looping_show_the_frame_that_the_page_says(
    browser: Any, study: Path, session: str
) -> None:
    rate = RATES[session]
    with opened(browser, study, session, f"media/{session}.webm") as visit:
        page = visit.page
        for frame in (round(2.5 * rate), 1, round(3.9 * rate)):
            page.evaluate(f"storyframesPlayer.seek({float((frame + 0.4) / rate)})")
            visit.until(f"storyframesPlayer.frame === {frame}")
            assert page.evaluate("shownNumber()") == frame
            assert cursor_s(visit, "timeline") == pytest.approx(float(frame / rate), abs=0.02)
        page.locator("h1").click()
        page.keyboard.press("ArrowLeft")
        visit.until(f"storyframesPlayer.frame === {frame - 1}")
        assert page.evaluate("shownNumber()") == frame - 1
        page.keyboard.press("Shift+ArrowLeft")
        visit.until(f"Math.abs(storyframesPlayer.frame - {float(frame - 1 - rate)}) <= 1")
        page.evaluate("storyframesPlayer.seek(0)")
        visit.until("storyframesPlayer.frame === 0")
        page.evaluate("window.seen = []")
        page.keyboard.press("Space")
        visit.until("storyframesPlayer.second > 1")
        page.keyboard.press("Space")
        clocks = [lambda second: second] + [to_side] * (session == "s29")
        assert max(seen_frames(visit, rate, *clocks)) >= rate - 1
        stop = float((round(1.8 * rate) + 0.5) / rate)  # in the middle of a frame
        page.evaluate(f"storyframesTimeline.jump(document.getElementById('timeline'), 1.2, {stop})")
        page.check("#player-loop")
        page.evaluate("storyframesPlayer.seek(1.5)")
        visit.until(f"Math.abs(storyframesPlayer.second - 1.5) < {float(1 / rate)}")
        page.evaluate(TURNS + "; window.seen = []; storyframesPlayer.toggle()")
        visit.until("window.turns.length > 2")
        shown = seen_frames(visit, rate, *clocks)
        assert min(shown) >= 1.2 * rate - 1
        turns = page.evaluate("window.turns")
        for earlier, second, after in turns:  # while the browser is idle it asks the page every sixtieth of a second
            assert earlier < stop + 0.01, "it went on after the page was asked beyond the end"
            assert stop - after - 0.01 < second
        assert max(shown) <= max(stop, *(second for _, second, _ in turns)) * rate + 1  # a video ends its frame
        assert visit.wrong == []


def test_a_loop_that_is_shorter_than_a_frame_begins_in_it(browser: Any, study: Path) -> None:
    """Not in the middle of the frame, which is beyond its end: it would turn back again and again."""
    with opened(browser, study, "s15", "media/s15.webm") as visit:
        page = visit.page
        page.evaluate("storyframesPlayer.track.times = Float64Array.of(0, 2, 3)")
        page.evaluate("storyframesTimeline.jump(document.getElementById('timeline'), 2.02, 2.22)")
        page.check("#player-loop")
        page.evaluate(TURNS + "; storyframesPlayer.toggle()")
        visit.until("window.turns.length > 3")
        for earlier, second, after in page.evaluate("window.turns.slice(1)"):
            assert earlier < 2.22 + 0.01
            assert 2.22 - after - 0.01 < second


def test_one_cursor_on_every_clock(browser: Any, study: Path) -> None:
    with opened(browser, study, "s29", "media/s29.webm") as visit:
        page = visit.page
        page.evaluate("storyframesPlayer.seek(3)")
        visit.until("storyframesPlayer.second > 2.9")
        second = page.evaluate("storyframesPlayer.second")
        assert cursor_s(visit, "timeline") == pytest.approx(second, abs=0.02)
        of_side = to_side(second)
        assert cursor_s(visit, "timeline-2") == pytest.approx(of_side, abs=0.02)
        exactly = page.evaluate("Number(document.querySelector('#timeline-2 .cursor').dataset.second)")
        assert exactly == pytest.approx(of_side, abs=1e-6)
        # It stays there while the timeline moves.
        page.evaluate("storyframesTimeline.move(document.getElementById('timeline'), 2, 4)")
        visit.until("document.querySelector('#timeline .moving')?.width > 300")
        x, width = page.evaluate(
            "['#timeline .cursor', '#timeline .moving'].map(one => document.querySelector(one).getBoundingClientRect())"
            ".map((one, at, [, plot]) => at ? one.width : one.left + one.width / 2 - plot.left)"
        )
        assert 2 + 2 * x / width == pytest.approx(second, abs=0.02)
        # A click into the other camera's timeline goes to that moment of this recording.
        x = page.evaluate(
            "(() => { const { xaxis } = document.getElementById('timeline-2')._fullLayout;"
            "return xaxis._offset + xaxis.l2p(2); })()"
        )
        page.locator("#timeline-2").click(position={"x": x, "y": 60})
        wanted = OFFSET_S + 2 / (1 + DRIFT_PPM * 1e-6)
        visit.until(f"Math.abs(storyframesPlayer.second - {wanted}) < 1 / 29")
        assert page.evaluate("shownNumber()") == page.evaluate("storyframesPlayer.frame")


def test_a_timeline_without_a_recording_has_the_cursor_of_the_others(browser: Any, study: Path) -> None:
    with opened(browser, study, "told", "media/s25.webm") as visit:
        visit.page.evaluate("storyframesPlayer.seek(2.02)")
        visit.until("storyframesPlayer.frame === 50")
        assert cursor_s(visit, "timeline-2") == pytest.approx(2, abs=0.02)
        assert cursor_s(visit, "timeline") == pytest.approx(2 / (1 + DRIFT_PPM * 1e-6) + OFFSET_S, abs=0.02)
        visit.page.evaluate("window.seen = []; storyframesPlayer.toggle()")
        visit.until("storyframesPlayer.second > 3")
        own = (lambda second: second / (1 + DRIFT_PPM * 1e-6) + OFFSET_S, lambda second: second)
        assert max(seen_frames(visit, RATES["s25"], *own)) >= 74


def test_a_sound_file_beside_the_video_is_heard_with_it(browser: Any, study: Path) -> None:
    with Visit(browser, study / "relative/sessions/quiet.html") as visit:
        page = visit.page
        visit.until("window.storyframesPlayer && storyframesPlayer.frame === 0")
        assert page.evaluate("storyframesPlayer.sound.currentSrc").endswith("media/quiet.wav")
        assert page.evaluate("[storyframesPlayer.video.muted, storyframesPlayer.sound.muted]") == [True, False]
        page.evaluate("storyframesPlayer.seek(2.02)")
        visit.until("storyframesPlayer.frame === 50 && Math.abs(storyframesPlayer.sound.currentTime - 2) < 0.02")
        page.locator("h1").click()
        page.keyboard.press("Space")
        visit.until("!storyframesPlayer.sound.paused && storyframesPlayer.sound.currentTime > 2.3")
        apart = "Math.abs(storyframesPlayer.sound.currentTime - storyframesPlayer.second)"
        visit.until(f"{apart} < 0.2")
        page.keyboard.press("Space")
        visit.until("storyframesPlayer.sound.paused")
        page.get_by_label("The sound file in place").uncheck()
        assert page.evaluate("[storyframesPlayer.video.muted, storyframesPlayer.sound.muted]") == [False, True]
        page.set_input_files("#player-file", [str(study / "media/quiet.wav"), str(study / "media/quiet.webm")])
        visit.until("storyframesPlayer.pictures && storyframesPlayer.sound.src.startsWith('blob:')")
        assert visit.wrong == []


def test_files_that_are_dropped_are_played_and_at_the_speed_that_was_chosen(browser: Any, study: Path) -> None:
    with Visit(browser, study / "site/sessions/quiet.html") as visit:
        page = visit.page
        visit.until("window.storyframesPlayer !== undefined")
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<input type=file id=carried multiple>')")
        page.set_input_files("#carried", [str(study / "media/quiet.wav"), str(study / "media/quiet.webm")])
        page.evaluate("""() => {
            const dataTransfer = new DataTransfer();
            for (const file of document.getElementById('carried').files) dataTransfer.items.add(file);
            const drop = new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true });
            document.getElementById('player').dispatchEvent(drop);
            window.kept = drop.defaultPrevented;
        }""")
        visit.until("storyframesPlayer.pictures && storyframesPlayer.frame === 0")
        assert page.evaluate("window.kept")  # else the browser would leave the page for the file
        assert page.evaluate("storyframesPlayer.sound.src").startswith("blob:")
        assert page.evaluate("[storyframesPlayer.video.muted, storyframesPlayer.sound.muted]") == [True, False]
        page.select_option("#player-speed", "0.5")
        page.evaluate("storyframesPlayer.toggle()")
        visit.until("storyframesPlayer.second > 0.5")
        rates = page.evaluate("[storyframesPlayer.video.playbackRate, storyframesPlayer.sound.playbackRate]")
        assert rates[0] == 0.5
        assert rates[1] == pytest.approx(0.5, rel=0.1)  # the sound hurries or waits a little to stay with the video
        page.set_input_files("#player-file", str(study / "media/s25.webm"))
        visit.until("storyframesPlayer.pictures && storyframesPlayer.sound.paused")
        assert page.evaluate("storyframesPlayer.video.playbackRate") == 0.5  # of the next file, too
        assert visit.wrong == []


def test_landmarks_and_regions_are_drawn_over_the_frame_that_is_shown(browser: Any, study: Path) -> None:
    with opened(browser, study, "s25", "media/s25.webm") as visit:
        page = visit.page
        page.click("#player-draw")
        visit.until("storyframesPlayer.points !== undefined")
        assert page.locator("#player-points label:visible").all_text_contents() == [" landmarks", " left"]
        for frame, colour in ((60, [0, 220, 0]), (61, [128, 128, 128])):  # no measurement: grey
            page.evaluate(f"storyframesPlayer.seek({(frame + 0.4) / 25})")
            visit.until(f"storyframesPlayer.frame === {frame}")
            x, y = 20 + 2 * frame, 20
            assert drawn_at(page, x, y) == colour
            assert drawn_at(page, x + 12, y) is None
        assert drawn_at(page, 160, 90) == [86, 180, 233]  # the right edge of the left half
        assert visit.violations() == []
        page.get_by_label("landmarks").uncheck()
        assert drawn_at(page, x, y) is None
        assert [one for one in visit.wrong if "willReadFrequently" not in one] == []  # of this test's own reading


def drawn_at(page: Any, x: int, y: int) -> list[int] | None:
    """The colour that is drawn at a pixel of the recording; None where nothing is."""
    return page.evaluate(
        """([x, y]) => {
            const canvas = document.querySelector('#stage canvas'), zoom = canvas.width / 320;
            const [r, g, b, a] = canvas.getContext('2d').getImageData(x * zoom, y * zoom, 1, 1).data;
            return a > 127 ? [r, g, b] : null;
        }""",
        [x, y],
    )


def test_what_no_browser_plays_is_said_and_its_copy_has_the_same_frames(browser: Any, study: Path) -> None:
    with Visit(browser, study / "linked/sessions/s29.html") as visit:
        page = visit.page
        visit.until("window.storyframesPlayer && storyframesPlayer.loaded")  # the linked copy
        page.set_input_files("#player-file", str(study / "media/side.avi"))
        visit.until("document.getElementById('player-message').textContent.includes('no AVI')")
        page.select_option("#player-track", label="side")
        visit.until("storyframesPlayer.loaded && storyframesPlayer.track.name === 'side'")
        page.set_input_files("#player-file", str(study / "proxies/s29@side.mp4"))
        visit.until("storyframesPlayer.loaded && storyframesPlayer.video.currentSrc.startsWith('blob:')")
        page.evaluate(SHOWN)
        page.evaluate("storyframesPlayer.seek(2.02)")
        visit.until("storyframesPlayer.frame === 50")
        assert page.evaluate("shownNumber()") == 50
        assert page.locator("#player-message").text_content() == ""
    for copy in (study / "proxies").iterdir():
        assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(copy.name for copy in (study / "proxies").iterdir()) == [
        "quiet.mp4", "s15.mp4", "s25.mp4", "s29.mp4", "s29@side.mp4", "told@cam.mp4",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["site", "linked", "relative"])
def test_a_page_has_no_pixel_and_no_sample(study: Path, name: str) -> None:
    site = study / name
    assert {path.suffix for path in site.rglob("*") if path.is_file()} <= {".html", ".js", ".css", ".txt", ""}
    assert all(b"data:image" not in page.read_bytes() for page in site.rglob("*.html"))


def test_a_folder_of_copies_inside_the_report_is_refused(study: Path) -> None:
    refused = run("report", study, study / "features", "--out", study / "site", "--proxy", study / "site/copies")
    assert refused.exit_code == 2
    assert "is in the report" in " ".join(refused.output.split())


@pytest.mark.needs("rerun")
def test_the_rerun_recording_beeps_at_each_second_of_its_tracks(study: Path, tmp_path: Path) -> None:
    from rerun.chunk import RrdReader

    for session, begins in (("s29", {"/sound": 0.0, "/side/sound": OFFSET_S}), ("quiet", {"/sound": 0.0})):
        out = tmp_path / f"{session}.rrd"
        assert run("view", study, study / "features", session, "--out", out).exit_code == 0
        chunks = [chunk for chunk in RrdReader(out).stream().to_chunks() if chunk.entity_path.endswith("sound")]
        assert {chunk.entity_path for chunk in chunks} == set(begins)
        for chunk in chunks:
            table = chunk.to_record_batch()
            assert table["time"][0].as_py().total_seconds() == pytest.approx(begins[chunk.entity_path])
            (content,) = (table[name] for name in table.schema.names if name.endswith("blob"))
            with av.open(io.BytesIO(bytes(content[0].as_py()[0]))) as flac:
                samples = np.concatenate([frame.to_ndarray().ravel() for frame in flac.decode(audio=0)])
            (loud,) = np.nonzero(np.abs(samples) > 600)
            starts = loud[np.diff(loud, prepend=-9000) > 8000] / 16_000
            np.testing.assert_allclose(starts, np.arange(SECONDS), atol=0.01)


@pytest.mark.parametrize("go", ["storyframesPlayer.seek(2.02)", "storyframesPlayer.video.currentTime = 2.02"])
def test_going_elsewhere_before_the_first_frame_is_shown_moves_no_clock(browser: Any, study: Path, go: str) -> None:
    with Visit(browser, study / "site/sessions/s25.html") as visit:
        page = visit.page
        visit.until("window.storyframesPlayer !== undefined")
        page.evaluate(SHOWN)
        page.evaluate(f"storyframesPlayer.video.addEventListener('loadedmetadata', () => {{ {go}; }})")
        page.set_input_files("#player-file", str(study / "media/s25.webm"))
        visit.until("storyframesPlayer.frame === 50")
        assert page.evaluate("shownNumber()") == 50


def test_a_loop_to_the_recordings_end_begins_again_and_a_picture_that_cannot_be_shown_is_said(
    browser: Any, study: Path, tmp_path: Path
) -> None:
    write_counter(tmp_path / "s25.mkv", Fraction(25), "mpeg4")
    with opened(browser, study, "s25", "media/s25.webm") as visit:
        page = visit.page
        page.check("#player-loop")
        page.evaluate("storyframesPlayer.seek(3.8)")
        visit.until("storyframesPlayer.frame === 95")
        page.evaluate("storyframesPlayer.toggle()")
        visit.until("storyframesPlayer.frame < 50 && !storyframesPlayer.video.paused")
        page.set_input_files("#player-file", str(tmp_path / "s25.mkv"))
        visit.until("document.getElementById('player-message').textContent.includes('plays only its sound')")


def test_a_copy_is_of_the_files_that_the_study_names_now(tmp_path: Path) -> None:
    for name, seconds in (("old", 1), ("new", 2)):
        write_video(tmp_path / f"{name}.avi", "mpeg4", [40 * frame for frame in range(25 * seconds)])
        os.utime(tmp_path / f"{name}.avi", (0, 0))  # older than any copy
        write_preview(tmp_path / f"{name}.avi", None, tmp_path / "s1.mp4")
        made = (tmp_path / "s1.mp4").stat().st_mtime_ns
        write_preview(tmp_path / f"{name}.avi", None, tmp_path / "s1.mp4")
        assert (tmp_path / "s1.mp4").stat().st_mtime_ns == made
        with av.open(str(tmp_path / "s1.mp4")) as copy:
            assert sum(1 for _ in copy.decode(video=0)) == 25 * seconds


def test_two_reports_at_once_make_a_copy_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither writes into the file of the other; the second waits, and finds the first one's copy."""
    write_video(tmp_path / "s1.avi", "mpeg4", [40 * frame for frame in range(25)])
    (tmp_path / "copies").mkdir()
    both_begin, made_of, write, made = Barrier(2), previews._made_of, previews._write, []

    def begin(*arguments: Any) -> str:
        both_begin.wait(HANG_S)
        return made_of(*arguments)

    def counted(*arguments: Any) -> None:
        made.append(arguments)
        write(*arguments)

    monkeypatch.setattr(previews, "_made_of", begin)
    monkeypatch.setattr(previews, "_write", counted)
    with ThreadPoolExecutor() as two:
        list(two.map(lambda _: write_preview(tmp_path / "s1.avi", None, tmp_path / "copies/s1.mp4"), range(2)))
    assert len(made) == 1
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["s1.mp4"]
    with av.open(str(tmp_path / "copies/s1.mp4")) as copy:
        assert sum(1 for _ in copy.decode(video=0)) == 25
