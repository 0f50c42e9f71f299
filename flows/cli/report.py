"""The commands that write pages: ``report`` about a study, ``compare`` of two feature stores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from flows.cli.terminal import (
    ConfigOption,
    JsonOption,
    StoreArgument,
    StudyArgument,
    cannot_write,
    console,
    error_console,
    fail,
    listed,
    need,
    usage_errors,
)
from flows.progress_bar import progress_bar


def report(
    study: StudyArgument,
    store: StoreArgument,
    out: Annotated[Path, typer.Option(help="Folder of the site: a new one, an empty one, or an older report.")],
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Show the transcripts; speakers as in the feature store.")
    ] = False,
    with_video: Annotated[bool, typer.Option("--with-video", help="Show frames with landmarks and poses.")] = False,
    check_sound: Annotated[
        bool, typer.Option("--check-sound", help="Decode every recording's sound to find clipped samples.")
    ] = False,
    recordings: Annotated[
        Literal["choose", "relative"],
        typer.Option(help="What the pages play: a file that the reader chooses, or the study's own by relative links."),
    ] = "choose",
    proxy: Annotated[
        Path | None,
        typer.Option(help="Folder for small H.264 copies of the recordings, which every browser plays; linked."),
    ] = None,
    points: Annotated[
        bool,
        typer.Option("--points", help="Landmarks, joints and people's boxes, drawn over the picture that is played."),
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write a site about a study and its features, to open from disk; no frame and no text unless asked for."""
    need("av", "pipeline,report")
    need("plotly", "report")
    from flows.cli.tables.comparison import report_table
    from flows.settings import load_settings
    from storyframes.store.feature_store import FeatureStore
    from tasks.inspect.report.page import Disclosure
    from tasks.inspect.report.pages import ReportError, check_proxy_folder, check_target
    from tasks.inspect.report.session_page import ReportOptions
    from tasks.inspect.report.site import build_report
    from tasks.study.load import load_study
    from tasks.study.study_identity import check_study_record

    with usage_errors(), progress_bar("reporting") as progress:
        settings, loaded, feature_store = load_settings(config), load_study(study), FeatureStore(store)
        check_study_record(feature_store.storage, loaded)
        try:
            check_target(out)
            if proxy is not None:
                check_proxy_folder(proxy, out)
            built = build_report(
                loaded,
                feature_store,
                settings,
                out,
                ReportOptions(
                    Disclosure(with_text, with_video),
                    check_sound,
                    link_recordings=recordings == "relative",
                    proxies=proxy,
                    points=points,
                    rules=settings.labels,
                    sections=settings.sections,
                ),
                progress,
            )
        except ReportError as error:
            fail(str(error), 2)
        except OSError as error:
            cannot_write(out, error)
    shown = console()
    shown.print(report_table(built))
    for person, splits in built.facts.leaked.items():
        where = escape(" and in ".join(splits))
        shown.print(f"[bold red]{escape(person)} is in {where}[/], so it is leaked: write the index again")
    for session_id, problem in built.problems.items():
        shown.print(f"[bold red]{escape(session_id)}[/] {escape(problem)}")
    for fault in built.faults:
        shown.print(f"[bold red]{escape(fault)}[/]")
    for what, wanted, sessions in (
        ("transcripts", with_text, built.quoted),
        ("pictures", with_video, built.pictured),
    ):
        if wanted and not sessions:
            shown.print(f"[yellow]No {what}[/]: no session has any")
    if built.quoted or built.pictured or proxy:
        shown.print("[yellow]It holds recordings of people[/]: keep it private.")
    shown.print(f"Open {escape(str(out / 'index.html'))}", soft_wrap=True)


def compare(
    store_a: Annotated[
        str, typer.Argument(metavar="STORE_A", help="A feature store, for instance from before an upgrade.")
    ],
    store_b: Annotated[str, typer.Argument(metavar="STORE_B", help="Another one of the same study.")],
    features: Annotated[
        list[str] | None,
        typer.Option(help="Only these features, of all tracks (FEATURE@TRACK: of one); with commas, or repeated."),
    ] = None,
    tolerance: Annotated[
        list[str] | None, typer.Option(help="FEATURE=NUMBER or FEATURE.COLUMN=NUMBER; repeat for more.")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Allow no differences where --tolerance names none.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write a page into this folder.")] = None,
    json: JsonOption = False,
) -> None:
    """Compare two feature stores column by column; exit 0 if they are the same within tolerance, 1 if not."""
    from flows.cli.tables.comparison import comparison_json, comparison_tables
    from storyframes.store.feature_store import FeatureStore
    from tasks.inspect.compare import compare_stores
    from tasks.inspect.tolerances import ComparisonError, parse_tolerances

    if out:
        need("plotly", "report")
    names = listed("--features", features) or None
    with usage_errors(), error_console().status("comparing") as spinner:
        a, b = FeatureStore(store_a), FeatureStore(store_b)
        try:
            allowed = parse_tolerances(tolerance or [], exact=exact)
            compared = compare_stores(a, b, allowed, names, lambda name: spinner.update(f"comparing {escape(name)}"))
        except ComparisonError as error:
            fail(str(error), 2)
    if out:
        from tasks.inspect.report.compare_page import write_comparison
        from tasks.inspect.report.pages import ReportError

        try:
            write_comparison(compared, _short_name(store_a), _short_name(store_b), out)
        except ReportError as error:
            fail(str(error), 2)
        except OSError as error:
            cannot_write(out, error)
    if json:
        print(comparison_json(compared))  # noqa: T201
    else:
        shown = console()
        for part in comparison_tables(compared):
            shown.print(part)
        if out:
            shown.print(f"Open {escape(str(out / 'index.html'))}", soft_wrap=True)
    if not compared.same:
        raise typer.Exit(1)


def _short_name(location: str) -> str:
    """The end of a store's location: a page may be passed on, so it does not have the whole path."""
    return "/".join(location.rstrip("/").split("/")[-2:])
