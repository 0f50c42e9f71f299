"""Synchrony of planted dyads: their lag, what chance gives, and the command."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dyad_store import write_dyads
from support.messages import missing, naming
from typer.testing import CliRunner

from storyframes import FeatureStore
from storyframes.features import FEATURES
from storyframes_dyads.commands import app
from storyframes_dyads.lagged_correlation import lag_spread
from storyframes_dyads.signals import SignalError, SignalName, SignalPair, columns_of, read_frame, read_pairs
from storyframes_dyads.synchrony import SynchronySettings, holm, pseudo_dyad_null, session_synchrony, synchrony_of
from storyframes_dyads.synchrony_tables import (
    SESSIONS_OWN,
    TrackClock,
    clock_error,
    direction,
    lacking_pairs,
    session_table,
    study_table,
)
from storyframes_dyads.written import groups_of, track_clocks
from tasks.clip_index.index import write_clip_index

ASKED = SignalName.parse("openface:AU12_r"), SignalName.parse("openface@b:AU12_r")
SETTINGS = SynchronySettings(window_s=10, stride_s=2, max_lag_s=3.5)


@pytest.mark.parametrize(
    ("rates", "lag_s"), [((15, 15), 3.0), ((25, 25), -2.2), ((15, 25), 0.4), ((25, 15), -3.0), ((15, 25), 0.0)]
)
def test_a_planted_lag_is_found_within_a_frame_whatever_the_cameras_and_their_clocks(
    tmp_path: Path, rates: tuple[float, float], lag_s: float
) -> None:
    store = write_dyads(tmp_path / "s", lag_s=lag_s, rates=rates, seed=abs(int(10 * lag_s)))
    [result] = session_synchrony(store, "s1", ASKED, SETTINGS)
    assert result.rate == pytest.approx(min(rates), rel=1e-3)
    assert result.lag_s == pytest.approx(lag_s, abs=1 / min(rates))
    assert np.nanmedian(result.peaks.lag) / result.rate == pytest.approx(lag_s, abs=1.5 / min(rates))
    assert result.ranked.p <= 0.06  # what the reach of the lags allows in two minutes
    assert result.ranked.estimate > result.ranked.null_95
    words = direction(result.pair, result.lag_s, 0.5 / result.rate + 2 * result.lag_spread_s, p=0.01)
    leader = "openface" if lag_s > 0 else "openface@b"
    assert words.startswith(f"{leader} leads " if lag_s else "neither leads for certain")


def test_unmeasured_frames_and_those_before_the_second_camera_are_missing(tmp_path: Path) -> None:
    store = write_dyads(tmp_path / "s", lag_s=0.0, masked=0.3)
    [(first, second)] = read_pairs(store, "s1", ASKED, 15.0).values()
    mask = store.read("s1", "openface", array="valid") == 1
    assert np.array_equal(np.isfinite(first), mask[: len(first)])
    assert not np.isfinite(second[: int(4.1 * 15)]).any()


def test_the_numbers_of_rows_are_no_signals(tmp_path: Path) -> None:
    store = write_dyads(tmp_path / "s", lag_s=0.0, seconds=20)
    for name in ("openface", "openface@b"):
        for frame in (read_frame(store, "s1", name, 15.0), store.to_pandas("s1", name)):
            assert {"point", "frame", "mask", "device_time"}.isdisjoint(columns_of(frame))
            assert len(columns_of(frame)) == 714 + 2  # and valid and confidence
    everything = SignalName.parse("openface:*"), SignalName.parse("openface@b:*")
    matched = [pair.first.column for pair in read_pairs(store, "s1", everything, 15.0)]
    assert matched == list(
        FEATURES["openface"].columns[5:]
    )  # not frame, face_id, timestamp, confidence, success, valid


@pytest.mark.slow
def test_pseudo_dyads_are_strangers_and_show_what_is_shared(tmp_path: Path) -> None:
    sessions = [f"s{number}" for number in range(6)]
    store = write_dyads(tmp_path / "s", lag_s=0.4, sessions=sessions, rates=(15, 15), seconds=60)
    settings = SynchronySettings(window_s=8, stride_s=4, max_lag_s=1, pseudo_dyads=19)
    results = [
        result for _, of_session in synchrony_of(store, sessions, [ASKED, ASKED], settings) for result in of_session
    ]
    assert [result.session_id for result in results] == sessions  # a pair that is asked for twice is one pair
    people = {session: session for session in sessions}
    [ranked] = pseudo_dyad_null(store, results, settings, people).values()
    assert ranked.p == pytest.approx(1 / 20)
    assert ranked.count == 19
    assert ranked.estimate > ranked.null_95
    assert ranked.estimate == pytest.approx(np.mean([result.ranked.estimate for result in results]), rel=1e-6)
    with pytest.raises(SignalError, match=naming("no other session of other")):
        pseudo_dyad_null(store, results, settings, dict.fromkeys(sessions, "one"))
    smile_of = {result.session_id: result for result in results}
    blink = SignalPair(*(SignalName(name.feature, "AU45_r") for name in ASKED))
    some = [*results, *(replace(smile_of[session], pair=blink) for session in sessions[:5])]
    of_both = pseudo_dyad_null(store, some, replace(settings, pseudo_dyads=3), people)
    assert list(of_both) == [ranked_pair := results[0].pair, blink]
    assert of_both[ranked_pair].estimate == pytest.approx(ranked.estimate)
    assert of_both[blink].count == 3
    assert lacking_pairs(some) == {
        "a part of s5 (1 of 2 pairs)": f"it has no column for {blink.first} and {blink.second}"
    }
    study = study_table(session_table(some), of_both)
    assert study["sessions"].tolist() == [6, 5]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error_s", "said"), [(None, "± 0.03 s, the clocks' error not known)"), (0.02, "± 0.07 s"), (0.5, "neither leads")]
)
def test_the_uncertainty_of_the_clock_is_part_of_the_lags(tmp_path: Path, error_s: float | None, said: str) -> None:
    store = write_dyads(tmp_path / "s", lag_s=0.6, rates=(15, 15), masked=0.0, clock_error_s=error_s)
    assert store.clips().attrs.get("clock_errors", {}) == ({} if error_s is None else {"s1": {"b": error_s}})
    [result] = session_synchrony(store, "s1", ASKED, SynchronySettings(stride_s=5, max_lag_s=1))
    [row] = session_table([result], track_clocks(store)).to_dict("records")
    assert result.lag_spread_s == 0  # the planted lag is that of all windows
    assert row["lag_uncertainty_s"] == pytest.approx(0.5 / 15 + 2 * (error_s or 0))
    assert row["clock_error_s"] == (pytest.approx(error_s) if error_s else pytest.approx(np.nan, nan_ok=True))
    assert said in row["direction"]


def test_two_tracks_of_one_clock_are_as_exact_as_their_frames() -> None:
    moments = [[0.0, 60.0], [4.0, 64.001]]
    clocks = {"b": TrackClock(moments, 0.02), "region": TrackClock(moments, 0.02), "left": SESSIONS_OWN}
    errors = {
        (first, second): clock_error(
            SignalPair(SignalName(f"motion{first}", "x"), SignalName(f"motion{second}", "x")), clocks
        )
        for first in ("", "@b", "@left")
        for second in ("@region", "@left", "@unknown")
    }
    assert [errors["@b", "@region"], errors["", "@left"], errors["@left", "@left"]] == [0, 0, 0]
    assert [errors["", "@region"], errors["@left", "@region"], errors["@b", "@left"]] == [0.02, 0.02, 0.02]
    assert np.isnan([errors[first, "@unknown"] for first in ("", "@b", "@left")]).all()


@pytest.mark.slow
def test_what_was_not_tested_or_is_not_known_is_not_said_to_be_chance_or_certain(tmp_path: Path) -> None:
    store = write_dyads(tmp_path / "s", lag_s=0.6, rates=(15, 15), seconds=30, masked=0.0)
    [short] = session_synchrony(store, "s1", ASKED, SynchronySettings())
    [row] = session_table([short]).to_dict("records")
    assert row["synchrony"] > 1
    assert np.isnan([row["p"], row["null_95"]]).all()
    assert not missing(row["direction"], "or too little measured")
    [few] = session_synchrony(store, "s1", ASKED, SynchronySettings(window_s=4, stride_s=4, max_lag_s=1))
    [row] = session_table([few]).to_dict("records")
    assert len(few.start_s) < 10
    assert np.isnan(row["lag_uncertainty_s"])
    words = direction(few.pair, few.lag_s, row["lag_uncertainty_s"], p=0.01)
    assert not missing(words, "0.60 s", "with too few windows to")
    smile, blink = (replace(few, ranked=replace(few.ranked, p=p)) for p in (0.03, 0.5))
    assert session_table([smile])["direction"][0].startswith("neither leads for certain")
    assert session_table([smile, blink])["direction"].tolist() == ["no more than chance"] * 2  # 0.06 of two pairs


def test_a_lag_that_differs_between_stretches_is_uncertain() -> None:
    correlations = np.zeros((40, 21))
    correlations[:20, 4] = correlations[20:, 14] = 0.5  # half of the session at one lag, half at another
    assert 4 < lag_spread(correlations) < 6  # of a fair coin between two lags ten points apart
    assert np.isnan(lag_spread(correlations[:9]))


def test_holm_corrects_what_is_given_and_keeps_what_is_missing() -> None:
    assert np.allclose(holm([0.01, np.nan, 0.04, 0.03]), [0.03, np.nan, 0.06, 0.06], equal_nan=True)
    assert np.isnan(holm([np.nan])).all()


@pytest.mark.slow
def test_the_command_writes_tables_for_its_owner_and_says_who_leads(tmp_path: Path) -> None:
    write_dyads(tmp_path / "s", lag_s=0.6, sessions=["s1", "s2"], seconds=60, masked=0.0)
    arguments = ["synchrony", str(tmp_path / "s"), "--between", "openface:AU1[25]_r", "--and", "openface@b:AU1[25]_r"]
    out = tmp_path / "tables"
    more = ["--also", "coherence,recurrence,information"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(out), "--pseudo-dyads", "3", "--json", *more])
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    smile = [row for row in shown["sessions"] if row["first"] == "openface:AU12_r"]
    assert [row["session_id"] for row in smile] == ["s1", "s2"]
    assert all(row["lag_s"] == pytest.approx(0.6, abs=1 / 15) and row["p_holm"] >= row["p"] for row in smile)
    assert all(row["recurrence"] > row["recurrence_null_95"] for row in smile)  # the others look at one moment
    assert all(0 <= row["coherence"] <= 1 and row["information_null_95"] > 0 for row in smile)
    sessions = pd.read_csv(out / "sessions.csv")
    assert len(sessions) == len(shown["sessions"]) == 4
    windows = pd.read_csv(out / "windows.csv")
    assert set(windows.columns) == {"session_id", "first", "second", "start_s", "end_s", "lag_s", "height"}
    assert (windows["end_s"] - windows["start_s"]).round(6).eq(10).all()
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {0o600}
    again = CliRunner().invoke(app, [*arguments, "--out", str(out)])
    assert again.exit_code == 2
    smiles = [*arguments[:2], "--between", "openface:AU12_r", "--and", "openface@b:AU12_r"]
    assert "no more than chance" in CliRunner().invoke(app, smiles).stdout  # a minute is too short for lags of 3 s
    text = CliRunner().invoke(app, [*smiles, "--max-lag-s", "1"])
    assert not missing(text.stdout, "openface@b", "0.60 s")


@pytest.mark.parametrize(
    ("between", "and_", "message"),
    [
        ("openface", "openface@b:AU12_r", "names no signal"),
        ("openface:AU12_r", "openface@c:AU12_r", "no session has all of"),
        ("openface:AU99_r", "openface@b:AU12_r", "has no column 'AU99_r'"),
        ("openface:AU*", "openface@b:AU12_r", "the same on both sides"),
        ("openface:AU12_r --window-s 0.1", "openface@b:AU12_r", "a window of 0.1 s has fewer than 3 points at 15"),
    ],
)
def test_what_cannot_be_measured_is_said(tmp_path: Path, between: str, and_: str, message: str) -> None:
    write_dyads(tmp_path / "s", lag_s=0.6, seconds=20)
    result = CliRunner().invoke(app, ["synchrony", str(tmp_path / "s"), "--between", *between.split(), "--and", and_])
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.slow
def test_sessions_that_share_a_person_are_no_strangers(tmp_path: Path) -> None:
    sessions = ["s1", "s2", "s3"]
    write_dyads(tmp_path / "s", lag_s=0.6, sessions=sessions, seconds=20, masked=0.0, same_therapist=["s1", "s2"])
    groups = groups_of(FeatureStore(tmp_path / "s"))
    assert groups["s1"] == groups["s2"] != groups["s3"]
    smiles = ["--between", "openface:AU12_r", "--and", "openface@b:AU12_r", "--window-s", "4", "--max-lag-s", "1"]
    arguments = ["synchrony", str(tmp_path / "s"), *smiles, "--pseudo-dyads", "3"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    two = ["--session", "s1,s2", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*arguments, *two])
    assert result.exit_code == 1
    assert "null of pseudo-dyads is left out: s1 has no other session" in " ".join(result.output.split())
    assert len(pd.read_csv(tmp_path / "out/sessions.csv")) == 2
    index = FeatureStore(tmp_path / "s").clips()
    known = index[index["session_id"] != "s2"].reset_index(drop=True)
    known.attrs = index.attrs
    write_clip_index(known, FeatureStore(tmp_path / "s").storage)
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "two")])
    assert result.exit_code == 1
    assert "s2 (1 of 3 sessions) in the null of pseudo-dyads is left out" in " ".join(result.output.split())
    assert len(pd.read_csv(tmp_path / "two/sessions.csv")) == 3
    assert pd.read_csv(tmp_path / "two/study.csv")["sessions"].tolist() == [2]
    (tmp_path / "s/clips.parquet").unlink()
    result = CliRunner().invoke(app, ["synchrony", str(tmp_path / "s"), *smiles])
    assert result.exit_code == 2  # nobody knows the second camera's clock either
