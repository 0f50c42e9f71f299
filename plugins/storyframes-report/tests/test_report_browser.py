"""The report in a real browser: Debian's Chromium, headless, opened from disk."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from study_pages import write_study_page
from support.messages import missing
from support.pages.browser import Visit, chromium
from support.pages.page_data import page_data
from support.stores import local

from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Status
from storyframes_report.report.chart import CARTESIAN
from tasks.study.load import load_study

pytestmark = pytest.mark.slow
HOSTILE = "<script>window.hacked=1</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def site(extracted_demo, tmp_path_factory) -> Path:
    """The demo's report, with a hostile folder, speaker and text, and everything disclosed."""
    from flows.settings import load_settings
    from storyframes_report import Disclosure
    from storyframes_report.report.session_page import ReportOptions
    from storyframes_report.report.site import build_report

    demo, result = extracted_demo
    assert result.returncode == 0, result.stderr
    study = tmp_path_factory.mktemp("hostile") / "<img src=x onerror=window.hacked=1>"
    shutil.copytree(demo / "study", study)
    transcript = study / "transcripts/p01-s01.json"
    content = json.loads(transcript.read_text())
    for utterance in content["utterances"]:
        utterance["speaker"] = HOSTILE
        utterance["text"] = f"</script>{HOSTILE}<b>bold</b>"
        del utterance["words"]
    transcript.write_text(json.dumps(content))
    out = tmp_path_factory.mktemp("browser") / "site"
    store, settings = FeatureStore(demo / "features"), load_settings(demo / "storyframes.toml")
    build_report(load_study(study), store, settings, out, ReportOptions(Disclosure(text=True, video=True)))
    return out


@pytest.mark.parametrize("page", ["index.html", "sessions/p02-s01.html"])
@pytest.mark.parametrize(("width", "touch", "scheme"), [(1280, False, "dark"), (390, True, "light")])
def test_pages_open_without_an_error_and_fit_and_nothing_covers_data(
    browser, site: Path, page: str, width: int, touch: bool, scheme: str
) -> None:
    with Visit(browser, site / page, width=width, scheme=scheme, touch=touch) as visit:
        assert visit.wrong == []
        assert all(url.startswith(("file:", "data:", "blob:")) for url in visit.requests)
        assert int(visit.page.evaluate("document.documentElement.dataset.drawn")) >= 1
        assert visit.page.locator(".plot .main-svg").count() >= 1
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        ink = visit.page.evaluate("getComputedStyle(document.body).color")
        drawn = visit.page.evaluate("getComputedStyle(document.querySelector('.xtick text')).fill")
        assert ink == drawn == ("rgb(27, 29, 34)" if scheme == "light" else "rgb(236, 238, 242)")
        described = visit.page.evaluate(
            "[...document.querySelectorAll('.plot')]"
            ".map(plot => document.getElementById(plot.getAttribute('aria-describedby')).textContent)"
        )
        assert all(len(text) > 10 for text in described)
        assert visit.page.evaluate("document.getAnimations().length") == 0  # nothing moves by itself
        tables = "document.querySelectorAll('figure.chart:not(:has(details table))').length"
        assert visit.page.evaluate(tables) == 0  # behind each chart are its numbers
        wide = visit.page.evaluate(
            "[...document.querySelectorAll('table')].filter(one => one.offsetWidth > one.parentElement.clientWidth)"
            ".filter(one => getComputedStyle(one.parentElement).overflowX !== 'auto').map(one => one.innerText)"
        )
        assert wide == []  # tables scroll
        assert visit.violations() == []
        plots = visit.page.locator(".plot")
        for number in range(plots.count()):
            (plots.nth(number).tap if touch else plots.nth(number).hover)()
        assert visit.page.locator(".modebar").count() == 0
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        if width == 1280:
            check_paper(visit)
            visit.page.set_viewport_size({"width": 768, "height": 900})
            visit.until("document.documentElement.scrollWidth <= 768")


def check_paper(visit: Visit) -> None:
    """On paper it is light and nothing is cut, whatever the screen: A4 with margins of a centimetre."""
    paper = 718
    visit.page.emulate_media(media="print", color_scheme="dark")
    visit.page.wait_for_selector("html.paper .xtick text[style*='27, 29, 34']", state="attached")
    ends = visit.page.evaluate(
        "[...document.querySelectorAll('.main-svg, table, p, img')].map(one => one.getBoundingClientRect())"
        ".map(box => Math.round(box.right - document.body.getBoundingClientRect().left))"
    )
    assert max(ends) <= paper
    assert visit.page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 29, 34)"
    assert visit.page.evaluate("getComputedStyle(document.querySelector('.xtick text')).fill") == "rgb(27, 29, 34)"
    assert visit.page.locator(".controls:visible, nav:visible, select:visible").count() == 0
    visit.page.emulate_media(media="screen", color_scheme="dark")
    visit.page.wait_for_selector("html:not(.paper) .xtick text[style*='236, 238, 242']", state="attached")
    drawn, holder = visit.page.evaluate("['.main-svg', '.plot'].map(one => document.querySelector(one).clientWidth)")
    assert drawn == holder
    assert visit.wrong == []


def test_zoom_by_keyboard_by_buttons_and_by_mouse(browser, site: Path) -> None:
    with Visit(browser, site / "sessions/p02-s01.html") as visit:
        page = visit.page
        whole = visit.range()
        page.locator("#timeline").focus()
        page.keyboard.press("+")
        visit.until("document.getElementById('timeline').layout.xaxis.range[0] > 1")
        start, stop = visit.range()
        assert stop - start == pytest.approx((whole[1] - whole[0]) / 2)
        page.keyboard.press("ArrowRight")
        visit.until(f"document.getElementById('timeline').layout.xaxis.range[0] > {start + 0.1}")
        page.keyboard.press("0")
        visit.until("document.getElementById('timeline').layout.xaxis.range[0] < 0.1")
        assert visit.range() == pytest.approx(whole)
        page.get_by_role("button", name="Zoom in").first.click()
        visit.until("document.getElementById('timeline').layout.xaxis.range[0] > 1")
        page.get_by_role("button", name="Show all").first.click()
        visit.until("document.getElementById('timeline').layout.xaxis.range[0] < 0.1")
        box = page.locator("#timeline .nsewdrag").nth(3).bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2, steps=5)
        page.mouse.up()
        visit.until("document.getElementById('timeline').layout.xaxis.range[0] > 1")
        start, stop = visit.range()
        assert start == pytest.approx(whole[1] / 4, abs=0.5)
        assert stop == pytest.approx(whole[1] / 2, abs=0.5)
        # While a mouse with shift takes it along it is drawn on a canvas, as plotly draws it when it rests there.
        page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] / 2)
        page.keyboard.down("Shift")
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] / 2, steps=3)
        visit.until("document.querySelector('#timeline .moving')?.width > 300")
        moved = picture_of(visit)
        page.mouse.up()
        page.keyboard.up("Shift")
        visit.until("document.querySelector('#timeline .moving') === null")
        width = stop - start
        assert visit.range() == pytest.approx([start + 0.3 * width, stop + 0.3 * width], abs=0.1)
        at_rest = picture_of(visit)
        page.keyboard.press("ArrowRight")
        visit.until("document.querySelector('#timeline .moving') === null")
        elsewhere = picture_of(visit)
        assert np.abs(moved - at_rest).mean() < 0.2 * np.abs(elsewhere - at_rest).mean()
        page.keyboard.down("Control")
        page.mouse.wheel(0, -200)
        page.keyboard.up("Control")
        visit.until("document.querySelector('#timeline .moving') === null")
        start, stop = visit.range()
        assert stop - start < 0.6 * width
        page.mouse.wheel(40, 0)  # sideways
        visit.until(f"document.getElementById('timeline').layout.xaxis.range[0] > {start}")
        # One time axis: every row is zoomed with it.
        assert page.evaluate("document.getElementById('timeline').data.every(t => (t.xaxis || 'x') === 'x')")
        assert visit.wrong == []


def picture_of(visit: Visit) -> np.ndarray:
    """The rows of the timeline that are on the screen, without their titles and scales."""
    left, width = visit.page.evaluate(
        "(() => { const one = document.getElementById('timeline'), { _offset, _length } = one._fullLayout.xaxis;"
        "return [one.getBoundingClientRect().left + _offset, _length]; })()"
    )
    picture = visit.page.screenshot(clip={"x": left + 1, "y": 100, "width": width - 2, "height": 790})
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"), np.float64)


def test_what_is_drawn_are_the_numbers_that_the_page_carries(browser, site: Path) -> None:
    path = site / "sessions/p02-s01.html"
    traces = page_data(path.read_text(), "timeline-figure")["data"]
    carried = [
        (number, key) for number, trace in enumerate(traces) for key in "xyz" if hasattr(trace.get(key), "shape")
    ]
    assert {key for _, key in carried} == {"x", "y", "z"}
    with Visit(browser, path) as visit:
        assert set(visit.page.evaluate("Object.keys(Plotly.PlotSchema.get().traces)")) == CARTESIAN  # the bundle's
        for number, key in carried:
            drawn = visit.page.evaluate(
                "([number, key]) => Array.from(document.getElementById('timeline').data[number][key], one =>"
                " ArrayBuffer.isView(one) ? Array.from(one, String) : String(one))",
                [number, key],
            )
            np.testing.assert_array_equal(np.array(drawn, np.float64), traces[number][key])


def drawn_boxes(visit: Visit) -> list[float]:
    """The seconds at which a word's box begins on the canvas over the first speaker's bar, at a pixel or better."""
    return visit.page.evaluate(
        """() => {
            const canvas = document.querySelector('#timeline .words'), { width, height } = canvas;
            const { xaxis, yaxis } = document.getElementById('timeline')._fullLayout;
            const row = Math.round(yaxis.d2p('participant') - 9);  // above the texts
            const { data } = canvas.getContext('2d').getImageData(0, row, width, 1), starts = [];
            const filled = (x) => data[4 * x + 3] > 20;
            for (let x = 1; x < width; x++) if (filled(x) && !filled(x - 1)) starts.push(xaxis.p2l(x));
            return starts;
        }"""
    )


def test_words_are_drawn_at_their_times_where_there_is_room(browser, site: Path, extracted_demo) -> None:
    said = json.loads((extracted_demo[0] / "study/transcripts/p02-s01.json").read_text())["utterances"]
    starts = [word["start_s"] for one in said if one["speaker"] == "participant" for word in one["words"]]
    first = min(start for start in starts if start > 1)
    zoom = f"storyframesTimeline.jump(document.getElementById('timeline'), {first - 0.2}, {first + 2})"
    expected = [start for start in starts if first - 0.2 < start < first + 2]
    assert len(expected) >= 3
    with Visit(browser, site / "sessions/p02-s01.html") as visit:
        assert drawn_boxes(visit)
        visit.page.evaluate(zoom)
        assert drawn_boxes(visit) == pytest.approx(expected, abs=0.02)
        visit.page.evaluate("storyframesTimeline.move(document.getElementById('timeline'), 0, 100)")
        visit.until("document.querySelector('#timeline .moving') === null")
        assert drawn_boxes(visit)
        assert [one for one in visit.wrong if "willReadFrequently" not in one] == []  # of this test's own reading


def test_a_window_is_chosen_by_list_and_by_click(browser, site: Path) -> None:
    with Visit(browser, site / "sessions/p02-s01.html") as visit:
        page = visit.page
        assert page.locator("#window option").count() == 7
        page.select_option("#window", "0")
        about = page.locator("#window-about")
        assert "story_share" in about.text_content()
        assert "empathy" in about.text_content()
        assert page.evaluate("document.getElementById('timeline').layout.shapes.length") == 1
        page.get_by_role("button", name="Zoom to it").click()
        visit.until("document.getElementById('timeline').layout.xaxis.range[1] < 20")
        page.get_by_role("button", name="Show all").first.click()
        visit.until("document.getElementById('timeline').layout.xaxis.range[1] > 20")
        box = page.locator("#timeline .trace.bars .point").nth(-1).bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        visit.until("document.getElementById('window').value === '5'")
        assert "reflection" in about.text_content()


def test_hostile_names_and_texts_are_only_text(browser, site: Path) -> None:
    for name in ("index.html", "sessions/p01-s01.html"):
        with Visit(browser, site / name) as visit:
            page = visit.page
            if name != "index.html":
                axis = page.locator("#timeline .ytick text").all_text_contents()
                assert "speaker_1" in axis  # a name of a transcript is on no page
                assert HOSTILE not in axis
                assert f"</script>{HOSTILE}<b>bold</b>" in page.locator("#transcript").text_content()
                box = page.locator("#timeline .nsewdrag").nth(0).bounding_box()
                page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.8)
                page.wait_for_selector("#timeline .hoverlayer .hovertext")
                assert HOSTILE in page.locator("#timeline .hoverlayer").text_content()
                pictures = (
                    "[...document.querySelectorAll('.pictures img')].map(i => [i.naturalWidth, i.alt.slice(-38)])"
                )
                assert page.evaluate(pictures) == [[320, "p01-s01 with what was found drawn on it"[-38:]]] * 8
            assert "<img src=x onerror=window.hacked=1>" in page.locator("header").text_content()
            assert page.evaluate("window.hacked") is None
            assert page.locator("img[onerror]").count() == 0
            assert visit.wrong == []


def test_a_finding_leads_to_its_time(browser, demo_study: Path, store_root: Path, tmp_path: Path) -> None:
    from storyframes_report.report.site import build_report
    from tasks.extractors.registry import ExtractorsSettings

    tracked = np.ones(300, np.uint8)
    tracked[90:180] = 0
    with FeatureWriter(local(store_root), "p01-s01", FEATURES["frames"]) as out:
        out.write("time", np.arange(300) / 15)
        out.publish("f", {})
    with FeatureWriter(local(store_root), "p01-s01", FEATURES["openface"]) as out:
        out.write("values", np.zeros((300, 714), np.float32))
        out.write("valid", tracked)
        out.write("confidence", tracked.astype(np.float32))
        out.publish("f", {})
    catalogue.compact(local(store_root))
    summary = build_report(load_study(demo_study), FeatureStore(store_root), ExtractorsSettings(), tmp_path / "site")
    assert summary.findings["p01-s01"] == 1
    with Visit(browser, tmp_path / "site/index.html") as visit:
        described = visit.page.locator("#findings-by-rule-alt").text_content()
        assert not missing(described, "3 sessions", "face lost in 1")
        assert visit.page.locator("#findings-by-rule .main-svg .point").count() == 1
        visit.page.get_by_role("link", name="p01-s01 6.00 – 12.00 s").click()
        visit.page.wait_for_selector("html[data-drawn] #timeline")
        assert visit.range() == pytest.approx([4.5, 13.5])
        visit.page.get_by_role("button", name="Show all").click()
        visit.until("document.getElementById('timeline').layout.xaxis.range[0] < 1")
        visit.page.get_by_role("button", name="6.00 to 12.00 s: face lost").click()
        visit.until("document.getElementById('timeline').layout.xaxis.range[0] > 1")
        assert visit.range() == pytest.approx([4.5, 13.5])
        assert visit.wrong == []


def test_long_names_and_reasons_fit_a_phone(browser, store_root: Path, tmp_path: Path) -> None:
    """And hide nothing: the features can be scrolled to beside the id that stays."""
    from storyframes_report.report.site import build_report
    from tasks.extractors.registry import ExtractorsSettings

    (tmp_path / "study").mkdir()
    name = "s" * 64
    (tmp_path / "study/sessions.csv").write_text(f"session_id,participant_id,video\n{name},{'p' * 64},a.avi\n")
    record_attempt(local(store_root), name, "openface", Status.FAILED, f"/home/who/{'x' * 300}.avi: broke", "")
    catalogue.compact(local(store_root))
    study, store = load_study(tmp_path / "study"), FeatureStore(store_root)
    build_report(study, store, ExtractorsSettings(), tmp_path / "site")
    for page in ("index.html", f"sessions/{name}.html"):
        assert "/home/who" not in (tmp_path / "site" / page).read_text()
        with Visit(browser, tmp_path / "site" / page, width=390, touch=True) as visit:
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
            if page == "index.html":
                assert visit.page.locator("#table tbody th").bounding_box()["width"] < 390 / 2
            assert visit.wrong == []


def test_a_session_of_several_tracks(browser, tmp_path: Path) -> None:
    """Every track has a timeline of its own; a finding leads to its time on the one of its track."""
    from support.pairs import write_group

    from storyframes_report.report.site import build_report
    from tasks.extractors.registry import ExtractorsSettings

    folder = write_group(tmp_path)
    study, store = load_study(folder / "study"), FeatureStore(folder / "features")
    build_report(study, store, ExtractorsSettings(), tmp_path / "site")
    with Visit(browser, tmp_path / "site/sessions/s0001.html") as visit:
        page = visit.page
        assert page.locator(".plot.timeline .main-svg").count() >= 3
        whole = visit.range()
        child = visit.range("timeline-3")
        page.evaluate("Plotly.relayout('timeline-3', {'xaxis.range': [0, 0.5]})")
        assert visit.range("timeline-3") == [0, 0.5]
        page.get_by_role("button", name="1.72 to 2.72 s of child_b").click()
        visit.until("document.getElementById('timeline-3').layout.xaxis.range[1] > 2")
        assert visit.range("timeline-3") == pytest.approx(child)  # a second before and after it, as far as there is
        assert visit.range() == whole
        page.get_by_role("link", name="child_b").first.click()
        visit.until("location.hash === '#track-3'")
        assert visit.wrong == []
    with Visit(browser, tmp_path / "site/sessions/s0001.html", width=390, touch=True) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert visit.wrong == []


def test_of_many_sessions_only_the_rows_in_sight_are_in_the_page(browser, store_root: Path, tmp_path: Path) -> None:
    """They are sorted, filtered, chosen with the keyboard, reached from the map, and all printed."""
    write_study_page(store_root, tmp_path / "site", 269)
    with Visit(browser, tmp_path / "site/index.html") as visit:
        page, rows = visit.page, visit.page.locator("#table tbody tr[aria-rowindex]")
        names = page.locator("#table tbody th")
        assert names.first.text_content() == "p000-s0000"
        assert rows.count() < 40
        assert "– not asked for" in rows.first.locator("td").all_text_contents()
        cells = page.locator("#table tbody td:not(.text)")  # reasons may be longer than their column
        assert cells.evaluate_all("all => all.filter((one) => one.scrollWidth > one.clientWidth).length") == 0
        assert page.locator("#table table").get_attribute("aria-rowcount") == "270"
        assert page.evaluate("document.documentElement.scrollHeight") < 6000
        page.get_by_role("button", name="session", exact=True).click()
        page.get_by_role("button", name="session", exact=True).click()
        assert names.first.text_content() == "p038-s0268"
        assert page.locator("#table th[aria-sort=descending]").text_content() == "session"
        page.locator("#table").focus()
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.textContent") == "p038-s0268"
        page.keyboard.press("End")
        assert page.evaluate("document.activeElement.textContent") == "p000-s0000"
        assert rows.count() < 40
        page.keyboard.press("ArrowUp")
        assert page.evaluate("document.activeElement.getAttribute('href')") == "sessions/p000-s0001.html"
        page.fill("#table-filter", "s0042.avi is missing")
        assert (rows.count(), page.locator("#table-count").text_content()) == (1, "1 of 269")
        box = page.locator("#map canvas").bounding_box()
        page.mouse.click(box["x"] + box["width"] * 200.5 / 269, box["y"] + 20)
        assert page.evaluate("document.activeElement.textContent") == "p028-s0200"
        assert page.locator("#map canvas").get_attribute("title").startswith("p028-s0200: openface")
        page.emulate_media(media="print")
        page.wait_for_selector("#table tr[aria-rowindex='270']", state="attached")
        assert rows.count() == 269
        wide = page.evaluate("['#table table', '#table'].map(one => document.querySelector(one).offsetWidth)")
        assert wide[0] <= wide[1]
        page.emulate_media(media="screen")
        page.wait_for_selector("#table tr[aria-rowindex='270']", state="detached")
        assert "1 of 39 participants, most of all p000 by loudness (dB): -13" in page.locator("#people").text_content()
        page.set_viewport_size({"width": 390, "height": 900})
        visit.until("document.documentElement.scrollWidth <= 390")
        page.evaluate("location.hash = '#show=p007-s0051'")
        page.wait_for_selector("#table tbody tr:only-child th")
        assert names.first.text_content() == "p007-s0051"
        assert visit.wrong == []
