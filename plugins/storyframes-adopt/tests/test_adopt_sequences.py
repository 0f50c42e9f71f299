"""Pickles of MMSA's layout and computational sequences of the CMU-MultimodalSDK, adopted; hostile pickles refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from storyframes_adopt.adopted_sequences import read_numbers
from storyframes_adopt.command import app
from storyframes_adopt.safe_pickle import UnsafePickleError, as_array, read_pickle
from support.messages import missing
from support.synthetic_features import FPS, StudySpec, SyntheticStudy, write_features
from typer.testing import CliRunner

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.store.maintenance import verify
from storyframes.store.storage.local_folder import LocalStorage


@pytest.fixture
def study(tmp_path: Path) -> SyntheticStudy:
    """Two sessions of 60 frames in 4 seconds."""
    return write_features(tmp_path / "features", StudySpec(sessions=2))


def adopt(*arguments: object, code: int = 0) -> str:
    ended = CliRunner().invoke(app, [*map(str, arguments)])
    assert ended.exit_code == code, ended.output
    return ended.output


def sample(number: int, rows: int) -> np.ndarray:
    return np.random.default_rng(number).normal(size=(rows, 3)).astype(np.float32)


SEGMENTS = {  # id in the file, session, start, rows at 10 a second
    "vidA$_$1": ("s00", 2.05, 15),
    "vidA$_$0": ("s00", 0.0, 18),
    "vidB$_$0": ("s01", 0.5, 20),
    "vidC$_$0": ("", 0.0, 5),
}


def write_mmsa(folder: Path, *, protocol: int = 4, **changed: Any) -> list[object]:
    """A pickle of the segments above, padded to 20 rows, and the table of their sessions; the options to adopt it."""
    content: dict[str, Any] = {}
    for split, ids in {"train": ["vidA$_$1", "vidB$_$0"], "valid": ["vidC$_$0"], "test": ["vidA$_$0"]}.items():
        arrays = np.zeros((len(ids), 20, 3), np.float32)
        for place, entry in enumerate(ids):
            rows = SEGMENTS[entry][2]
            arrays[place, :rows] = sample(rows, rows)
        arrays[0, 2] = 0  # missing, as MMSA has it
        lengths = [SEGMENTS[entry][2] for entry in ids]
        content[split] = {"vision": arrays, "text": arrays[:, :, :1], "id": ids, "vision_lengths": lengths}
        content[split] |= {"regression_labels": np.zeros(len(ids)), "raw_text": ["x"] * len(ids)} | changed
    (folder / "mosi.pkl").write_bytes(pickle.dumps(content, protocol=protocol))
    rows = [(entry, session, start, start + count / 10) for entry, (session, start, count) in SEGMENTS.items()]
    pd.DataFrame(rows, columns=["id", "session_id", "start_s", "end_s"]).to_csv(folder / "ids.csv", index=False)
    return [folder / "features", folder / "mosi.pkl", "--name", "facet", "--array", "vision", "--rate", 10,
            "--ids", folder / "ids.csv"]  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 5])
def test_segments_of_mmsa_s_pickle_are_put_back_in_their_places(
    study: SyntheticStudy, tmp_path: Path, protocol: int
) -> None:
    way = write_mmsa(tmp_path, protocol=protocol)
    with (tmp_path / "ids.csv").open("a") as table:
        table.write("vidB$_$1,s01,2.5,3\nvidD$_$0,,0,1\n")
    said = adopt(*way)
    assert missing(said, "33 rows", "3 columns", "0 to", "3.45 s", "93.9") == []
    assert missing(" ".join(said.split()), "1 id", "--ids", "vidB$_$1") == []
    store = FeatureStore(study.root)
    values, time, measured = (store.read("s00", "facet", array=name) for name in ("values", "time", "measured"))
    np.testing.assert_allclose(time, [*np.arange(18) / 10, *(2.05 + np.arange(15) / 10)])
    absent = [2, 20]  # the third row of the first sample of each split
    np.testing.assert_array_equal(np.flatnonzero(measured == 0), absent)
    wanted = np.concatenate([sample(18, 18), sample(15, 15)])
    wanted[absent] = np.nan
    np.testing.assert_array_equal(values, wanted)
    assert len(store.read("s01", "facet")) == 20
    attributes = store.attributes("s00", "facet")
    assert attributes["stamps"] == ["made elsewhere"]
    assert "vidA" not in (study.root / "s00/facet/current.json").read_text()
    assert "up to date" in adopt(*way)
    assert not list(verify(LocalStorage(study.root)))
    clip = ClipDataset(study.root, [ClipInput("facet")])[0]
    assert clip["facet_mask"].any()


def test_padding_without_lengths_is_left_out_and_at_the_front_it_is_refused(
    study: SyntheticStudy, tmp_path: Path
) -> None:
    adopt(*write_mmsa(tmp_path, vision_lengths=None))
    assert len(FeatureStore(study.root).read("s00", "facet")) == 33
    assert "padded at the front?" in adopt(*write_mmsa(tmp_path, vision_lengths=[1, 1]), code=2)
    texts, unknown = np.full((2, 20), "0"), np.full((2, 20), np.nan)  # not 0, all of them: they would be measured
    for name, part, said in (
        ("lengths", [-1, 9], "-1 rows of 'vidA$_$1'"),
        ("lengths", [1.5, 9], "not as numbers"),
        ("lengths", 5, "other numbers of"),
        ("mask", texts, "has vision_mask in train not as 0 and 1"),
        ("mask", unknown, "has vision_mask in train not as 0 and 1"),
    ):
        way = write_mmsa(tmp_path)
        content = pickle.loads((tmp_path / "mosi.pkl").read_bytes())
        content["train"][f"vision_{name}"] = part
        (tmp_path / "mosi.pkl").write_bytes(pickle.dumps(content))
        assert said in adopt(*way, code=2)


def test_what_does_not_say_which_session_and_when_is_refused(study: SyntheticStudy, tmp_path: Path) -> None:
    *way, option, ids = write_mmsa(tmp_path)
    said = adopt(*way, code=2)
    assert missing(said, "vidA$_$1", "vidB$_$0", "vidC$_$0", "vidA$_$0", "--ids") == []
    table = pd.read_csv(tmp_path / "ids.csv", keep_default_na=False)

    def with_table(changed: pd.DataFrame) -> str:
        changed.to_csv(tmp_path / "ids.csv", index=False)
        return adopt(*way, option, ids, code=2)

    assert missing(with_table(table.head(3)), "vidC$_$0", "session") == []
    assert missing(with_table(table.replace("s00", "s09")), "vidA$_$1", "s09", "vidA$_$0") == []
    assert "has no column 'session_id'" in with_table(table.rename(columns={"session_id": "session"}))
    assert missing(with_table(pd.concat([table, table.head(1)])), "already", "empty") == []
    assert missing(with_table(table.assign(end_s=table["start_s"])), "row 2", "end_s 2.05", "start_s 2.05") == []
    table.assign(session_id=0).to_parquet(tmp_path / "ids.parquet")  # a number, and not empty
    assert missing(adopt(*way, option, tmp_path / "ids.parquet", code=2), "vidA$_$1", "session") == []
    assert missing(with_table(table.drop(columns="end_s")), "--rate", "HZ", "--ids", "TABLE") == []
    late = table.assign(start_s=table["start_s"] + 2, end_s=table["end_s"] + 2)
    assert missing(with_table(late), "s00", "recording") == []
    together = table.assign(start_s=0.0, end_s=[1.5, 1.8, 2.0, 0.5])
    assert "times have to increase" in with_table(together)
    table.to_csv(tmp_path / "ids.csv", index=False)
    faster = [argument if argument != 10 else 30 for argument in way]
    said = (
        "15 rows at 30 a second last 0.50 s, and --ids says 1.50 s: its last row would be off by 1.00 s. Is --rate 10 "
    )
    assert said in adopt(*faster, option, ids, code=2)
    table.assign(end_s=table["end_s"] + 0.2).to_csv(tmp_path / "ids.csv", index=False)  # two rows: rounded
    adopt(*way, option, ids, "--dry-run")
    assert missing(with_table(table.assign(end_s=table["end_s"] + 0.3)), "0.30 s", "would") == []
    table.to_csv(tmp_path / "ids.csv", index=False)
    assert (
        missing(
            adopt(*[argument if argument != "vision" else "audio" for argument in way], option, ids, code=2),
            "--array",
            "arrays",
        )
        == []
    )


def write_sequence(path: Path, entries: dict[str, tuple[np.ndarray, np.ndarray]]) -> Path:
    """As the SDK writes it."""
    with h5py.File(path, "w") as file:
        root = file.create_group("OpenFace_2")
        for entry, (features, intervals) in entries.items():
            group = root.create_group(f"data/{entry}")
            group.create_dataset("features", data=features, compression="gzip")
            group.create_dataset("intervals", data=intervals)
        metadata = root.create_group("metadata")
        metadata.create_dataset("root name", (1,), dtype=h5py.string_dtype())[0] = '"OpenFace_2"'
    return path


def steps(count: int, step: float = 0.1) -> np.ndarray:
    start = np.arange(count) * step
    return np.stack([start, start + step], axis=1)


def test_a_computational_sequence_has_its_rows_at_the_beginnings_of_their_intervals(
    study: SyntheticStudy, tmp_path: Path
) -> None:
    whole, halves = sample(1, 40).astype(np.float64), sample(2, 40)
    entries = {"s00": (whole, steps(40)), "s01[1]": (halves[20:], steps(40)[20:]), "s01[0]": (halves[:20], steps(20))}
    file = write_sequence(tmp_path / "visual.csd", entries)
    adopt(study.root, file, "--name", "facet", "--columns", "2,0")
    store = FeatureStore(study.root)
    np.testing.assert_array_equal(store.read("s00", "facet"), whole[:, [2, 0]].astype(np.float32))
    np.testing.assert_array_equal(store.read("s01", "facet"), halves[:, [2, 0]])
    np.testing.assert_allclose(store.read("s01", "facet", array="time"), np.arange(40) / 10)
    content = {entry: {"features": of[0], "intervals": of[1]} for entry, of in entries.items()}
    (tmp_path / "visual.pkl").write_bytes(pickle.dumps(content, protocol=3))
    adopt(study.root, tmp_path / "visual.pkl", "--name", "pickled", "--columns", "2,0")
    for array in ("values", "time", "measured"):
        np.testing.assert_array_equal(
            FeatureStore(study.root).read("s01", "pickled", array=array), store.read("s01", "facet", array=array)
        )
    content["s00"]["intervals"] = np.full((40, 2), "our secret")
    (tmp_path / "visual.pkl").write_bytes(pickle.dumps(content))
    assert missing(adopt(study.root, tmp_path / "visual.pkl", "--name", "pickled", code=2), "s00", "<U10") == []


def test_a_frame_has_the_row_during_whose_interval_it_is(study: SyntheticStudy, tmp_path: Path) -> None:
    words = np.array([[0.1, 0.9], [0.9, 1.0], [1.5, 3.0]])
    values = sample(5, 3)
    entries = {session: (values + number, words) for number, session in enumerate(("s00", "s01"))}
    file = write_sequence(tmp_path / "words.csd", entries)
    adopt(study.root, file, "--name", "spans")
    adopt(study.root, file, "--name", "vectors", "--per-frame")
    store = FeatureStore(study.root)
    np.testing.assert_array_equal(store.read("s01", "spans"), values + 1)
    for place, name in enumerate(("time", "end")):
        np.testing.assert_array_equal(store.read("s01", "spans", array=name), words[:, place])
    time = study.arrays["s01", "frames", "time"]
    wanted = np.full((len(time), 3), np.nan, np.float32)
    for (start, end), row in zip(words, values + 1, strict=True):
        wanted[(start <= time) & (time < end)] = row
    is_measured = ~np.isnan(wanted[:, 0])
    np.testing.assert_array_equal(store.read("s01", "vectors"), wanted)
    np.testing.assert_array_equal(store.read("s01", "vectors", array="measured"), is_measured)
    for rate in (None, FPS):
        dataset = ClipDataset(study.root, [ClipInput("spans", rate=rate)])
        for number in np.flatnonzero(dataset.clips["session_id"] == "s01"):
            clip, row = dataset[int(number)], dataset.clips.iloc[number]
            frames = slice(row["start_frame"], row["stop_frame"])
            np.testing.assert_array_equal(clip["spans"], wanted[frames])
            np.testing.assert_array_equal(clip["spans_mask"], is_measured[frames])
    table = store.to_pandas("s01", "spans")
    np.testing.assert_array_equal(np.stack([table.index, table["end"]], axis=1), words)
    on_grid = store.to_pandas("s01", "spans", rate=FPS)
    np.testing.assert_array_equal(on_grid.filter(regex="^[012]$").to_numpy(), wanted)
    words[0, 1] = 0.95
    write_sequence(file, {"s00": (values, words)})
    said = adopt(study.root, file, "--name", "spans", "--force", code=2)
    assert missing(said, "row 1", "0.95 s", "0.9 s", "--per-frame") == []
    words[0, 1], words[2, 1] = 0.9, 4.6
    write_sequence(file, {"s00": (values, words)})
    assert missing(adopt(study.root, file, "--name", "x", code=2), "row 3", "4.6 s") == []


def test_sequences_that_are_of_no_recording_here_are_refused(study: SyntheticStudy, tmp_path: Path) -> None:
    values = sample(1, 40)
    way = [study.root, tmp_path / "x.csd", "--name", "facet"]
    write_sequence(tmp_path / "x.csd", {"s00": (values, steps(40) * 1000), "s01": (values + 1, steps(40) * 1000)})
    assert "--time-unit ms" in adopt(*way, code=2)
    adopt(*way, "--time-unit", "ms")
    np.testing.assert_allclose(FeatureStore(study.root).read("s00", "facet", array="time"), np.arange(40) / 10)
    write_sequence(tmp_path / "x.csd", {"s00": (values, steps(40)), "s01": (values, steps(40))})
    assert missing(adopt(*way, code=2), "x.csd", "s01", "s00") == []
    write_sequence(tmp_path / "x.csd", {"s00": (values, steps(40)[:, :1])})
    assert missing(adopt(*way, code=2), "s00", "40 rows", "(40, 1)") == []
    (tmp_path / "ids.csv").write_text("id,session_id,start_s,end_s\nk [ä],s00,0.5,1.5\n")
    write_sequence(tmp_path / "x.csd", {"k [ä]": (values[:16], steps(16))})
    said = adopt(*way, "--ids", tmp_path / "ids.csv", "--dry-run", code=2)
    assert missing(said, "2.1 s", "1.5 s", "[ä]", "--ids") == []
    write_sequence(tmp_path / "x.csd", {"k [ä]": (values[:15], steps(15) - 0.6)})  # in the session, not in its part
    (tmp_path / "ids.csv").write_text("id,session_id,start_s,end_s\nk [ä],s00,1.0,2.0\n")
    said = adopt(*way, "--ids", tmp_path / "ids.csv", "--dry-run", code=2)
    assert missing(said, "0.4 s", "1 s", "[ä]", "--ids") == []
    (tmp_path / "ids.csv").write_text("id,session_id,start_s,end_s\nk [ä],s00,0.5,1.5\n")
    write_sequence(tmp_path / "x.csd", {"k [ä]": (values[:15], steps(15))})
    assert missing(adopt(*way, "--ids", tmp_path / "ids.csv"), "15 rows", "3 columns", "0.5 to", "1.9 s", "s00") == []
    for end in (0.05, np.nan):
        intervals = steps(40)
        intervals[1, 1] = end
        write_sequence(tmp_path / "x.csd", {"s00": (values, intervals)})
        assert missing(adopt(*way, "--per-frame", code=2), "row 2", "0.1 to", "s00", f"{end:g}") == []
    write_sequence(tmp_path / "x.csd", {"s00": (values, steps(40)), "[3]": (values, steps(40))})
    assert missing(adopt(*way, code=2), "[3]", "session") == []
    (tmp_path / "ids.csv").write_text("id,session_id\ns00,s77\n")
    assert missing(adopt(*way, "--ids", tmp_path / "ids.csv", code=2), "[3]", "s00 (s77)") == []
    assert "nothing.csd: no such file" in adopt(study.root, tmp_path / "nothing.csd", "--name", "facet", code=2)
    write_sequence(tmp_path / "x.csd", {})
    assert "x.csd: is no computational sequence" in adopt(*way, code=2)
    (tmp_path / "x.csd").write_bytes(b"no HDF5")
    assert missing(adopt(*way, code=2), "x.csd", "data/ID/features") == []
    assert missing(adopt(*way, "--session", "s00", code=2), "--ids", "alone") == []


def test_a_sequence_reads_no_other_file_and_takes_no_more_than_it_holds(study: SyntheticStudy, tmp_path: Path) -> None:
    secret = write_sequence(tmp_path / "secret.h5", {"s00": (sample(1, 40), steps(40))})
    file, way = tmp_path / "x.csd", [study.root, tmp_path / "x.csd", "--name", "facet"]
    raw = tmp_path / "secret.bin"
    raw.write_bytes(sample(1, 40).tobytes())
    layout = h5py.VirtualLayout((40, 3), "f4")
    layout[:] = h5py.VirtualSource(secret, "OpenFace_2/data/s00/features", (40, 3))
    there = "/OpenFace_2/data/s00"

    def refused(change: Callable[[Any], Any]) -> str:
        write_sequence(file, {"s00": (sample(1, 40), steps(40))})
        with h5py.File(file, "a") as opened:
            change(opened)
        said = " ".join(adopt(*way, code=2).split())
        assert not FeatureStore(study.root).has("s00", "facet")
        return said

    def instead(name: str, link: Any) -> Callable[[Any], Any]:
        def change(opened: Any) -> None:
            del opened[name]
            opened[name] = link

        return change

    def declared(**of: Any) -> Callable[[Any], Any]:
        def change(opened: Any) -> None:
            del opened[f"{there}/features"]
            opened.create_dataset(f"{there}/features", **of)

        return change

    for name in ("/OpenFace_2", "/OpenFace_2/data", there, f"{there}/features"):
        said = refused(instead(name, h5py.ExternalLink(str(secret), name)))
        assert missing(said, "link", "not followed") == [], name
    assert (
        missing(refused(instead(f"{there}/features", h5py.SoftLink(f"{there}/intervals"))), "link", "another place")
        == []
    )
    assert missing(refused(declared(shape=(40, 3), dtype="f4", external=str(raw))), "values", "other files") == []

    def virtual(opened: Any) -> None:
        del opened[f"{there}/features"]
        opened.create_virtual_dataset(f"{there}/features", layout)

    assert missing(refused(virtual), "values", "other files") == []
    said = refused(declared(shape=(2**40, 3), dtype="f4", chunks=(40, 3), compression="gzip"))
    assert missing(said, "(1099511627776, 3)", "0 bytes") == []
    for kind in (h5py.string_dtype(), h5py.vlen_dtype("f4"), np.dtype([("a", "f4")])):
        assert "not numbers" in refused(declared(shape=(40, 3), dtype=kind))
    constant = np.full((50_000, 3), 0.5, np.float32)  # as far as gzip goes
    with h5py.File(file, "w") as opened:
        opened.create_dataset("x", data=constant, compression="gzip", compression_opts=9, chunks=constant.shape)
        np.testing.assert_array_equal(read_numbers(opened["x"], file), constant)


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> Any:
        return (Path.touch, (self.made,))


def test_a_pickle_runs_nothing(study: SyntheticStudy, tmp_path: Path) -> None:
    way = write_mmsa(tmp_path, raw_text=[Hostile(tmp_path / "made")])
    said = adopt(*way, code=2)
    assert "mosi.pkl: names pathlib.Path.touch, which could run anything" in said or "names builtins.getattr" in said
    assert not (tmp_path / "made").exists()
    assert not FeatureStore(study.root).has("s00", "facet")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"cos\nsystem\n(S'touch made'\ntR.", "names os.system"),
        (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.", "names builtins.eval"),
        (b"\x80\x02cnumpy.core.multiarray\nfromfile\n.", "names numpy.core.multiarray.fromfile"),
        (b"(inumpy\nload\n.", "names numpy.load"),
        (b"\x80\x02cnumpy\ndtype\n(X\x02\x00\x00\x00O8K\x00K\x01tR}b.", "no pickle that can be read"),
        (b"\x80\x02c_codecs\nencode\n(X\x01\x00\x00\x00xX\x04\x00\x00\x00rot3tR.", "in the encoding 'rot3'"),
        (b"\x80\x04P1\n.", "no pickle that can be read"),
        (b"", "no pickle that can be read"),
        (b"\x80\x02Nr\xff\xff\xff\x01.", "a reference that no file of its size needs"),
        (b"cbuiltins\nbytearray\nI100000000\n\x85R.", "names builtins.bytearray"),
        (
            b"\x80\x02cnumpy.core.numeric\n_frombuffer\nN}X\x0c\x00\x00\x00__defaults__X\x01\x00\x00\x00F\x85s\x86b.",
            "changes how it is read",
        ),
    ],
)
def test_nothing_but_numbers_and_texts_is_known(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.pkl").write_bytes(content)
    with pytest.raises(UnsafePickleError, match=said):
        read_pickle(tmp_path / "x.pkl")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_texts_and_numbers_are_read_as_they_are(tmp_path: Path, protocol: int) -> None:
    arrays = [
        np.arange(12, dtype=">i4").reshape(3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(24.0).reshape(2, 3, 4).swapaxes(1, 2),  # neither C's order nor Fortran's: K of protocol 5
        np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
        np.array(["ä", "bcd"]),
        np.array([b"ab", b"c"]),
        np.array(["x", "yz"], object),
        np.array([True, False]),
        np.float16(1.5) * np.ones(2, np.float16),
    ]
    content = {
        "arrays": arrays,
        "scalars": (np.float32(1.25), np.int64(7)),
        "rest": [None, True, 3, 1e300, b"\xff", "ü"],
    }
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(content, protocol=protocol))
    made = read_pickle(tmp_path / "x.pkl")
    assert [made["rest"], made["scalars"]] == [content["rest"], content["scalars"]]
    for got, wanted in zip(map(as_array, made["arrays"]), arrays, strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.shape == wanted.shape
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(np.array([{}, []], object), protocol=protocol))
    with pytest.raises(UnsafePickleError, match="no array of numbers"):
        as_array(read_pickle(tmp_path / "x.pkl"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"cnumpy.core.multiarray\n_reconstruct\n)R.", "has a damaged array"),  # without a state
        (pickle.dumps(np.arange(3.0), 2).replace(b"K\x03\x85", b"K\x04\x85"), "has a damaged array"),
        (pickle.dumps([[1.0]] * 2), "no array of numbers"),  # small in the file, and of any size when it is made
        (pickle.dumps([[[1.0]], [[2.0]]]), "no array of numbers"),
    ],
)
def test_an_array_is_of_the_size_of_its_content(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.pkl").write_bytes(content)
    with pytest.raises(UnsafePickleError, match=said):
        as_array(read_pickle(tmp_path / "x.pkl"))
    (tmp_path / "x.pkl").write_bytes(pickle.dumps([[1, 2], [3, 4]]))
    np.testing.assert_array_equal(as_array(read_pickle(tmp_path / "x.pkl")), [[1, 2], [3, 4]])
