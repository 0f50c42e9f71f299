"""The commands ``storyframes import labels`` and ``storyframes import transcripts``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli import LOOK, console, error_console, fail, matching_files, usage_errors
from tasks.inspect import counted

app = typer.Typer(
    help="Import files of other programs into a study's tables.", rich_help_panel="Study", no_args_is_help=True, **LOOK
)


@app.command("labels", epilog="Next: storyframes check STUDY")
def import_labels(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="ELAN's .eaf, Praat's .TextGrid, NOVA's .annotation, a sheet (.xlsx, .csv), also exports of ELAN, "
            "BORIS and Datavyu; or a pattern, as '*.eaf'.",
        ),
    ],
    to: Annotated[
        Path, typer.Option("--to", metavar="STUDY", help="The study whose tables labels and schemes are added to.")
    ],
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="TIER=SCHEME",
            help="Also TIER=SCHEME:TYPE or TIER=SCHEME:TYPE:MIN..MAX, where the scheme is new; of a sheet's other "
            "columns COLUMN=@file (whose name says the session), @session, @rater, @person, @confidence, @start, @end, "
            "@duration, @time, @tier, @value. Repeatable.",
        ),
    ] = None,
    skip: Annotated[list[str] | None, typer.Option(help="A tier to leave out; '*': all that are not mapped.")] = None,
    session: Annotated[str | None, typer.Option(help="The session of all labels.")] = None,
    session_from: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="The pattern of files' names: '{session}_annotated.eaf'.")
    ] = None,
    rater: Annotated[str | None, typer.Option(help="The rater_id of all labels.")] = None,
    person: Annotated[str | None, typer.Option(help="The person_id that all labels are about.")] = None,
    track: Annotated[
        str | None, typer.Option(help="The recording that was labelled, if not the session's own.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column where labels begin, if it is not called start_s."),
    ] = None,
    end: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column where labels end.")] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of labels' durations, instead of --end.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of moments of labels or curves.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Rows per second of a sheet of curves without times.")
    ] = None,
    sheet: Annotated[str | None, typer.Option(help="The sheet of a workbook with several.")] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="The unit of a sheet's times, s or ms, if the columns' names do not contain it."),
    ] = None,
    no_times: Annotated[
        bool, typer.Option("--no-times", help="Labels hold for whole sessions, although columns look like times.")
    ] = False,
    offset: Annotated[float | None, typer.Option(help="Seconds to add to every time.")] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE,...", help="Cells without a value: 'NA,-99'. The scheme keeps this."),
    ] = None,
    not_missing: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE,...", help="Cells that look like missing values and are labels."),
    ] = None,
    fold_case: Annotated[
        bool,
        typer.Option("--fold-case", help="Join labels, raters and persons that differ only in case or Unicode form."),
    ] = False,
    leave_out_unknown: Annotated[
        bool,
        typer.Option(
            "--leave-out-unknown", help="Leave out and count labels of recordings that the study does not have."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Accept the proposal for each tier or column; ask nothing.")
    ] = False,
    answers: Annotated[
        Path | None,
        typer.Option(
            help="A file that keeps what is answered for each tier or column, as --map has it. What it answers is not "
            "asked again, and labels that the study has already are left out: safe to repeat."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the rows that would be written, and write nothing.")
    ] = False,
) -> object:
    """Add labels to a study from files of annotations; everything is written, or nothing."""
    from storyframes_labels.annotation_file import NO_TIMES, ImportFaultError
    from storyframes_labels.import_labels import Import, import_labels, unmapped_tiers
    from storyframes_labels.mapping import SKIP, Role, proposals
    from storyframes_labels.missing import Answer
    from storyframes_labels.read_annotations import read_all

    if session and session_from:
        fail("give either --session or --session-from", 2)
    asked: dict[str, str] = {}
    with usage_errors():
        try:
            paths, pairs, skipped = matching_files(files), map_ or [], skip or []
            said = {Role.START: start, Role.END: end, Role.DURATION: duration, Role.TIME: time}
            read, targets = read_all(paths, pairs, said, unit=unit, rate=rate, sheet=sheet)
            unmapped = dict.fromkeys(name for file in read for name in unmapped_tiers(file, targets, skipped))
            if unmapped and (yes or answers or _is_at_a_terminal()):
                asked = _answered(proposals(read, unmapped, has_persons=any(to.glob("persons.*"))), answers, yes=yes)
                pairs = [*pairs, *(f"{name}={answer}" for name, answer in asked.items() if answer != SKIP)]
                skipped = [*skipped, *(name for name, answer in asked.items() if answer == SKIP)]
                read, targets = read_all(paths, pairs, said, unit=unit, rate=rate, sheet=sheet)
            how = Import(
                targets=targets,
                skip=skipped,
                session_id=session,
                session_from=session_from,
                rater_id=rater,
                person_id=person,
                track=track,
                offset_s=offset,
                no_times=no_times,
                answer=Answer.parse(missing or [], not_missing or []),
                fold_case=fold_case,
                leave_out_unknown=leave_out_unknown,
                leave_out_known=answers is not None,
            )
            imported = import_labels(read, how, to, is_dry=dry_run)
        except ImportFaultError as error:
            kept = f"; the answers are in {answers}, a line each: correct or remove one there"
            fail(f"{error}{kept if asked and answers else ''}", 2)
    remarks = [f"{file.name}: {remark}" for file in read for remark in file.remarks]
    for remark in [*remarks, *imported.remarks]:
        error_console().print(f"[yellow]look at[/] {escape(remark)}")
    shown = console()
    if dry_run:
        from tasks.study import Table

        for table, rows in imported.rows.items():
            columns = list(dict.fromkeys(name for row in rows for name in row))
            if rows:
                content = Table.csv_bytes(columns, ([row.get(name, "") for name in columns] for row in rows))
                shown.out(f"{table}:\n{content.decode()}", highlight=False)
    for scheme in imported.schemes:
        labels = f", with {counted(len(scheme.labels), 'label')}" if scheme.labels else ""
        limits = "" if scheme.minimum is None else f" from {scheme.minimum:g} to {scheme.maximum:g}"
        shown.print(f"new scheme {escape(scheme.name)}: {scheme.type}{limits}{labels}")
    total = counted(sum(imported.labels.values()), "label")
    schemes = ", ".join(f"{name} {count}" for name, count in imported.labels.items())
    sessions = counted(len(imported.sessions), "session")
    units = ", ".join(dict.fromkeys(file.unit for file in read))
    times = "without times" if units == NO_TIMES else f"times read as {units}"
    shown.print(f"{total} ({escape(schemes)}) of {sessions}; {times}" if schemes else "no new label")
    if dry_run:
        shown.print("nothing is written; without --dry-run it would be")
    of = f"{read[0].name}: " if len(read) == 1 else ""
    return (*(f"{of}{name}: read as {answer}" for name, answer in asked.items()), *remarks, *imported.remarks)


@app.command("transcripts", epilog="Next: storyframes extract STUDY STORE")
def import_corrected_words(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="The .eaf or .TextGrid of 'storyframes export --with-text', corrected."),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="STUDY", help="The study that gets the transcripts.")],
    session: Annotated[str | None, typer.Option(help="The file's session.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
) -> None:
    """Make transcripts from words that were corrected in ELAN or Praat; earlier transcripts are kept."""
    from storyframes_labels.annotation_file import ImportFaultError
    from storyframes_labels.corrected_words import import_transcripts

    with usage_errors():
        try:
            done = import_transcripts(matching_files(files), to, session, is_dry=dry_run)
        except ImportFaultError as error:
            fail(str(error), 2)
    for remark in done.remarks:
        error_console().print(f"[yellow]look at[/] {escape(remark)}")
    for name, path in done.paths.items():
        words = f"{done.words[name]} words in {done.utterances[name]} utterances"
        console().print(f"{escape(name)}: {words}, {'would be ' if dry_run else ''}in {escape(path)}")


def _is_at_a_terminal() -> bool:
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def _answered(proposed: Mapping[str, str], answers: Path | None, *, yes: bool) -> dict[str, str]:
    """What each tier or column is: as the file of answers has it, or a person at the terminal says, or as proposed."""
    from storyframes_labels.annotation_file import ImportFaultError
    from storyframes_labels.mapping import SKIP, Role, parse_map

    text = ""
    if answers is not None and answers.exists():
        try:
            text = answers.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ImportFaultError(f"{answers}: is not UTF-8: save it as UTF-8") from None
    pairs = (line.rpartition("=") for line in text.splitlines())
    kept = {_in_one_line(name): answer.strip() for name, sign, answer in pairs if sign}
    begin = "\n" if text and not text.endswith("\n") else ""
    may_ask = not yes and _is_at_a_terminal()
    given: dict[str, str] = {}

    def checked(answer: str) -> str:
        pairs = [f"{name}={text}" for name, text in (given | {column: answer.strip()}).items() if text != SKIP]
        try:
            parse_map(pairs)
        except ImportFaultError as error:
            raise typer.BadParameter(str(error)) from None
        return answer.strip()

    for column, proposal in proposed.items():
        if (answer := kept.get(_in_one_line(column))) is None:
            answer = proposal
            if may_ask and proposal not in (SKIP, f"@{Role.FILE}"):  # files are looked up, so none is guessed
                question = f"{_in_one_line(column)}: SCHEME[:TYPE[:MIN..MAX]], @role or {SKIP}"
                answer = typer.prompt(question, default=proposal, value_proc=checked)
            if answers is not None and proposal != SKIP:  # an empty column may have values next time
                with answers.open("a", encoding="utf-8") as file:
                    file.write(f"{begin}{_in_one_line(column)}={answer}\n")
                begin = ""
        given[column] = answer
    return given


def _in_one_line(name: str) -> str:
    """A column's name as a line of answers has it: spreadsheets wrap long names."""
    return " ".join(name.split())
