"""Labels from BORIS, Datavyu and NOVA, in files as their exports, savers and documentation have them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from storyframes_labels.annotation_file import AnnotationFile, ImportFaultError
from storyframes_labels.import_labels import Import, Imported, import_labels
from storyframes_labels.read_annotations import read_all
from support.messages import missing
from support.tools.plug_ins import write

from tasks.study.curves import CurveSamples, values_at
from tasks.study.labels import SchemeType
from tasks.study.load import load_study


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "sessions.csv").write_text("session_id,participant_id,video\ns1,p1,media/cam1.mp4\ns2,p2,media/b.mp4\n")
    return folder


def read(path: Path) -> AnnotationFile:
    return read_all([path], [], {})[0][0]


def bring(study: Path, paths: list[Path], *pairs: str, **how: object) -> Imported:
    files, targets = read_all(paths, pairs, {})
    return import_labels(files, Import(targets=targets, **how), study)


def refused(path: Path) -> str:
    with pytest.raises(ImportFaultError) as error:
        read(path)
    return str(error.value)


def labels(study: Path) -> list[tuple[object, ...]]:
    return [
        (one.session_id, one.scheme, one.value, one.start_s, one.end_s, one.person_id)
        for one in load_study(study).labels
    ]


# --- BORIS ----------------------------------------------------------------------------------------------------------

HEAD = ("Observation id", "Observation date", "Description", "Observation duration", "Observation type", "Source")
HEAD += ("Time offset (s)", "Media duration (s)", "FPS", "Subject", "Behavior", "Behavioral category", "Modifier #1")
HEAD += ("Behavior type", "Time", "Media file name", "Image index", "Image file path", "Comment")
EVENTS = (
    ("mother", "talk", "speech", "loud", "START", "1.25"),
    ("child", "talk", "speech", "None", "START", "2.0"),
    ("mother", "talk", "speech", "loud", "STOP", "3.5"),
    ("No focal subject", "clap", "", "None", "POINT", "4.75"),
    ("child", "talk", "speech", "None", "STOP", "6.125"),
)
OBSERVATION = ("obs1", "2024-05-01 10:00:00", "", "9.5", "Media file", "player #1:media/cam1.mp4", "0", "12", "25")
ROWS = [(*OBSERVATION, *event, "media/cam1.mp4", "31", "", "") for event in EVENTS]
TABULAR = "".join("\t".join(row) + "\n" for row in (HEAD, *ROWS))
SPANS = [
    ("s1", "speech", "talk", 1.25, 3.5, "mother"),
    ("s1", "loudness", "loud", 1.25, 3.5, "mother"),
    ("s1", "event", "clap", 4.75, 4.75, None),
    ("s1", "speech", "talk", 2.0, 6.125, "child"),
]
MAPPED = ("speech=speech:nominal", "Behavior=event:nominal", "talk: Modifier #1=loudness:nominal")


def test_tabular_events_of_boris(tmp_path: Path, study: Path) -> None:
    (tmp_path / "x.tsv").write_text(TABULAR)
    made = bring(study, [tmp_path / "x.tsv"], *MAPPED)
    assert labels(study) == SPANS
    assert [row["person_id"] for row in made.rows["persons"]] == ["mother", "child"]
    (tmp_path / "x.tsv").write_text(TABULAR.replace("STOP\t3.5", "POINT\t3.5"))
    assert missing(refused(tmp_path / "x.tsv"), "row 2", "START", "STOP") == []


def test_what_the_user_says_of_the_rows_goes_before_what_the_columns_look_like(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(TABULAR)
    ((plain,), _) = read_all([tmp_path / "x.tsv"], [], {}, rate=25)
    assert plain.unit == "rows, 25 a second"
    behaviors = [(one.value, one.start_s) for one in plain.annotations if one.tier == "Behavior"]
    assert behaviors[:2] == [("talk", 0), ("talk", 0.04)]


def test_aggregated_events_of_boris_in_a_workbook(tmp_path: Path, study: Path) -> None:
    book = openpyxl.Workbook()
    head = ("Observation id", "Observation type", "Source", "Time offset (s)", "Subject", "Behavior")
    tail = (
        "Behavioral category",
        "Modifier #1",
        "Behavior type",
        "Start (s)",
        "Stop (s)",
        "Duration (s)",
        "Media file name",
    )
    book.active.append((*head, *tail))
    for subject, behavior, category, modifier, kind, start_s, stop_s in (
        ("mother", "talk", "speech", "loud", "STATE", 1.25, 3.5),
        ("No focal subject", "clap", None, None, "POINT", 4.75, 4.75),
        ("child", "talk", "speech", None, "STATE", 2, 6.125),
    ):
        of = ("obs1", "Media file", "player #1:media/cam1.mp4", 0, subject, behavior)
        book.active.append((*of, category, modifier, kind, start_s, stop_s, stop_s - start_s, "media/cam1.mp4"))
    book.save(tmp_path / "x.xlsx")
    bring(study, [tmp_path / "x.xlsx"], *MAPPED)
    assert labels(study) == SPANS


def test_tabular_events_of_an_old_boris_have_lines_above(tmp_path: Path, study: Path) -> None:
    above = "Observation id,s2\n\nMedia file(s)\n\nPlayer #1,/home/me/b.mp4\n\nTime offset (s),{}\n\n"
    table = (
        "Time,Media file path,Total length,FPS,Subject,Behavior,Behavioral category,Comment,Status\n"
        "0.5,/home/me/b.mp4,12,25,,nod,,,START\n00:00:01.25,/home/me/b.mp4,12,25,,nod,,,STOP\n"
    )
    (tmp_path / "x.csv").write_text(above.format("0.0") + table)
    bring(study, [tmp_path / "x.csv"], "Behavior=event:nominal")
    assert labels(study) == [("s2", "event", "nod", 0.5, 1.25, None)]
    (tmp_path / "x.csv").write_text(above.format("7.5") + table)
    assert read(tmp_path / "x.csv").origins_s == (7.5,)


def test_media_of_boris_one_after_the_other_are_refused_because_times_go_on(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(TABULAR.replace("media/cam1.mp4\t0", "media/cam1.mp4;media/b.mp4\t0"))
    assert missing(refused(tmp_path / "x.tsv"), "row 4", "several") == []
    (tmp_path / "x.tsv").write_text(TABULAR.replace("media/cam1.mp4\t0", "media/cam1.mp4|player #2:media/b.mp4\t0"))
    assert {one.file for one in read(tmp_path / "x.tsv").annotations} == {"cam1.mp4"}
    above = "Observation id,s2\nPlayer #1,a.mp4\n{}Time,Subject,Behavior,Status\n0.5,,nod,POINT\n{}"
    (tmp_path / "x.csv").write_text(above.format("Player #1,b.mp4\n", ""))
    assert missing(refused(tmp_path / "x.csv"), "several", "names") == []
    (tmp_path / "x.csv").write_text(above.format("", "0.7,,nod,a,POINT\n"))
    assert missing(refused(tmp_path / "x.csv"), "row 5", "another") == []


@pytest.mark.parametrize("names", [("母", "child"), ("Kid 1", "Kid-1")])
def test_subjects_of_boris_that_give_no_id_of_their_own(tmp_path: Path, names: tuple[str, str]) -> None:
    (tmp_path / "x.tsv").write_text(TABULAR.replace("mother", names[0]).replace("child", names[1]))
    assert missing(refused(tmp_path / "x.tsv"), "Subject", "another") == []


# --- Datavyu --------------------------------------------------------------------------------------------------------

DATAVYU = (
    "#4\nid (MATRIX,true,)-code01|NOMINAL\n00:00:00:000,00:00:00:000,(7)\n"
    "gaze (MATRIX,true,)-target|NOMINAL,quality|NOMINAL\n"
    "00:00:01:250,00:00:02:040,(mother,good)\n00:01:00:000,01:00:00:001,(toy\\, red,)\n"
)


def test_cells_of_datavyu(tmp_path: Path, study: Path) -> None:
    (tmp_path / "b.csv").write_text(DATAVYU)
    bring(study, [tmp_path / "b.csv"], "gaze.target=gaze:nominal", "gaze.quality=quality:nominal", skip=["id.code01"])
    assert labels(study) == [
        ("s2", "gaze", "mother", 1.25, 2.04, None),
        ("s2", "quality", "good", 1.25, 2.04, None),
        ("s2", "gaze", "toy, red", 60.0, 3600.001, None),
    ]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("(mother,good)", "(mother)", "line 5: has 1 codes, its column 2"),
        ("00:00:01:250,", "1.25,", "line 5: is neither a column nor a cell of Datavyu"),
    ],
)
def test_what_is_no_cell(tmp_path: Path, before: str, after: str, message: str) -> None:
    (tmp_path / "b.csv").write_text(DATAVYU.replace(before, after))
    assert message in refused(tmp_path / "b.csv")


# --- NOVA -----------------------------------------------------------------------------------------------------------

ITEMS = '<item name="laugh" id="0" color="#FFC0504D" /><item name="speech" id="1" color="#FF1F497D" />'


def nova(folder: Path, scheme: str, content: bytes, size: int, ftype: str = "ASCII") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    header = f'<?xml version="1.0" ?>\n<annotation ssi-v="3">\n<info ftype="{ftype}" size="{size}" />'
    path = folder / "mother.x.kim.annotation"
    path.write_text(f'{header}<meta annotator="kim" role="mother"/>{scheme}</annotation>\n')
    (folder / f"{path.name}~").write_bytes(content)
    return path


@pytest.mark.parametrize("ftype", ["ASCII", "BINARY"])
def test_a_discrete_scheme_of_nova_in_the_session_s_folder(tmp_path: Path, study: Path, ftype: str) -> None:
    rows = [(2.96, 3.92, 1, 1.0), (8.0, 9.72, 0, 0.6), (10.0, 11.0, -1, 1.0)]
    text = "".join(f"{start:g};{end:g};{code};{sure:g}\n" for start, end, code, sure in rows).encode()
    content = text if ftype == "ASCII" else b"".join(struct.pack("<ddif", *row) for row in rows)
    scheme = f'<scheme name="laughter" type="DISCRETE" color="#FFEEECE1">{ITEMS}</scheme>'
    paths = [nova(tmp_path / name, scheme, content, 3, ftype) for name in ("s1", "s2")]
    bring(study, paths, "laughter=laughter")
    loaded = load_study(study)
    assert [(one.session_id, one.value, one.start_s, one.end_s, one.confidence) for one in loaded.labels] == [
        (session, *row) for session in ("s1", "s2") for row in (("speech", 2.96, 3.92, 1.0), ("laugh", 8.0, 9.72, 0.6))
    ]
    assert {one.rater_id for one in loaded.labels} == {"kim"}
    assert loaded.schemes["laughter"].labels == ("laugh", "speech")
    assert read(paths[0]).remarks == ("1 of a class that the scheme does not name, left out",)


@pytest.mark.parametrize("ftype", ["ASCII", "BINARY"])
def test_a_continuous_scheme_of_nova_is_a_curve(tmp_path: Path, study: Path, ftype: str) -> None:
    values = [0.125, -0.5, float("nan"), 1.0]
    text = "".join(f"{value};1\n" for value in values).encode()
    content = text if ftype == "ASCII" else b"".join(struct.pack("<ff", value, 1) for value in values)
    scheme = '<scheme name="valence" type="CONTINUOUS" sr="25" min="-1" max="1"/>'
    path = nova(tmp_path / "s1", scheme, content, 4, ftype)
    bring(study, [path], "valence=valence", session_id="s1")
    loaded = load_study(study)
    samples = CurveSamples.read(study / loaded.curves[0].path, loaded.schemes["valence"])
    assert samples.time_s.tolist() == [0.0, 0.04, 0.08, 0.12]
    np.testing.assert_array_equal(samples.value, values)
    # one moment without a value is a gap: nothing is drawn across it
    np.testing.assert_array_equal(
        values_at(samples, np.array([0.02, 0.06, 0.08, 0.1])), [-0.1875, np.nan, np.nan, np.nan]
    )
    assert (loaded.schemes["valence"].type, loaded.schemes["valence"].minimum) == (SchemeType.CURVE, -1.0)


@pytest.mark.parametrize("ftype", ["ASCII", "BINARY"])
def test_a_free_scheme_of_nova_is_private_text(tmp_path: Path, study: Path, ftype: str) -> None:
    binary = struct.pack("<ddi", 0.5, 1.5, 5) + "héllo".encode("latin-1") + struct.pack("<f", 1)
    content = "0.5;1.5;héllo;1\n".encode() if ftype == "ASCII" else binary
    path = nova(tmp_path, '<scheme name="words" type="FREE"/>', content, 1, ftype)
    bring(study, [path], "words=words", session_id="s1")
    loaded = load_study(study)
    assert labels(study) == [("s1", "words", "héllo", 0.5, 1.5, None)]
    assert loaded.schemes["words"].private


def test_what_is_no_whole_annotation_of_nova(tmp_path: Path) -> None:
    scheme = f'<scheme name="laughter" type="DISCRETE">{ITEMS}</scheme>'
    path = nova(tmp_path, scheme, b"2.96;3.92;1;1\n", 2)
    assert missing(refused(path), "1 rows", "says 2", "mother.x.kim.annotation") == []
    for attributes in ('type="FREE"', 'type="CONTINUOUS" sr="0" min="0" max="1"'):  # a negative length; a rate of 0
        content = struct.pack("<ddi", 0.5, 1.5, -24) + bytes(36)
        nova(tmp_path, f'<scheme name="x" {attributes}/>', content, 7 if "sr" in attributes else 1, "BINARY")
        assert "is not as mother.x.kim.annotation says" in refused(path)
    nova(tmp_path, scheme, b"2.96;3.92;1\n", 1)
    assert "is not as mother.x.kim.annotation says" in refused(path)
    (tmp_path / f"{path.name}~").unlink()
    assert "mother.x.kim.annotation~: is missing" in refused(path)
    path.write_text('<!DOCTYPE a [<!ENTITY b "c">]><annotation/>')
    assert missing(refused(path), "XML", "annotation") == []


# --- a format that another plug-in reads ------------------------------------------------------------------------------

READER = """
from tasks.study.first_tables.recording_names import FilesError

def read_odd(path):
    match path.read_text():
        case "empty":
            return []
        case "refused":
            raise FilesError("is half a file: write it again")
        case row:
            return [{"tier": "lamp", "value": "red", **eval(row)}]
"""


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's distribution with readers of .lamps, the example plug-in's, and of .odd; one of .broken fails."""
    points = {"lamps": "storyframes_light:read_lamps", "odd": "reader_of_odd:read_odd", "broken": "reader_of_odd:no"}
    folder = write(tmp_path / "installed", "a-reader", points, "storyframes.importers", reader_of_odd=READER)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.usefixtures("reader")
def test_a_format_of_another_plug_in_is_imported_like_any(tmp_path: Path, study: Path) -> None:
    (tmp_path / "b.lamps").write_text("0.5 2 red\n3 4.25 green\n")
    imported = bring(study, [tmp_path / "b.lamps"], "lamp=lamp:nominal", session_id="s2")
    assert imported.labels == {"lamp": 2}
    found = [(label.session_id, label.value, label.start_s, label.end_s) for label in load_study(study).labels]
    assert found == [("s2", "red", 0.5, 2.0), ("s2", "green", 3.0, 4.25)]


@pytest.mark.usefixtures("reader")
def test_numbers_that_a_reader_gives_are_their_text_and_none_is_no_value(tmp_path: Path, study: Path) -> None:
    path = tmp_path / "s2.odd"
    path.write_text("{'start_s': 1, 'end_s': 2, 'confidence': 0.0, 'rater_id': 7, 'file': None}")
    (row,) = bring(study, [path], "lamp=lamp:nominal", session_id="s2").rows["labels"]
    assert (row["confidence"], row["rater_id"]) == ("0.0", "7")
    path.write_text("{'value': None}")
    ((file,), _) = read_all([path], [], {})
    assert (file.annotations, len(file.remarks)) == ((), 1)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("refused", "x.odd: is half a file: write it again"),
        ("{'start_s': 1}", "annotation 1 needs both start_s and end_s, in seconds, or none of them"),
        ("{'start_s': 1, 'end_s': float('nan')}", "annotation 1 needs both start_s and end_s"),
        ("{'start_s': 'our secret', 'end_s': 2}", r"x.odd: its reader cannot read it \(ValueError\)$"),
        ("'our secret'.name", r"x.odd: its reader cannot read it \(AttributeError\)$"),
        ("{'colour': 1}", "annotation 1 has colour, which no annotation has"),
    ],
)
def test_what_a_reader_of_another_plug_in_may_not_do(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.odd").write_text(content)
    with pytest.raises(ImportFaultError, match=message):
        read_all([tmp_path / "x.odd"], [], {})


@pytest.mark.usefixtures("reader")
def test_a_reader_that_cannot_be_loaded_and_a_format_that_nobody_reads(tmp_path: Path) -> None:
    messages = {"broken": "the plug-in that reads .broken: cannot be loaded", "mov": "plug-ins read others"}
    for suffix, message in messages.items():
        with pytest.raises(ImportFaultError, match=message):
            read_all([tmp_path / f"x.{suffix}"], [], {})
