"""The commands that share features: ``share`` within a group, ``export`` for other programs, ``release``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from typer.core import TyperGroup

from flows.cli.terminal import JsonOption, StoreArgument, console, error_console, fail, listed, show_json, usage_errors
from flows.progress_bar import progress_bar

if TYPE_CHECKING:
    from storyframes.export.clips import ExportedClips


def share(
    store: StoreArgument,
    group: Annotated[str, typer.Option(help="The group of users, as 'id' names it.")] = "",
    write: Annotated[bool, typer.Option("--write", help="The group may also extract and index.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Its owner's alone again, as at first.")] = False,
) -> None:
    """Share a store in a folder with a group of users: what it has now, and what anybody writes into it later.

    Without an option it says who may use the store. It ends with 1 where files of other users stay as they were.
    """
    from storyframes.store.layout import open_store
    from storyframes.store.maintenance import sharing

    if (private and (group or write)) or (write and not group):
        fail("give --group GROUP, with --write where its members may write, or --private", 2)
    with usage_errors():
        storage = open_store(store)
        unchanged: dict[str, str] = {}
        if group:
            unchanged = sharing.share(storage, group, write=write)
        elif private:
            unchanged = sharing.make_private(storage)
        now = sharing.current_group(storage)
        why = sharing.why_unreachable(storage) if now else ""
    may = f"the group {now.name} may {'read and write' if now.write else 'read'}" if now else "its owner's alone"
    console().print(escape(f"{store}: {may}"))
    for path, reason in unchanged.items():
        error_console().print(f"[yellow]not changed[/] {escape(f'{path}: {reason}')}")
    if why:
        error_console().print(escape(why))
    if unchanged or why:
        raise typer.Exit(1)


def export(
    store: StoreArgument,
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    format_: Annotated[
        str,
        typer.Option("--format", help="parquet, csv, npy, hdf5, mat, a plug-in's; clips: mmsa, datasets, webdataset."),
    ] = "parquet",
    session: Annotated[
        list[str] | None, typer.Option(help="Only this session, stories for the texts; repeat for more.")
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Only these features, of all tracks (FEATURE@TRACK: of one); with commas, or repeated."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Rows a second, each that nearest to it; the stored rows otherwise.")
    ] = None,
    per: Annotated[
        str | None, typer.Option(help="word or utterance: a row for each, frames and sound pooled over it.")
    ] = None,
    functionals: Annotated[
        list[str] | None, typer.Option(help="With --per: mean, std, max, with commas; the mean otherwise.")
    ] = None,
    by: Annotated[str, typer.Option(help="clip, or for datasets also session: whole sessions, row by row.")] = "clip",
    where: Annotated[str | None, typer.Option(help="Of clips: which, such as 'face_tracked >= 0.9'.")] = None,
    label: Annotated[str, typer.Option(help="Of clips for mmsa: the label, a column of the clip index.")] = "",
    raw_text: Annotated[
        Path | None, typer.Option(help="For mmsa: the study whose transcripts are written into the file as they are.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="With --raw-text: the TOML file that features were extracted with.")
    ] = None,
    bert_tokenizer: Annotated[
        Path | None, typer.Option(help="With --raw-text: the folder of a tokenizer, whose tokens are 'text_bert'.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an earlier export.")] = False,
    json: JsonOption = False,
) -> None:
    """Export features to Parquet, CSV, NumPy, HDF5 or MATLAB: named columns, times, masks, and a README beside them."""
    from storyframes.export.clip_formats import CLIP_WRITERS
    from storyframes.export.clips import export_clips
    from storyframes.export.formats import ExportError
    from storyframes.export.run import export as export_features
    from storyframes.pooling import MEAN
    from storyframes.store.feature_store import FeatureStore

    names = listed("--features", features)
    computed = tuple(listed("--functionals", functionals)) or MEAN
    with usage_errors(), progress_bar("exporting") as progress:
        if config is not None and raw_text is None:
            raise ExportError(
                f"--config {config}: says how the transcripts of --raw-text are read: give --raw-text STUDY too"
            )
        if by not in ("clip", "session") or (by == "session" and format_ in CLIP_WRITERS and format_ != "datasets"):
            raise ExportError(f"--by {by}: mmsa and webdataset have clips, datasets has clips or sessions")
        if format_ in CLIP_WRITERS and by == "clip":
            if session or rate is not None:
                raise ExportError(
                    f"--format {format_} has clips: choose them with --where, without --session and --rate"
                )
            tokenizer = None
            if bert_tokenizer is not None:
                from tasks.extractors.text.bert_tokens import BertTokens

                tokenizer = BertTokens(bert_tokenizer)
            clips = export_clips(
                FeatureStore(store),
                out,
                format_,
                features=names,
                where=where,
                label=label,
                per=per,
                functionals=computed,
                words=None if raw_text is None else spoken_words(raw_text, config),
                tokenizer=tokenizer,
                replace=replace,
            )
            _show_clips(out, clips, json=json)
            return
        if where is not None or label or raw_text is not None or bert_tokenizer is not None:
            raise ExportError(f"--where, --label and --raw-text are of clips: {', '.join(CLIP_WRITERS)}")
        done = export_features(
            FeatureStore(store),
            out,
            format_,
            sessions=tuple(session or ()),
            features=names,
            rate=rate,
            per=per,
            functionals=computed,
            replace=replace,
            progress=progress,
        )
    for omission in done.left_out:
        where = escape(f"{omission['session_id']}/{omission['feature']}")
        error_console().print(f"[yellow]left out[/] {where}: {escape(omission['reason'])}")
    if json:
        print(done.to_json(), end="")  # noqa: T201
    else:
        sessions = len({table["session_id"] for table in done.tables})
        size = sum(int(file["bytes"]) for file in done.files.values())
        console().print(f"{escape(str(out))}: {len(done.tables)} tables of {sessions} sessions, {size:,} bytes")
        console().print("README.md there says what each file is; they are measurements of persons, keep them private")
    if done.left_out:
        raise typer.Exit(1)


def _show_clips(out: Path, done: ExportedClips, *, json: bool) -> None:
    for line in done.left_out:
        error_console().print(f"[yellow]left out[/] {escape(line)}")
    if json:
        print(done.to_json(), end="")  # noqa: T201
        return
    splits = ", ".join(f"{split} {count:,}" for split, count in done.splits.items())
    console().print(f"{escape(str(out))}: {sum(done.splits.values()):,} clips: {splits}")
    console().print("README.md there says what each file is, and what is lost; keep them private")


def spoken_words(study: Path, config: Path | None = None) -> Callable[[str], list[tuple[float, str]]]:
    """The words of a study's transcripts by session, each with its start in seconds.

    The function refuses a session that the study does not have: the study is another one.

    Args:
        config: says how transcripts are read.
    """
    from flows.settings import load_settings
    from storyframes.export.formats import ExportError
    from tasks.study.load import load_study
    from tasks.study.transcript import TranscriptError, read_transcript

    loaded, how = load_study(study), load_settings(config).transcript

    def words(session_id: str) -> list[tuple[float, str]]:
        if session_id not in loaded.sessions:
            raise ExportError(f"--raw-text {study}: it has no session {session_id!r}, of which the store has clips")
        path = loaded.sessions[session_id].transcript
        if path is None:
            return []
        try:
            transcript = read_transcript(
                loaded.path(path), allow_malformed=how.allow_malformed_cues, speaker_prefixes=how.speaker_prefixes
            )
        except TranscriptError as error:
            raise ExportError(f"--raw-text {study}: {error}") from None
        return [(word.start_s, word.text) for word in transcript.words()]

    return words


MAKE = "make"


class _MakeUnlessNamed(TyperGroup):
    """``release STORE --out DIR`` is ``release make STORE --out DIR``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [MAKE, *args]
        return super().parse_args(ctx, args)


release_app = typer.Typer(
    cls=_MakeUnlessNamed,
    no_args_is_help=True,
    help="Make a de-identified subset of a store, for sharing: 'release STORE --out DIR --config release.toml'; check "
    "one: 'release verify DIR'; print how its features were extracted: 'release configuration DIR'.",
)


@release_app.command(MAKE)
def make(
    store: StoreArgument,
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    config: Annotated[Path, typer.Option("--config", help="What is released (docs/release.md).")],
    key: Annotated[
        Path | None,
        typer.Option(help="File of the new names of ids, made if absent; beside OUT otherwise. Never give it away."),
    ] = None,
) -> None:
    """Copy what the configuration names into a release; ids get new numbers, dates and machines are dropped."""
    from storyframes.release.run import make_release
    from storyframes.release.settings import read_settings
    from storyframes.store.feature_store import FeatureStore

    with usage_errors(), error_console().status("releasing") as spinner:
        done = make_release(
            FeatureStore(store),
            out,
            read_settings(config),
            key,
            lambda feature: spinner.update(f"releasing {feature}"),
        )
    shown = console()
    people = f" of {done.participants} participants" if done.participants else ""
    shown.print(f"{escape(str(out))}: {done.sessions} sessions{people}, {len(done.features)} features")
    for line in done.left_out:
        shown.print(f"left out {escape(line)}")
    for line in done.remarks:
        error_console().print(escape(line))
    where = key or out.with_name(f"{out.name}.key.json")
    shown.print(f"The key that leads back to the ids is {escape(str(where))}: keep it, and give it to nobody")


@release_app.command()
def verify(
    release: Annotated[Path, typer.Argument(help="The folder of the release.")], json: JsonOption = False
) -> None:
    """Check that every file of a release is unchanged, and that the folder has no other files, in particular no key."""
    from storyframes.release.manifest import verify_release

    with usage_errors():
        problems = verify_release(release)
    if json:
        show_json({"sound": not problems, "problems": problems})
        raise typer.Exit(1 if problems else 0)
    for line in problems:
        console().print(escape(line))
    if problems:
        raise typer.Exit(1)
    console().print("[green]sound[/] every file is as it was released, and there are no others")


@release_app.command()
def configuration(
    release: Annotated[Path, typer.Argument(help="The folder of the release.")],
    session: Annotated[str, typer.Option(help="Only this session, where the sessions' settings differ.")] = "",
) -> None:
    """Print the configuration that extracts the features again; versions and digests are comments in it."""
    from storyframes.release.manifest import STORE
    from storyframes.release.provenance import configuration as configuration_of
    from storyframes.store.feature_store import FeatureStore

    with usage_errors():
        print(configuration_of(FeatureStore(release / STORE), session), end="")  # noqa: T201
