"""Labels as labs have them: ratings in a workbook, several raters' tiers, many files at once, and curves."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
import sys
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import openpyxl
import pytest
from openpyxl.chart import LineChart, Reference
from storyframes_labels.annotation_file import ImportFaultError
from storyframes_labels.import_labels import Import, Imported, import_labels
from storyframes_labels.mapping import range_in_name
from storyframes_labels.read_annotations import read_all
from support.media.newcomer import RECORDINGS, SESSIONS, write_elan, write_ratings_sheet, write_sheet
from support.media.recordings import write_recording
from support.messages import missing
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.store.layout import ID_PATTERN
from storyframes.store.storage.files import write_atomically
from tasks.study.curves import CurveSamples
from tasks.study.labels import Scheme, SchemeType
from tasks.study.load import Study, load_study

ROOT = Path(__file__).parents[3]
NO_TIMES: dict[object, str | None] = {}
NAMES = [made.name for made in RECORDINGS]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two sessions, the first with a second camera."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "sessions.csv").write_text("session_id,participant_id,video\ns1,p1,media/a_cam1.mp4\ns2,p2,media/b.mp4\n")
    (folder / "tracks.csv").write_text("session_id,track,video\ns1,cam2,media/a_cam2.mp4\n")
    return folder


def bring(study: Path, path: Path | list[Path], *pairs: str, is_dry: bool = False, **options: object) -> Imported:
    """Import with these ``--map`` and other options."""
    paths = path if isinstance(path, list) else [path]
    of_labels = ("skip", "rater_id", "person_id", "session_from", "offset_s")
    how = {name: options.pop(name) for name in list(options) if name in of_labels}
    files, targets = read_all(paths, pairs, NO_TIMES, **options)
    return import_labels(files, Import(targets=targets, **how), study, is_dry=is_dry)


def refused(*arguments: object, **options: object) -> str:
    with pytest.raises(ImportFaultError) as error:
        bring(*arguments, **options)
    return str(error.value)


def labels(study: Path) -> list[tuple[object, ...]]:
    return [(one.session_id, one.scheme, one.value, one.rater_id, one.track) for one in load_study(study).labels]


SHEET = ("File=@file", "Rater=@rater", "Empathy (0-100)=empathy")


def test_a_workbook_of_ratings_by_file_name_is_labels_with_their_range(tmp_path: Path, study: Path) -> None:
    sheet = write_ratings_sheet(tmp_path / "r.xlsx", {"a_cam1.mp4": (20, 75), "B.MP4": (0, 100)})
    bring(study, sheet, *SHEET)
    assert labels(study) == [
        ("s1", "empathy", 20.0, "Kim", None),
        ("s1", "empathy", 75.0, "Lee", None),
        ("s2", "empathy", 0.0, "Kim", None),
        ("s2", "empathy", 100.0, "Lee", None),
    ]
    assert load_study(study).schemes["empathy"] == Scheme("empathy", SchemeType.INTERVAL, 0.0, 100.0)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_sheet_with_any_separator_and_decimal_commas(tmp_path: Path, study: Path, separator: str) -> None:
    point = "." if separator == "," else ","
    rows = [("Session", "Rater", "Warmth [1..7]"), ("s2", "Kim B.", f"2{point}5"), ("s1", "Kim B.", f"6{point}75")]
    (tmp_path / "r.csv").write_text("\n".join(separator.join(row) for row in rows) + "\n")
    made = bring(study, tmp_path / "r.csv", "Session=@session", "Rater=@rater", "Warmth [1..7]=warmth:ordinal:1..7")
    assert labels(study) == [("s2", "warmth", 2.5, "Kim-B", None), ("s1", "warmth", 6.75, "Kim-B", None)]
    assert missing(made.remarks, "written", "raters") == []


def test_a_long_sheet_names_its_schemes_in_a_column(tmp_path: Path, study: Path) -> None:
    sheet = write_sheet(tmp_path / "r.xlsx", ("Clip", "What", "Score"), ("a_cam2", "warm", 3), ("b.mp4", "near", 4))
    bring(study, sheet, "Clip=@file", "What=@tier", "Score=@value", "warm=w:ordinal:1..5", "near=n:interval")
    assert labels(study) == [("s1", "w", 3.0, None, "cam2"), ("s2", "n", 4.0, None, None)]


def test_files_of_one_name_are_distinguished_by_their_folders(tmp_path: Path, study: Path) -> None:
    rows = "s1,p1,v/day1/cam.mp4\ns2,p2,v/day2/cam.mp4\ns3,p3,v/day3/p01.mp4\n"
    (study / "sessions.csv").write_text(f"session_id,participant_id,video\n{rows}")
    (study / "tracks.csv").unlink()
    sheet = tmp_path / "r.csv"
    sheet.write_text("File,warm\nC:\\x\\Day2\\cam.mp4,2\nday1/cam.mp4,1\nday9/p01.mp4,3\n")
    bring(study, sheet, "File=@file", "warm=w:interval")
    assert [one[0] for one in labels(study)] == ["s2", "s1", "s3"]
    for unclear in ("cam.mp4", "p01.2", "p01.mp4,4\nday8/p01.mp4"):
        sheet.write_text(f"File,warm\n{unclear},5\n")
        assert "of which session is it?" in refused(study, sheet, "File=@file", "warm=x:interval")


def test_what_is_not_mapped_is_answered_with_options_that_work(tmp_path: Path, study: Path) -> None:
    sheet = write_ratings_sheet(tmp_path / "r.xlsx", {"a_cam1.mp4": (20, 75)})
    message = refused(study, sheet)
    assert missing(message, "'Empathy (0-100)=empathy:interval:0..100'", "--map", "File=@file", "Rater=@rater") == []
    bring(study, sheet, "File=@file", "Rater=@rater", "Empathy (0-100)=empathy:interval:0..100")
    assert len(labels(study)) == 2


def test_sheets_that_would_be_misread_are_refused_and_nothing_is_written(tmp_path: Path, study: Path) -> None:
    before = {path.name: path.read_bytes() for path in study.iterdir()}
    head = ("File", "Rater", "Empathy (0-100)")
    sheet = tmp_path / "r.xlsx"
    cases = {
        "c.mp4 and": ("r.xlsx: c.mp4: of which session is it?", [("c.mp4", "Kim", 1)]),
        "formula": ("the cell C2 is a formula whose value is not stored", [("b.mp4", "Kim", "=1+1")]),
        "range": ("row 2, Empathy (0-100): its value is outside the scheme 'empathy'", [("b.mp4", "Kim", 101)]),
        "date": ("its value must be a number", [("b.mp4", "Kim", date(2024, 5, 1))]),
        "twice": ("with these labels the study would not be valid", [("b.mp4", "Kim", 1), ("b.mp4", "Kim", 2)]),
    }
    for message, rows in cases.values():
        assert message in refused(study, write_sheet(sheet, head, *rows), *SHEET)
    book = openpyxl.load_workbook(write_sheet(sheet, head, ("b.mp4", "Kim", 1), (None, "Lee", 2)))
    book.active.merge_cells("A2:A3")
    book.save(sheet)
    assert "the cells A2:A3 are merged" in refused(study, sheet, *SHEET)
    book.active.unmerge_cells("A2:A3")
    book.create_sheet("more").append(("x", "y"))
    book["more"].append((1, 2))
    book.save(sheet)
    assert missing(refused(study, sheet, *SHEET), "'Sheet'", "'more'", "--sheet", "NAME") == []
    sheet.write_bytes(b"\xd0\xcf\x11\xe0old")
    assert missing(refused(study, sheet, *SHEET), "protected", "password") == []
    change_cells(write_sheet(sheet, head, ("b.mp4", "Kim", 1)), lambda cells: cells[:-60])
    assert "or damaged" in refused(study, sheet, *SHEET)
    assert {path.name: path.read_bytes() for path in study.iterdir()} == before


def change_cells(path: Path, change: Callable[[bytes], bytes]) -> Path:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, change(content) if name.endswith("sheet1.xml") else content)
    return path


def test_a_formula_that_gives_an_empty_text_is_an_empty_cell(tmp_path: Path, study: Path) -> None:
    rows = (("File", "Mood"), ("b.mp4", 3), ("a_cam1.mp4", '=IF(B2=3,"","x")'))
    sheet = write_sheet(tmp_path / "r.xlsx", *rows)
    change_cells(sheet, lambda cells: cells.replace(b'"B3"', b'"B3" t="str"'))
    bring(study, sheet, "File=@file", "Mood=mood:interval")
    assert labels(study) == [("s2", "mood", 3.0, None, None)]


def test_percent_cells_are_said_to_be_fractions(tmp_path: Path, study: Path) -> None:
    book = openpyxl.load_workbook(write_sheet(tmp_path / "r.xlsx", ("File", "Sure"), ("b.mp4", 0.4)))
    book.active["B2"].number_format = "0%"
    book.save(tmp_path / "r.xlsx")
    files, _ = read_all([tmp_path / "r.xlsx"], ["File=@file"], NO_TIMES)
    assert files[0].remarks == ("column B is shown in percent: 40 % is read as 0.4",)
    book.active["B1"] = "Sure (0-100)"
    book.save(tmp_path / "r.xlsx")
    assert missing(refused(study, tmp_path / "r.xlsx", "File=@file"), "'Sure (0-100)'", "percent") == []


def test_hidden_cells_are_named_and_sheets_of_charts_are_none(tmp_path: Path, study: Path) -> None:
    rows = (("File", "E (0-100)"), ("a_cam1.mp4", 1), ("b.mp4", 2))
    book = openpyxl.load_workbook(write_sheet(tmp_path / "r.xlsx", *rows))
    book.active.row_dimensions[3].hidden = True
    book.active.column_dimensions["B"].hidden = True
    chart = LineChart()
    chart.add_data(Reference(book.active, min_col=2, min_row=1, max_row=3))
    book.create_chartsheet("Drawn").add_chart(chart)
    book.save(tmp_path / "r.xlsx")
    files, _ = read_all([tmp_path / "r.xlsx"], ["File=@file"], NO_TIMES)
    assert files[0].remarks == ("row 3, column B: hidden, and read like the others",)
    assert missing(refused(study, tmp_path / "r.xlsx", "File=@file", sheet="Drawn"), "'Drawn'", "'Sheet'") == []


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("Empathy (0-100)", (0, 100)),
        ("Valence (-1 to 1)", (-1, 1)),
        ("Valence (−1–+1)", (-1, 1)),
        ("Warmth [1..7]", (1, 7)),
        ("Warmth (0.5 - 1.5)", (0.5, 1.5)),
        ("Warmth (5-1)", None),
        ("Story (2)", None),
    ],
)
def test_the_range_in_a_column_s_name(name: str, limits: tuple[float, float] | None) -> None:
    assert range_in_name(name) == limits


def test_a_range_that_is_not_the_scheme_s_is_refused(tmp_path: Path, study: Path) -> None:
    (tmp_path / "r.csv").write_text("session_id,e (0-100),f (1-5)\ns1,3,4\n")
    sheet = tmp_path / "r.csv"
    assert missing(refused(study, sheet, "e (0-100)=e", "f (1-5)=e"), "1 to 5", "0 to 100") == []
    (study / "schemes.csv").write_text("scheme,type,min,max\ne,interval,1,7\n")
    message = refused(study, sheet, "e (0-100)=e", skip=["f (1-5)"])
    assert missing(message, "e:1..7", "values") == []
    bring(study, sheet, "e (0-100)=e:1..7", "f (1-5)=f:interval:1..1234567")
    assert labels(study) == [("s1", "e", 3.0, None, None), ("s1", "f", 4.0, None, None)]
    assert load_study(study).schemes["f"].maximum == 1234567


def test_several_raters_of_one_elan_file(tmp_path: Path, study: Path) -> None:
    made = bring(study, write_elan(tmp_path / "x.eaf", "a_cam1.mp4"), "gaze=gaze:nominal", "gaze (2)=gaze")
    spans = [(one.session_id, one.value, one.rater_id, one.start_s, one.end_s) for one in load_study(study).labels]
    assert spans == [("s1", "away", "Kim", 1.0, 4.0), ("s1", "away", "Lee", 1.5, 4.5)]
    assert made.remarks == ("x.eaf: is of session s1, by the name a_cam1.mp4",)


def test_a_rater_of_the_user_replaces_a_single_one_and_tiers_without_one_are_named(tmp_path: Path, study: Path) -> None:
    path = write_elan(tmp_path / "b.eaf", "")
    both = ("gaze=gaze:nominal", "gaze (2)=gaze")
    assert missing(refused(study, path, *both, rater_id="r1"), "--rater", "raters") == []
    made = bring(study, path, both[0], skip=["gaze (2)"], rater_id="r1", is_dry=True)
    assert [row["rater_id"] for row in made.rows["labels"]] == ["r1"]
    assert missing(made.remarks, "b.eaf", "--rater", "r1") == []
    path.write_text(path.read_text().replace(' ANNOTATOR="Kim"', "").replace(' ANNOTATOR="Lee"', ""))
    assert missing(bring(study, path, *both).remarks[0], "'gaze'", "'gaze (2)'", "b.eaf") == []


def test_files_of_several_folders_are_named_with_them(
    tmp_path: Path, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("s1/x.eaf", "s2/x.eaf", "s2/y.eaf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_elan(tmp_path / name, "")
    monkeypatch.chdir(tmp_path)
    for second in ("x.eaf", "y.eaf"):
        paths = [Path("s1/x.eaf"), tmp_path / "s2" / second]
        made = bring(study, paths, "gaze=gaze:nominal", skip=["gaze (2)"], session_from="{session}/*", is_dry=True)
        assert [row["session_id"] for row in made.rows["labels"]] == ["s1", "s2"]


def test_entities_of_xml_are_never_expanded(tmp_path: Path, study: Path) -> None:
    (tmp_path / "x.eaf").write_text('<!DOCTYPE x [<!ENTITY a "aaaa">]><ANNOTATION_DOCUMENT>&a;</ANNOTATION_DOCUMENT>')
    assert missing(refused(study, tmp_path / "x.eaf", "gaze=gaze"), "XML") == []


def test_many_files_are_one_import(tmp_path: Path, study: Path) -> None:
    paths = [write_elan(tmp_path / f"{name}.eaf", "") for name in ("a_cam1", "b")]
    bring(study, paths, "gaze=gaze:nominal", "gaze (2)=gaze")
    assert [one[0] for one in labels(study)] == ["s1", "s1", "s2", "s2"]
    (study / "labels.csv").unlink()
    (study / "schemes.csv").unlink()
    paths.append(write_elan(tmp_path / "nobody.eaf", ""))
    assert missing(refused(study, paths, "gaze=gaze:nominal", "gaze (2)=gaze"), "nobody.eaf", "session") == []
    assert not (study / "labels.csv").exists()


@pytest.mark.parametrize("timed", [True, False])
def test_continuous_ratings_become_curves_of_each_rater(tmp_path: Path, study: Path, timed: bool) -> None:
    rows = [(0.0, -0.5, 0.25), (0.04, 0.75, 0.5), (0.08, 1.0, -1.0)]
    lines = ["Zeit [s];Kim;Lee", *(";".join(f"{cell:g}".replace(".", ",") for cell in row) for row in rows)]
    (tmp_path / "b.csv").write_text("\n".join(lines if timed else [line.partition(";")[2] for line in lines]) + "\n")
    pairs = ("Kim=valence:curve:-1..1", "Lee=valence", *(["Zeit [s]=@time"] if timed else []))
    made = bring(study, tmp_path / "b.csv", *pairs, rate=None if timed else 25.0)
    loaded = load_study(study)
    assert [(curve.session_id, curve.rater_id) for curve in loaded.curves] == [("s2", "Kim"), ("s2", "Lee")]
    for curve, column in zip(loaded.curves, (1, 2), strict=True):
        samples = CurveSamples.read(study / curve.path, loaded.schemes["valence"])
        assert samples.time_s.tolist() == [0.0, 0.04, 0.08]
        assert samples.value.tolist() == [row[column] for row in rows]
    assert (made.labels, loaded.schemes["valence"].maximum) == ({"valence": 6}, 1.0)
    assert missing(refused(study, tmp_path / "b.csv", *pairs, rate=None if timed else 25.0), "already", "nothing") == []


def test_rows_at_a_rate_are_counted_by_owner_and_never_beside_times(tmp_path: Path, study: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("session_id,tier,value\ns1,v,0.1\ns1,v,0.2\ns1,w,0.3\ns1,w,0.4\n")
    made = bring(study, path, "v=v:curve:0..1", "w=w:curve:0..1", rate=10.0, is_dry=True)
    assert made.labels == {"v": 2, "w": 2}
    bring(study, path, "v=v:curve:0..1", "w=w:curve:0..1", rate=10.0)
    assert [CurveSamples.read(study / curve.path).time_s.tolist() for curve in load_study(study).curves] == [
        [0.0, 0.1]
    ] * 2
    for mixed in ("session_id,v\ns1,1\ns2,1\ns1,2\n", "session_id,tier,value\ns1,v,1\ns1,w,1\ns1,v,2\n"):
        path.write_text(mixed)
        assert missing(refused(study, path, "v=x:curve", skip=["*"], rate=10.0), "row 4", "c.csv") == []
    path.write_text("session_id,t_s,v\ns1,0,1\ns1,5,1\n")
    message = refused(study, path, "v=x:curve", "t_s=@time", rate=10.0)
    assert missing(message, "c.csv", "t_s", "--rate") == []


def test_curves_whose_names_join_to_one_are_two_files_and_persons_are_not_lost(tmp_path: Path, study: Path) -> None:
    path = tmp_path / "c.csv"
    (study / "sessions.csv").write_text("session_id,participant_id,video\ns1,p1,a.mp4\ns1_v,p1,b.mp4\n")
    path.write_text("session_id,t_s,v,v_v\ns1,0,,0.25\ns1_v,0,0.5,\n")
    bring(study, path, "v=v:curve:0..1", "v_v=v_v:curve:0..1", "t_s=@time")
    values = {
        curve.session_id: CurveSamples.read(study / curve.path).value.tolist() for curve in load_study(study).curves
    }
    assert values == {"s1": [0.25], "s1_v": [0.5]}
    path.write_text("session_id,person_id,t_s,v\ns1,kid,0,0.25\ns1,mum,1,0.5\n")
    assert "names several persons" in refused(study, path, "v=v:curve:0..1", "t_s=@time")
    path.write_text("session_id,t_s,v\ns1,0,0.25\n")
    made = bring(study, path, "v=v:curve:0..1", "t_s=@time", person_id="kid")
    assert made.remarks == ("curves have no person and no confidence: left out of them",)


def test_a_full_disk_leaves_a_valid_study(tmp_path: Path, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(path: Path, content: bytes) -> None:
        if path.name == "labels.csv":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_atomically(path, content)

    monkeypatch.setattr("tasks.study.changed_tables.write_atomically", write)
    (tmp_path / "c.csv").write_text("session_id,t_s,v,w\ns1,0,0.5,1\n")
    with pytest.raises(OSError, match="No space"):
        bring(study, tmp_path / "c.csv", "v=v:curve:0..1", "w=w:interval", "t_s=@time")
    assert (load_study(study).curves, list((study / "curves").iterdir())) == ((), [])


def test_a_curve_outside_its_scheme_is_not_written(tmp_path: Path, study: Path) -> None:
    (tmp_path / "b.csv").write_text("t (s),valence\n0,0.5\n0.5,1.5\n")
    pairs = ("valence=valence:curve:-1..1", "t (s)=@time")
    assert missing(refused(study, tmp_path / "b.csv", *pairs), "row 3", "valence") == []
    assert not (study / "curves").exists()


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_from_a_bare_folder_to_labels_without_a_table_written_by_hand(tmp_path: Path) -> None:
    study = tmp_path / "study"
    for name in NAMES:
        (study / "media").mkdir(parents=True, exist_ok=True)
        write_recording(study / "media" / name.replace(Path(name).suffix, ".mkv"), 1).rename(study / "media" / name)
        with (study / "media" / name).open("ab") as file:
            file.write(name.encode())  # no two have the same content
    assert run("init", study, "--recordings", "media/*")[0] == 0
    ratings = {name: (number, 99 - number) for number, name in enumerate(NAMES)}
    sheet = write_ratings_sheet(tmp_path / "ratings.xlsx", ratings)
    options = [part for pair in SHEET for part in ("--map", pair)]
    code, output = run("import", "labels", sheet, "--to", study, *options, "--dry-run")
    assert (code, "nothing is written" in output, (study / "labels.csv").exists()) == (0, True, False)
    assert "p01,empathy,0,,,Kim," in output.splitlines()
    assert run("import", "labels", sheet, "--to", study, *options)[0] == 0
    write_elan(tmp_path / "coded.eaf", "p01_phone.mp4")
    code, output = run(
        "import", "labels", tmp_path / "*.eaf", "--to", study, "--map", "gaze=gaze:nominal", "--map", "gaze (2)=gaze"
    )
    assert code == 0, output
    loaded: Study = load_study(study)
    assert {one.session_id for one in loaded.labels if one.scheme == "empathy"} == {*SESSIONS}
    assert [one.value for one in loaded.labels if one.session_id == "p05" and one.track == "cam2"] == [5.0, 94.0]
    assert all(ID_PATTERN.fullmatch(one.rater_id or "") for one in loaded.labels)


@pytest.mark.slow
def test_on_a_terminal_the_command_asks_what_the_columns_are(tmp_path: Path, study: Path) -> None:
    sheet = write_sheet(tmp_path / "r.xlsx", ("File", "Mood", "Notes"), ("b.mp4", "glad", "x"))
    answers = iter([b"mood:txt\n", b"mood:text\n", b"skip\n"])  # the file is looked up, and not asked about
    command = [sys.executable, "-m", "flows.cli", "import", "labels", str(sheet), "--to", str(study)]
    controller, terminal = pty.openpty()
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=ROOT) as process:
        os.close(terminal)
        shown = b""
        while chunk := _read(controller):
            shown += chunk
            if shown.endswith(b"]: "):
                os.write(controller, next(answers))
    os.close(controller)
    assert process.returncode == 0, shown.decode()
    assert b"Mood: SCHEME[:TYPE[:MIN..MAX]], @role or skip [mood:nominal]: " in shown
    assert b"File: " not in shown
    assert labels(study) == [("s2", "mood", "glad", None, None)]


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other end is closed
        return b""
