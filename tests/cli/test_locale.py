"""Time zones and locales change nothing: the same values, the same fingerprints, tables that anybody can print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Everything that computes values or reads text, in a process whose C library really uses the locale.
_EXTRACT = """
import hashlib, json, locale, sys
locale.setlocale(locale.LC_ALL, "")
from pathlib import Path
import numpy as np
from storyframes.clips.window_spec import WindowSpec
from storyframes.store import record_status
from storyframes.store.layout import create_store
from storyframes.store.feature_store import FeatureStore
from tasks.study.load import load_study
from tasks.extract import extract
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.clip_index.index import build_clip_index

study, root = load_study(Path(sys.argv[1])), sys.argv[2]
features = ("frames", "openface", "opensmile", "glove")
glove = {"vectors": sys.argv[3], "demo_vectors": True}
settings = ExtractorsSettings(features=features, glove=glove)
storage = create_store(root)
for unit in plan_extraction(study, root, settings, Selection()).units:
    extract(unit)
store, told = FeatureStore(root), {}
for entry in record_status.scan(storage):
    assert entry.record, entry.reason
    told[f"{entry.session_id}/{entry.feature}"] = entry.record.fingerprint
    for name in entry.record.arrays:
        values = np.asarray(store.read(entry.session_id, entry.feature, array=name))
        told[f"{entry.session_id}/{entry.feature}/{name}"] = hashlib.sha256(values.tobytes()).hexdigest()
clips = build_clip_index(study, WindowSpec(window=15, stride=5), store)
clips = getattr(clips, "clips", clips)
told["clips"] = hashlib.sha256(clips.to_csv(index=False).encode()).hexdigest()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A locale with a decimal comma, compiled here."""
    folder = tmp_path_factory.mktemp("locales")
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"]
    subprocess.run(command, capture_output=True, check=True)
    return {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8", "TZ": "Pacific/Kiritimati"}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tasks.media.synthesize import SyntheticStudy, write_study

    folder = tmp_path_factory.mktemp("study") / "study"
    write_study(folder, SyntheticStudy(sessions=1, seconds=2, width=64, height=48))
    transcript = next((folder / "transcripts").iterdir())
    words = json.loads(transcript.read_text(encoding="utf-8"))
    words["utterances"][0]["text"] = "über den Garten — und zurück"
    words["utterances"][0].pop("words", None)
    transcript.write_text(json.dumps(words, ensure_ascii=False), encoding="utf-8")
    return folder


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "TZ"))}
    return subprocess.run(command, capture_output=True, cwd=ROOT, env=inherited | environment)


PLAIN = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
# Python takes ASCII for every file and stream here unless it is told otherwise.
ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "TZ": "America/St_Johns"}


@pytest.mark.needs("localedef", "locales")
@pytest.mark.slow
def test_values_and_fingerprints_are_the_same_everywhere(study: Path, tmp_path: Path, german: dict[str, str]) -> None:
    def told(name: str, environment: dict[str, str]) -> dict[str, str]:
        vectors = str(ROOT / "demo/glove.demo.300d.txt")
        command = [sys.executable, "-c", _EXTRACT, str(study), str(tmp_path / name), vectors]
        done = run(command, environment)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    plain = told("plain", PLAIN)
    assert {name.split("/")[1] for name in plain if "/" in name} >= {"frames", "openface", "opensmile", "glove"}
    assert told("german", german) == plain
    assert told("ascii", ASCII) == plain


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_our_characters_shows_the_rest(study: Path, tmp_path: Path, encoding: str) -> None:
    code = "from flows.cli.entry import main; main()"
    there = tmp_path / "ein Ordner für später"
    there.symlink_to(study)
    command = [sys.executable, "-c", code, "check", str(there)]
    shown = run(command, ASCII | {"PYTHONIOENCODING": encoding})
    assert shown.returncode == 0, shown.stderr
    assert b"valid" in shown.stdout
    refused = run([sys.executable, "-c", code, "status", f"{there}/—"], ASCII | {"PYTHONIOENCODING": encoding})
    assert refused.returncode == 2
    assert b"is not a feature store" in refused.stderr
    assert b"Traceback" not in refused.stderr
