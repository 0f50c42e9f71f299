"""The way of a study of one's own, from a folder of files to a trained model, in this process."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storyframes_labels.command import app as labels
from typer.testing import CliRunner, Result

from flows.cli.app import app
from flows.settings import load_settings
from storyframes.store.records import Status
from storyframes_empathy.commands.app import app as empathy
from storyframes_empathy.commands.baseline import app as baseline
from tasks.extract import extract as do_work
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study


@dataclass(frozen=True)
class Trained:
    """What came of a study.

    Attributes:
        folder: has study, features, runs and report.
        run: the first run, as the command says it with --json.
        said: what ``train`` printed before it.
        extracted: by session/feature, how its extraction ended.
    """

    folder: Path
    run: dict[str, object]
    said: str
    extracted: dict[str, Status]


def storyframes(*arguments: object) -> Result:
    """A command in this process, which has to end well; ``extract`` without servers and other processes."""
    words = [str(word) for word in arguments]
    group = {"baseline": baseline, "empathy": empathy, "import": labels}.get(words[0])
    result = CliRunner().invoke(*((group, words[1:]) if group else (app, words)))
    if result.exit_code:
        raise AssertionError(f"storyframes {' '.join(words)}\n{result.output}") from result.exception
    return result


def extract(study: Path, features: Path, config: Path) -> dict[str, Status]:
    """All that is due, then the clip index; how each feature of each session ended."""
    plan = plan_extraction(load_study(study), str(features), load_settings(config), Selection())
    outcomes = [*plan.settled, *(outcome for work in plan.units for outcome in do_work(work))]
    failed = [outcome for outcome in outcomes if outcome.status is Status.FAILED]
    assert not failed, failed
    storyframes("index", study, features, "--config", config)
    return {f"{outcome.session_id}/{outcome.feature}": outcome.status for outcome in outcomes}


def write_sections(config: Path, features: Sequence[str], **models: Path) -> None:
    """Have these features in a configuration, and by kind (image, text) a model as the feature ``tiny_<kind>``."""
    named = json.dumps([*features, *(f"tiny_{kind}" for kind in models)])
    text = re.sub(r"(?m)^features = .*$", f"features = {named}", config.read_text())
    for kind, folder in models.items():
        text += f'\n[[embed]]\nname = "tiny_{kind}"\nkind = "{kind}"\nsource = "path:{folder}"\n'
        text += 'pool = "mean"\n' if kind == "text" else ""
    config.write_text(text)


def train(folder: Path, *more: str) -> tuple[dict[str, object], str]:
    """An epoch with one seed; the run, and what was printed."""
    arguments = ("--out", folder / "runs", "--seeds", "0", "--epochs", "1", "--json", *more)
    result = storyframes("empathy", "train", folder / "features", *arguments)
    (run,) = json.loads(result.stdout)["runs"]
    return run, result.stderr


def from_folder_to_model(
    folder: Path,
    imports: Sequence[Sequence[object]],
    features: Sequence[str],
    *more: str,
    names: str | None = None,
    **models: Path,
) -> Trained:
    """``init``, ``import labels``, extraction, ``index``, ``train``, ``evaluate``, ``report``.

    Args:
        folder: has ``study/media``, with files and no tables.
        imports: the arguments of each ``import labels``.
        features: besides those of ``models``.
        more: options of ``train``.
        names: how recordings are named, for ``init``.
        models: by kind, of sections ``[[embed]]``.
    """
    study, config, store = folder / "study", folder / "study/storyframes.toml", folder / "features"
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (study / "media").iterdir()}
    storyframes("init", study, "--recordings", "media/*", *(("--names", names) if names else ()))
    for arguments in imports:
        storyframes("import", "labels", *arguments, "--to", study)
    storyframes("check", study, "--config", config)
    write_sections(config, features, **models)
    extracted = extract(study, store, config)
    run, said = train(folder, *more)
    storyframes("empathy", "evaluate", folder / "runs", "--split", "val")
    storyframes("report", study, store, "--config", config, "--out", folder / "report")
    assert (folder / "report/index.html").is_file()
    after = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (study / "media").iterdir()}
    assert after == before  # no file was encoded again, and none was written beside them
    return Trained(folder, run, said, extracted)
