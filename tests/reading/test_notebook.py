"""What a notebook shows: nothing private, everything escaped, the same each time; and plots."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from support.messages import naming
from support.synthetic_features import StudySpec, write_features

from storyframes import ClipDataset, FeatureStore
from storyframes.features import FEATURES
from storyframes.installation import install_line
from storyframes.notebook import HEIGHT, WIDTH, html_table, strip
from storyframes.one_file import ExtractedFile
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    folder = tmp_path_factory.mktemp("Ada-Lovelace") / "features"
    return FeatureStore(write_features(folder, StudySpec(sessions=2)).root)


def cells(html: str) -> list[list[str]]:
    """The cells of all tables; that the HTML is well formed is seen on the way."""
    return [
        ["".join(cell.itertext()) for cell in row] for row in ElementTree.fromstring(f"<div>{html}</div>").iter("tr")
    ]


def test_a_store_a_session_and_a_dataset_have_tables_without_ids_and_folders(store: FeatureStore) -> None:
    assert ["openface", "2", ""] in cells(store._repr_html_())
    session = store.session("s00")
    measured = store.read("s00", "openface", array="valid").mean()
    assert ["openface", f"{len(store.read('s00', 'openface')):,} × frame", "716", f"{measured:.0%}", ""] in cells(
        session._repr_html_()
    )
    dataset = ClipDataset(store, ["openface", "label"])
    shown = cells(dataset._repr_html_())
    assert ["openface", "(13, 714)", "float32", ""] in shown
    assert ["empathy", "ordinal", f"{len(dataset):,}", ""] in shown
    for one in (store, session, dataset):
        html = one._repr_html_()
        assert html == one._repr_html_()
        assert "Ada" not in html
        assert "s00" not in html
        assert len(html) < 60_000


def test_what_is_extracted_of_a_file_says_neither_its_name_nor_why_it_failed(store: FeatureStore) -> None:
    view = ExtractedFile(store, "s00", "Ada.avi", ["openface"], ["openface"], {"<b>glove": "Ada.avi has no words"})
    html = view._repr_html_()
    assert [row[0] for row in cells(html)] == ["feature", "openface"]
    assert "failed: &lt;b&gt;glove;" in html
    assert "Ada" not in html


def test_all_but_drawings_is_escaped_and_a_strip_is_as_high_as_its_shares() -> None:
    html = html_table("<i>", ["<b>"], [["<script>", strip(np.array([1, 0, 0.5]))]], ["a & b"])
    assert "<script>" not in html
    assert cells(html) == [["<b>"], ["<script>", ""]]
    _, group = ElementTree.fromstring(strip(np.array([1, 0, 0.5])))
    bars = [{name: float(value) for name, value in bar.attrib.items()} for bar in group]
    assert [bar["height"] for bar in bars] == [HEIGHT, HEIGHT / 2]
    assert [bar["x"] for bar in bars] == [0, pytest.approx(WIDTH * 2 / 3, abs=0.1)]
    assert strip(np.zeros(0)) == ""
    assert strip(np.ones(10_000)).count("<rect") == 81


@pytest.mark.slow
def test_a_plot_has_the_values_by_time_and_gaps_where_nothing_is_measured(store: FeatureStore) -> None:
    session = store.session("s00")
    frame = session.to_pandas("openface")
    axes = session.plot("openface", ["AU12_r"])
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), frame.index)
    np.testing.assert_array_equal(line.get_ydata(), frame["AU12_r"].where(frame["mask"]).astype(float))
    assert len(session.plot("openface").lines) == 12
    assert axes.get_title() == "s00: openface (1 of 716 columns)"
    with pytest.raises(ValueError, match=naming("'AU99_r'", "openface has no column")):
        session.plot("openface", ["AU99_r"])


def test_columns_of_any_feature_are_drawn_over_one_time_axis_with_labels_behind(store: FeatureStore) -> None:
    session = store.session("s00")
    face, sound = session.plot(["AU12_r", "opensmile.pcm_RMSenergy_sma"])
    frame = session.to_pandas("openface")
    np.testing.assert_array_equal(face.lines[0].get_xdata(), frame.index)
    np.testing.assert_array_equal(face.lines[0].get_ydata(), frame["AU12_r"].where(frame["mask"]).astype(float))
    assert np.isnan(face.lines[0].get_ydata()).any()
    assert (face.get_ylabel(), sound.get_ylabel(), sound.get_xlabel()) == ("0 to 5", "", "s")
    (loudness,) = session.plot(["loudness"])
    assert loudness.get_ylabel() == "dB"
    level = sound.lines[0].get_ydata()
    np.testing.assert_allclose(loudness.lines[0].get_ydata(), 20 * np.log10(np.maximum(level, 1e-5)))
    with pytest.raises(ValueError, match=naming("'AU99_r'", "is 'AU")):
        session.plot(["AU99_r"])
    with pytest.raises(ValueError, match="several units"):
        session.plot(["AU12_r", "loudness"], ax=face)


def test_an_empty_feature_is_drawn_as_nothing(tmp_path: Path) -> None:
    root = create_store(tmp_path / "features")
    with FeatureWriter(root, "s00", FEATURES["opensmile"]) as out:
        for name, spec in FEATURES["opensmile"].arrays.items():
            out.write(name, np.zeros((0, *spec.shape), spec.dtype))
        out.publish("f", {})
    catalogue.compact(root)
    for panel in FeatureStore(tmp_path / "features").session("s00").plot(["loudness", "pcm_RMSenergy_sma"]):
        assert [len(line.get_xdata()) for line in panel.lines] == [0]


def test_labels_are_bands_where_they_hold(store: FeatureStore) -> None:
    session, index = store.session("s00"), store.clips()
    (panel,) = session.plot(["AU12_r"], labels="empathy")
    of_session = index[index["session_id"] == "s00"]
    windows = of_session[of_session["target"] == min(of_session["target"].dropna())].sort_values("start_s")
    assert len(windows) > 1
    (values,) = set(windows["empathy"])
    drawn = {band.get_label(): band for band in panel.collections}
    spans = [path.get_extents() for path in drawn[str(values)].get_paths()]
    assert spans[0].x0 == pytest.approx(windows["start_s"].iloc[0])
    middles = ((windows["start_s"] + windows["stop_s"]) / 2).to_numpy()
    assert spans[0].x1 == pytest.approx(middles[:2].mean())
    assert spans[-1].x1 == pytest.approx(windows["stop_s"].iloc[-1])
    rows = {
        "session_id": ["s00", "s00", "s01"],
        "start_s": [0.5, 1, 0],
        "end_s": [1, 3, 9],
        "rater_id": ["a", "b", "a"],
    }
    table = pd.DataFrame(rows | {"scheme": "mood", "value": ["calm", "tense", "calm"]})
    (panel,) = session.plot(["AU12_r"], labels=table)
    spans = [path.get_extents().extents.tolist() for band in panel.collections for path in band.get_paths()]
    assert spans == [[0.5, 0, 1, 0.5], [1, 0.5, 3, 1]]
    with pytest.raises(ValueError, match=naming("'mood'", "it has empathy")):
        session.plot(["AU12_r"], labels="mood")
    with pytest.raises(ValueError, match="several schemes"):
        session.plot(["AU12_r"], labels=table.assign(scheme=["mood", "warmth", "mood"]))


def test_a_plot_without_matplotlib_says_how_to_get_it(store: FeatureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    with pytest.raises(ModuleNotFoundError) as error:
        store.session("s00").plot("openface")
    assert str(error.value) == f"plot needs matplotlib: {install_line('explore')}"
