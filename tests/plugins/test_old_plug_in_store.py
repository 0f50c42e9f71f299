"""A store in which fingerprints have the distributions of plug-ins, which other versions of these find up to date.

``data/old_plug_in_store.tar.xz`` holds a study of one session of 8 frames and what bc095487 made of it: ``frames``, and
every feature of a plug-in. ``mediapipe`` and ``pyfeat`` have rows without a face, and digests of an environment that
does not exist; ``speaking``, storyframes' own, reads the landmarks of ``mediapipe``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.stores import local
from support.tools.plug_ins import PLUG_INS, installed, write

from storyframes.store.record_status import scan
from tasks.extractors.base import Fingerprint, InputFile
from tasks.extractors.earlier_fingerprints import has_fingerprint

DATA = Path(__file__).parents[1] / "data" / "old_plug_in_store.tar.xz"
OF_PLUG_INS = {"motion", "brightness", "vad", "mediapipe", "pyfeat"}
FEATURES = {"frames", "speaking"} | OF_PLUG_INS

LOOK = """
import json
import sys
from dataclasses import replace
from pathlib import Path

from flows.settings import load_settings
from storyframes.store.layout import create_store
from storyframes.store.record_status import read_status, scan
from tasks.extract import extract
from tasks.extractors.registry import build_extractor, registered
from tasks.models.digests import DigestCache
from tasks.planning.plan import expected_versions, plan_extraction
from tasks.planning.selection import Selection
from tasks.planning.sources import session_source
from tasks.study.load import load_study

home = Path(sys.argv[1])
study, settings, storage = load_study(home / "study"), load_settings(home / sys.argv[2]), create_store(home / "store")
records = {entry.feature: entry.record for entry in scan(storage)}
for name in ("mediapipe", "pyfeat"):  # the environment that does not exist
    noted = records[name].provenance
    registered()[name].models = lambda self, noted=noted: noted["models"]
    registered()[name].tools = lambda self, noted=noted: {"python": noted["tools"]["python"]}
plan = plan_extraction(study, storage, settings, Selection())
changed, digests = [], DigestCache(storage, "inputs.json", study.root)
for name, record in records.items():
    extractor = build_extractor(settings.resolved(), "s", name)
    now = extractor.fingerprint(session_source(study, "s", [extractor], digests))
    tools = {tool: value for tool, value in record.provenance["tools"].items() if not tool.startswith(("plug", "feat"))}
    mine = {tool: value for tool, value in now.tools.items() if not tool.startswith("feat")}
    then = record.provenance["extractor"], record.provenance["models"], tools
    if then != (now.extractor, dict(now.models), mine):
        changed.append(name)
expected = expected_versions(study, storage, settings)
found = {
    "distributions": {name: cls.distribution for name, cls in registered().items()},
    "due": sorted(feature for unit in plan.units for _, feature in unit.makes),
    "current": sorted(outcome.feature for outcome in plan.settled if outcome.skipped),
    "changed": sorted(changed),
    "stale": [version.feature for version in expected if version.fingerprint != records[version.feature].fingerprint],
}
if len(sys.argv) > 3:
    forced = plan_extraction(study, storage, settings, Selection(("s",), tuple(sys.argv[3:]), force=True))
    found["made"] = {done.feature: str(done.status) for unit in forced.units for done in extract(unit)}
    found["provenance"] = {name: read_status(storage, "s", name).record.provenance for name in sys.argv[3:]}
    again = plan_extraction(study, storage, settings, Selection())
    found["then due"] = sorted(feature for unit in again.units for _, feature in unit.makes)
print(json.dumps(found))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with tarfile.open(DATA) as archive:
        archive.extractall(tmp_path / "home", filter="data")
    return tmp_path / "home"


def look(home: Path, *forced: str, config: str = "storyframes.toml") -> dict[str, Any]:
    """What a later version of every plug-in finds there."""
    folders = []
    for project in PLUG_INS.glob("*/pyproject.toml"):
        stated = tomllib.loads(project.read_text())["project"]
        if points := stated.get("entry-points", {}).get("storyframes.extractors"):
            write(home / "installed", stated["name"], points)
            folders.append(project.parent)
    environment = installed(home / "installed", *folders)
    command = [sys.executable, "-c", LOOK, str(home), config, *forced]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    named = {name for name, origin in found["distributions"].items() if origin.endswith(" 1.0")}
    assert named >= OF_PLUG_INS  # and newer ones
    return found


def test_a_version_has_its_fingerprint_without_the_distribution_and_no_other(home: Path) -> None:
    storage = local(home / "store")
    records = {entry.feature: entry.record for entry in scan(storage) if entry.record}

    def now(name: str, **changed: Any) -> str:
        """The digest of what decided the version, by the rules of now."""
        noted = records[name].provenance
        files = {kind: InputFile(Path(), "", file["sha256"], 0, 0) for kind, file in noted["inputs"].items()}
        tools = {
            tool: now(tool.removeprefix("feature ")) if tool.startswith("feature ") else value
            for tool, value in noted["tools"].items()
            if tool != "plug-in"
        }
        parts = {"extractor": noted["extractor"], "settings": noted["settings"], "models": noted["models"]}
        return Fingerprint(name, inputs=files, tools=tools, plug_in="other 2.0", **{**parts, **changed}).digest

    assert set(records) == FEATURES
    for name, record in records.items():
        assert has_fingerprint(storage, record, now(name)), name
        assert (record.fingerprint == now(name)) == (name == "frames"), name
        assert not has_fingerprint(storage, record, now(name, extractor=record.provenance["extractor"] + 1)), name
        assert not has_fingerprint(storage, record, now(name, models={"model": "0" * 64})), name
    motion = records["motion"]
    for odd in ({}, {"tools": None}, {"tools": []}, {"inputs": {"video": 1}}, {"settings": {"noise": {1, 2}}}):
        noted = {**motion.provenance, **odd} if odd else {}
        assert not has_fingerprint(storage, replace(motion, provenance=noted), now("motion")), odd
    tools = {**motion.provenance["tools"], "plug-in": "forged 1.0"}  # not what was published
    forged = replace(motion, provenance={**motion.provenance, "tools": tools})
    assert not has_fingerprint(storage, forged, now("motion"))


@pytest.mark.slow
def test_what_other_versions_of_the_plug_ins_published_is_up_to_date(home: Path) -> None:
    """``brightness`` is of the same version, every other plug-in is of another one than in the store."""
    found = look(home, "motion", "speaking")
    assert found["due"] == found["changed"]  # another onnxruntime than the store's, say
    assert set(found["current"]) == FEATURES - set(found["changed"])
    assert {"frames", "brightness", "mediapipe", "pyfeat"} <= set(found["current"])
    assert {"motion", "speaking"} <= set(found["changed"])  # their versions rose since
    assert set(found["stale"]) == set(found["changed"])
    assert found["made"] == {"motion": "done", "speaking": "done"}
    assert found["provenance"]["motion"]["tools"]["plug-in"] == "storyframes-dyads 1.0"
    assert set(found["then due"]) == set(found["due"]) - {"motion", "speaking"}  # which were made


@pytest.mark.slow
def test_what_was_published_with_other_settings_is_due(home: Path) -> None:
    settings = (home / "storyframes.toml").read_text()
    (home / "other.toml").write_text(f"{settings}[brightness]\nnoise = 2.5\n[mediapipe]\nstatic_image_mode = true\n")
    found = look(home, config="other.toml")
    assert set(found["due"]) == {"brightness", "mediapipe", "speaking", *found["changed"]}
