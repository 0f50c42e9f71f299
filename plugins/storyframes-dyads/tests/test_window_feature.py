"""Synchrony as a feature of the store: its rows, clips that have it, and when it is out of date."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dyad_store import write_dyads
from support.messages import missing
from typer.testing import CliRunner

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.features import FEATURES
from storyframes.store import FeatureWriter, compact
from storyframes.store.maintenance.verification import verify
from storyframes_dyads.commands import app
from storyframes_dyads.lag_page import lag_page
from storyframes_report import ReportContext

SMILES = ["--between", "openface:AU12_r", "--and", "openface@b:AU12_r", "--max-lag-s", "1", "--window-s", "5"]


def stored(root: Path, *more: str) -> str:
    result = CliRunner().invoke(app, ["store", str(root), "--name", "smile", *SMILES, *more])
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


@pytest.mark.slow
def test_a_window_is_a_row_that_clips_have_and_another_version_of_a_signal_makes_it_anew(tmp_path: Path) -> None:
    root = tmp_path / "s"
    write_dyads(root, lag_s=0.6, sessions=["s1", "s2"], seconds=30, masked=0.0)
    assert not missing(stored(root), "synchrony_smile", "2 published", "0 up to date")
    store = FeatureStore(root)
    frame = store.to_pandas("s1", "synchrony_smile")
    assert frame.index.tolist() == pytest.approx([start + 2.5 for start in range(len(frame))], abs=0.04)
    assert list(frame.columns) == ["moment", "mask", "AU12_r_peak_z", "AU12_r_lag_s", "AU12_r_shared", "valid"]
    inside = frame[frame["AU12_r_shared"] == 1]
    assert inside["mask"].all()
    assert inside["AU12_r_lag_s"].median() == pytest.approx(0.6, abs=1 / 15)
    assert inside["AU12_r_peak_z"].median() > 1
    assert frame["AU12_r_shared"].iloc[0] < 0.3  # the second camera begins at 4.2 s
    assert not frame["mask"].iloc[0]
    clips = ClipDataset(store, [ClipInput("synchrony_smile")])
    clip = clips[3]  # from 12 s on, of s1: 60 frames, each with the window whose middle is nearest
    assert clip["synchrony_smile"].shape == (60, 3)
    expected = frame["AU12_r_peak_z"].to_numpy()[10:14]  # whose middles are at 12.5 s to 15.5 s
    assert clip["synchrony_smile"][[7, 22, 37, 52], 0] == pytest.approx(expected)
    provenance = store.attributes("s1", "synchrony_smile")["provenance"]
    assert set(provenance["features"]) == {"openface", "openface@b"}
    assert list(verify(store.storage)) == []

    assert not missing(stored(root), "synchrony_smile", "0 published", "2 up to date")
    values = store.read("s2", "openface")
    with FeatureWriter(store.storage, "s2", FEATURES["openface"]) as out:
        out.write("values", values)
        out.write("valid", store.read("s2", "openface", array="valid"))
        out.write("confidence", np.zeros(len(values), np.float32))
        out.publish("another", {})
    compact(store.storage)
    assert not missing(stored(root), "synchrony_smile", "1 published", "1 up to date")
    assert not missing(stored(root, "--stride-s", "2"), "synchrony_smile", "2 published", "0 up to date")


def test_the_report_shows_who_leads_when(tmp_path: Path) -> None:
    root = tmp_path / "s"
    write_dyads(root, lag_s=-0.6, sessions=["s1"], seconds=30, masked=0.0)
    assert lag_page(ReportContext(FeatureStore(root))) is None
    stored(root)
    store = FeatureStore(root)
    page = lag_page(ReportContext(store))
    assert page is not None
    introduction, table, chart = page.parts
    assert "does not say what chance" in introduction
    session_id, first, second, leads, follows, _ = table.rows[0]
    assert (session_id, str(first), str(second)) == ("s1", SMILES[1], SMILES[3])
    assert int(leads[:-1]) < 20 < 70 < int(follows[:-1])
    shown, dots = chart.figure.data
    at = list(shown.x).index(pytest.approx(15.5, abs=0.04))
    assert shown.y[np.argmax(shown.z[:, at])] == pytest.approx(-0.6, abs=1 / 15)  # the second leads
    assert dots.y[at] == pytest.approx(-0.6, abs=1 / 15)
    assert f"{second} in {follows}" in chart.alt
    assert "<" not in chart.data
    with FeatureWriter(store.storage, "s1", store.spec("s1", "synchrony_smile"), frames=False) as out:
        for name in ("values", "time", "valid"):
            out.write(name, store.read("s1", "synchrony_smile", array=name))
        out.publish("of others", {})
    compact(store.storage)
    other = lag_page(ReportContext(FeatureStore(root)))
    assert not missing(str(other.parts[-1].rows[0]), "does not say of which")


def test_a_session_without_the_features_does_not_stop_the_others(tmp_path: Path) -> None:
    write_dyads(tmp_path / "s", lag_s=0.6, sessions=["s2"], seconds=20, masked=0.0)
    result = CliRunner().invoke(app, ["store", str(tmp_path / "s"), "--name", "smile", *SMILES, "--session", "s0,s2"])
    assert result.exit_code == 1
    assert not missing(result.output, "s0 is left out", "s0", "'openface'")
    assert "1 published" in result.output
    assert FeatureStore(tmp_path / "s").has("s2", "synchrony_smile")


def test_what_cannot_be_a_feature_is_refused(tmp_path: Path) -> None:
    write_dyads(tmp_path / "s", lag_s=0.6, seconds=30)
    twice = ["--between", "openface:AU12_r", "--and", "openface@b:AU45_r"]
    result = CliRunner().invoke(app, ["store", str(tmp_path / "s"), "--name", "x", *SMILES, *twice])
    assert result.exit_code == 1
    assert not missing(result.output, "'AU12_r'", "two pairs begin with a")
    assert not FeatureStore(tmp_path / "s").has("s1", "synchrony_x")
    named = CliRunner().invoke(app, ["store", str(tmp_path / "s"), "--name", "My smile", *SMILES])
    assert named.exit_code == 2
    assert "cannot be 'synchrony_My smile'" in named.output
