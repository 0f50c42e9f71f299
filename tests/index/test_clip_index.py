"""The clip index of studies without phases, ratings or frame times, and of its format."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.media.recordings import write_video
from support.messages import missing, naming
from support.stores import local
from support.synthetic_features import publish
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.clips.clip_index import SplitSpec, assign_splits, components
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.window_spec import WindowSpec
from storyframes.store import catalogue, table_files
from storyframes.store.clip_table import FORMAT
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import CLIPS, INPUTS, ClipFormatError, create_store
from storyframes.store.maintenance.archive import archive
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.models.digests import DigestCache
from tasks.study.load import Study, load_study


def write_study(root: Path, sessions: int = 3, **tables: str) -> Study:
    root.mkdir(parents=True, exist_ok=True)
    rows = [f"s{number},p{number},s{number}.mp4" for number in range(1, sessions + 1)]
    (root / "sessions.csv").write_text("\n".join(["session_id,participant_id,video", *rows]) + "\n")
    for name, text in tables.items():
        (root / f"{name}.csv").write_text(text)
    return load_study(root)


def store_of(root: Path, seconds: Sequence[float], fps: float = 15) -> FeatureStore:
    create_store(root)
    for number, length in enumerate(seconds, 1):
        publish(root, f"s{number}", "frames", {"time": np.arange(round(length * fps)) / fps})
    catalogue.compact(local(root))
    return FeatureStore(root)


def test_without_phases_and_labels_the_whole_session_gives_clips(tmp_path: Path) -> None:
    study, store = write_study(tmp_path / "study"), store_of(tmp_path / "store", [10, 8, 3])
    built = build_clip_index(study, WindowSpec(), store)
    assert built.clips["clip_id"].tolist() == [
        "s1:session:000000", "s1:session:000015", "s1:session:000030", "s2:session:000000"
    ]  # fmt: skip
    assert built.clips[["story_id", "target", "position", "empathy"]].isna().all(axis=None)
    assert built.warnings == {}  # not that the phase ends after the recording
    write_clip_index(built.clips, local(tmp_path / "store"))
    dataset = ClipDataset(store, ["frames"], "empathy is null")
    assert dataset.read(range(4))["frames_time"][:, 0].tolist() == [0, 1, 2, 0]
    with pytest.raises(ValueError, match=naming("none of the 4 clips", "rating", "labels")):
        ClipDataset(store, ["frames", "label"])
    with pytest.raises(ValueError, match=naming("4 of 4 clips", "'story'")):
        ClipDataset(store, ["story"])


def test_a_session_without_ratings_in_a_rated_study_is_kept_only_when_asked_for(study_copy: Path) -> None:
    ratings = pd.read_csv(study_copy / "ratings.csv")
    ratings[ratings["session_id"] != "p01-s02"].to_csv(study_copy / "ratings.csv", index=False)
    study = load_study(study_copy)
    dropped = build_clip_index(study, WindowSpec(), None).clips
    assert len(dropped) == 36
    assert dropped["empathy"].dtype == np.int8
    kept = build_clip_index(study, WindowSpec(unlabelled="keep"), None).clips
    unrated = kept[kept["empathy"].isna()]
    assert set(unrated["session_id"]) == {"p01-s02"}
    assert len(unrated) == 6
    assert unrated["clip_id"].iloc[0] == "p01-s02:reflection:000195"
    pd.testing.assert_frame_equal(kept[kept["empathy"].notna()].reset_index(drop=True), dropped, check_dtype=False)


def test_a_clip_without_a_story_has_the_story_of_no_other_clip(study_copy: Path, tmp_path: Path) -> None:
    ratings = pd.read_csv(study_copy / "ratings.csv")
    ratings[ratings["session_id"] != "p01-s02"].to_csv(study_copy / "ratings.csv", index=False)
    root = tmp_path / "store"
    create_store(root)
    for session in ("p01-s01", "p01-s02", "p02-s01"):
        publish(root, session, "frames", {"time": np.arange(465) / 15})
    stories = sorted(ratings["story_id"].unique())
    vectors = np.arange(len(stories), dtype=np.float32)[:, None] * np.ones(384, np.float32)
    publish(root, "stories", "sbert", {"values": vectors}, {"story_ids": stories})
    catalogue.compact(local(root))
    built = build_clip_index(load_study(study_copy), WindowSpec(unlabelled="keep"), FeatureStore(root))
    write_clip_index(built.clips, local(root))
    dataset = ClipDataset(root, ["story", "label"], drop_missing=True)
    assert set(dataset.clips["session_id"]) == {"p01-s01", "p02-s01"}
    batch = dataset.read(range(len(dataset)))
    assert [stories[int(row[0])] for row in batch["story"]] == dataset.clips["story_id"].tolist()
    assert batch["label"].dtype == np.int64
    assert batch["label"].tolist() == dataset.clips["empathy"].tolist()
    with pytest.raises(ValueError, match=naming("6 of 42 clips", "'story'", "p01-s02")):
        ClipDataset(root, ["story"])


PHASES = "session_id,phase,start_s,end_s\ns1,talk,0,5\ns2,talk,0,6\n"
RATED = {
    "phases": "session_id,phase,start_s,end_s\ns1,talk,0,10\n",
    "ratings": "session_id,story_id,position,empathy\ns2,st-1,1,4\n",
    "stories": "story_id,text\nst-1,Once.\n",
}


@pytest.mark.parametrize(
    ("tables", "spec", "why", "better"),
    [
        (
            {"phases": PHASES},
            WindowSpec(),
            "0 clips: no phase is as long as a clip, 120 frames; the longest, 'talk' of s2, has 90 (6.00 s): "
            "make clips shorter, [clips] window = 90",
            WindowSpec(window=90),
        ),
        (
            {"phases": PHASES},
            WindowSpec(window_s=8),
            "0 clips: no phase is as long as a clip, 120 frames; the longest, 'talk' of s2, has 90 (6.00 s): "
            "make clips shorter, [clips] window_s = 6",
            WindowSpec(window_s=6),
        ),
        (
            {"phases": PHASES},
            WindowSpec(window=15, phases=("tlak",)),
            "0 clips: [clips] phases = ['tlak'] are none of the study's, which are talk",
            WindowSpec(window=15, phases=("talk",)),
        ),
        (
            RATED,
            WindowSpec(),
            "0 clips: nothing labels any of the 3 windows, and windows without a label are left out: keep them with "
            '[clips] unlabelled = "keep"',
            WindowSpec(unlabelled="keep"),
        ),
        (
            {"phases": "session_id,phase,start_s,end_s\ns1,talk,100,150\n"},
            WindowSpec(),
            "0 clips: no phase has a frame of its recording (the first, 'talk' of s1, is from 100 s to 150 s): "
            "phases are in seconds from the recording's beginning",
            None,
        ),
    ],
)
def test_no_clips_say_why_and_what_would_give_some(
    tmp_path: Path, tables: dict[str, str], spec: WindowSpec, why: str, better: WindowSpec | None
) -> None:
    study, store = write_study(tmp_path / "study", **tables), store_of(tmp_path / "store", [10, 10, 10])
    built = build_clip_index(study, spec, store)
    assert len(built.clips) == 0
    assert built.remarks[0] == why
    if better:
        assert len(build_clip_index(study, better, store).clips) > 0
    write_clip_index(built.clips, local(tmp_path / "store"))
    with pytest.raises(ValueError, match=naming("no clips", "storyframes index")):
        ClipDataset(store, ["frames"])


def test_no_clips_of_recordings_that_nothing_is_known_of(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study")
    result = CliRunner().invoke(app, ["index", str(tmp_path / "study"), "--out", str(tmp_path / "clips.parquet")])
    assert result.exit_code == 0
    assert missing(result.output, "0 clips", "'frames'", "phases") == []
    excluded = replace(study, excluded=dict.fromkeys(study.sessions, "mend it"))
    (remark,) = build_clip_index(excluded, WindowSpec(), None).remarks
    assert missing(remark, "0 clips", "every session") == []


def test_the_index_of_tables_alone_goes_by_the_headers_or_says_what_it_assumes(tmp_path: Path) -> None:
    phases = "session_id,phase,start_s,end_s\ns1,talk,0,3\ns2,talk,0,3\n"
    study = write_study(tmp_path / "study", sessions=2, phases=phases)
    write_video(tmp_path / "study" / "s1.mp4", "libx264", [40 * number for number in range(100)])
    spec = WindowSpec(window_s=2)
    built = build_clip_index(study, spec, None)
    lengths = (built.clips["stop_frame"] - built.clips["start_frame"]).groupby(built.clips["session_id"]).unique()
    assert {session: list(each) for session, each in lengths.items()} == {"s1": [50], "s2": [30]}
    assert built.clips.query("session_id == 's1'")["stop_s"].tolist() == pytest.approx([2, 3], rel=0.01)
    assert any(missing(remark, "[clips] fps = 15", "s2", "frame times") == [] for remark in built.remarks)
    (tmp_path / "study" / "phases.csv").unlink()
    alone = build_clip_index(write_study(tmp_path / "study", sessions=1), spec, None)
    assert alone.clips["start_s"].tolist() == pytest.approx([0, 1, 2], abs=0.05)  # the header tells its length as well
    assert not any("assumed" in remark for remark in alone.remarks)


def test_empty_splits_are_said(tmp_path: Path) -> None:
    study, store = write_study(tmp_path / "study", sessions=2), store_of(tmp_path / "store", [10, 10])
    said = build_clip_index(study, WindowSpec(), store).remarks
    (remark,) = said
    assert missing(remark, "no clips in test", "split_shares = [0.7, 0.2, 0.1]", "2 such groups") == []
    assert build_clip_index(study, WindowSpec(split_shares=(0.5, 0.5, 0)), store).remarks == ()


@settings(deadline=None)
@given(
    alone=st.lists(st.sampled_from([f"p{number}" for number in range(30)])),
    meetings=st.lists(st.lists(st.sampled_from([f"p{number}" for number in range(30)]), min_size=1, max_size=4)),
    seed=st.integers(0, 3),
)
def test_nobody_is_in_another_split_than_those_whom_they_met(
    alone: list[str], meetings: list[list[str]], seed: int
) -> None:
    spec = WindowSpec(split_seed=seed)
    splits = assign_splits(alone, spec, meetings)
    everybody = {*alone, *(one for met in meetings for one in met)}
    assert set(splits) == everybody
    for met in meetings:
        assert len({splits[one] for one in met}) == 1
    groups = components(alone, meetings)
    assert sorted(one for group in groups for one in group) == sorted(everybody)
    for first in groups:
        for second in groups:
            assert first is second or not any({*met} & {*first} and {*met} & {*second} for met in meetings)
    assert splits == assign_splits(alone[::-1], spec, [met[::-1] for met in meetings[::-1]])
    if all(len(set(met)) == 1 for met in meetings):  # nobody met anybody: as without meetings
        assert splits == assign_splits(sorted(everybody), spec)
    elif everybody:
        largest = max(len(group) for group in groups)
        counts = [list(splits.values()).count(split) for split in ("train", "val", "test")]
        for count, share in zip(counts, spec.split_shares, strict=True):
            assert abs(count - share * len(everybody)) <= largest + 1


def test_a_dyad_is_in_one_split_in_the_index(tmp_path: Path) -> None:
    persons = ["session_id,person_id,participant_id"]
    # In session s1, p1 talks with p2, in s3 p3 with p4, …
    persons += [f"s{number},other,p{number + 1}" for number in range(1, 20, 2)]
    study = write_study(tmp_path / "study", sessions=20, persons="\n".join(persons) + "\n")
    store = store_of(tmp_path / "store", [9] * 20)
    clips = build_clip_index(study, WindowSpec(), store).clips
    split = clips.groupby("session_id")["split"].first()
    assert all(split[f"s{number}"] == split[f"s{number + 1}"] for number in range(1, 20, 2))
    assert split.value_counts().to_dict() == {"train": 14, "val": 4, "test": 2}
    for seed in range(20):
        split = SplitSpec(seed=seed).applied(clips).groupby("session_id")["split"].first()
        assert all(split[f"s{number}"] == split[f"s{number + 1}"] for number in range(1, 20, 2))


def test_the_index_says_its_format_and_a_newer_one_is_left_alone(tmp_path: Path) -> None:
    study, store = write_study(tmp_path / "study", sessions=1), store_of(tmp_path / "store", [10])
    storage = local(tmp_path / "store")
    clips = build_clip_index(study, WindowSpec(), store).clips
    write_clip_index(clips, storage)
    table = pq.read_table(tmp_path / "store" / CLIPS)
    assert json.loads(table.schema.metadata[b"storyframes"])["format"] == 2
    create_store(tmp_path / "archive")
    assert list(archive(storage, local(tmp_path / "archive")))
    archived = FeatureStore(tmp_path / "archive").clips()
    pd.testing.assert_frame_equal(archived, store.clips())
    assert archived.attrs == store.clips().attrs

    newer = table.replace_schema_metadata({"storyframes": json.dumps({"format": FORMAT + 1})})
    table_files.replace_table(storage, CLIPS, lambda: newer)
    before = (tmp_path / "store" / CLIPS).read_bytes()
    with pytest.raises(ClipFormatError, match=naming("clips.parquet", "format 4", "newer", "3")):
        write_clip_index(clips, storage)
    assert (tmp_path / "store" / CLIPS).read_bytes() == before
    with pytest.raises(ClipFormatError, match=naming("up to 3", "update")):
        store.clips()
    result = CliRunner().invoke(app, ["index", str(tmp_path / "study"), str(tmp_path / "store")])
    assert result.exit_code == 2
    assert "of a newer storyframes" in result.output


def study_of_files(root: Path, files: dict[str, bytes], sessions: str, **tables: str) -> Study:
    """A study whose recordings are any bytes: nothing of these tests decodes them."""
    root.mkdir(parents=True)
    for name, content in files.items():
        (root / name).write_bytes(content)
    (root / "sessions.csv").write_text("session_id,participant_id,video\n" + sessions)
    for name, text in tables.items():
        (root / f"{name}.csv").write_text(text)
    return load_study(root)


def together(study: Study, store: FeatureStore | None) -> list[set[str]]:
    """The participants by the group of their split."""
    clips = build_clip_index(study, WindowSpec(), store).clips
    return [set(group) for _, group in clips.groupby("split_group")["participant_id"]]


LONG = bytes(100_000)


def test_sessions_with_one_recording_are_in_one_split(tmp_path: Path) -> None:
    files = {
        "a.mp4": LONG + b"one" + LONG,
        "copy.mp4": LONG + b"one" + LONG,
        "as_long.mp4": LONG + b"two" + LONG,  # differs in the middle alone
        "c.mp4": b"three",
        "room.wav": b"a room",
    }
    study = study_of_files(
        tmp_path / "study",
        files,
        "s1,p1,a.mp4\ns2,p2,copy.mp4\ns3,p3,as_long.mp4\ns4,p4,c.mp4\ns5,p5,c.mp4\ns6,p6,gone.mp4\ns7,p7,gone.mp4\n",
        tracks="session_id,track,audio\ns5,room,room.wav\ns3,cam,room.wav\ns1,again,a.mp4\n",
    )
    store = store_of(tmp_path / "store", [10] * 7)
    expected = [{"p1", "p2"}, {"p3", "p4", "p5"}, {"p6", "p7"}]
    assert together(study, store) == expected
    remarks = build_clip_index(study, WindowSpec(), store).remarks
    same = [remark.partition(":")[0] for remark in remarks if "same recording" in remark]
    expected = (("s1, s2", "a.mp4"), ("s3, s5", "room.wav"), ("s4, s5", "c.mp4"), ("s6, s7", "gone.mp4"))
    assert [missing(remark, *names) for remark, names in zip(same, expected, strict=True)] == [[], [], [], []]


def test_recordings_that_were_archived_are_still_known_for_copies(tmp_path: Path) -> None:
    files = {"a.mp4": b"one", "copy.mp4": b"one", "other.mp4": b"two"}
    study = study_of_files(tmp_path / "study", files, "s1,p1,a.mp4\ns2,p2,copy.mp4\ns3,p3,other.mp4\n")
    store = store_of(tmp_path / "store", [10] * 3)
    for name in files:
        os.utime(study.root / name, (1, 1))
    cache = DigestCache(store.storage, INPUTS, study.root)
    for name in files:
        cache.sha256(study.root / name)
    cache.save()
    for name in ("copy.mp4", "other.mp4"):
        (study.root / name).unlink()
    assert together(study, store) == [{"p1", "p2"}, {"p3"}]


@pytest.mark.parametrize(
    ("phases", "is_said"),
    [
        ("s1,story,0,10\ns2,story,10,20\n", "are parts of one recording, long.mp4"),
        ("s1,story,0,10\ns2,story,9.9,20\n", "have the same recording, long.mp4"),
        ("s1,story,0,2\ns1,end,12,20\ns2,story,5,10\n", "have the same recording, long.mp4"),
        ("s1,story,0,10\n", "have the same recording, long.mp4"),
    ],
)
def test_parts_of_one_long_file_are_in_one_split_too(tmp_path: Path, phases: str, is_said: str) -> None:
    study = study_of_files(
        tmp_path / "study",
        {"long.mp4": b"two sessions"},
        "s1,p1,long.mp4\ns2,p2,long.mp4\ns3,p3,none.mp4\n",
        phases=f"session_id,phase,start_s,end_s\ns3,story,0,9\n{phases}",
    )
    built = build_clip_index(study, WindowSpec(), store_of(tmp_path / "store", [20] * 3))
    groups = built.clips.groupby("participant_id")["split_group"].first()
    assert groups["p1"] != groups["p3"]
    assert groups.get("p2", groups["p1"]) == groups["p1"]
    assert [is_said in remark for remark in built.remarks if "recording" in remark] == [True]


def test_a_clock_tells_which_part_of_a_long_track_a_session_has(tmp_path: Path) -> None:
    def remarks(name: str, second: str) -> list[str]:
        study = study_of_files(
            tmp_path / name,
            {"room.wav": b"all day"},
            "s1,p1,a.mp4\ns2,p2,b.mp4\n",
            tracks="session_id,track,audio,clock\ns1,room,room.wav,day\ns2,room,room.wav,day\n",
            clocks=f"session_id,clock,clock_s,session_s\ns1,day,0,0\ns2,day,{second},0\n",
            phases="session_id,phase,start_s,end_s\ns1,story,0,10\ns2,story,0,10\n",
        )
        return [remark for remark in build_clip_index(study, WindowSpec(), None).remarks if "room.wav" in remark]

    assert "are parts of one recording" in remarks("later", "3600")[0]
    assert "have the same recording" in remarks("alike", "5")[0]
