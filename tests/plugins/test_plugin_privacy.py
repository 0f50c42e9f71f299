"""A plug-in that reads transcripts and raises what it read: no byte of it is anywhere but in the study."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.commands import storyframes
from support.tools.plug_ins import installed, write

PLANTED = "zyzzyvaplanted"

# How each feature lets out `text`, which holds what somebody said. Some are made of words themselves.
LEAKS = {
    "raises_extraction": "raise ExtractionError(text)",
    "raises_missing": "raise MissingInputError(text)",
    "raises_publish": "raise PublishError(text)",
    "raises_storage": "raise StorageError(text)",
    "raises_value": "raise ValueError(text)",
    "raises_key": "{}[text]",
    "raises_os": "raise OSError(5, text, '/data/' + text)",
    "raises_plain_os": "raise OSError(text)",
    "raises_odd_errno": "raise OSError(98765, text)",
    "raises_named_class": "raise type(text.title(), (ValueError,), {})(text)",
    "raises_named_os_class": "raise type(text.title(), (OSError,), {})(text)",
    "raises_arguments": "raise RuntimeError('no words', {'said': text}, [text])",
    "raises_chained": "\n        try:\n            int(text)\n        except ValueError as error:\n"
    "            raise ExtractionError('chained') from error",
    "raises_in_context": "\n        try:\n            int(text)\n        except ValueError:\n            {}[text]",
    "raises_group": "raise ExceptionGroup(text, [ValueError(text), KeyError(text)])",
    "raises_with_note": "\n        error = ValueError('noted')\n        error.add_note(text)\n        raise error",
    "raises_unspeakable": "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})(text)",
    "raises_assertion": "assert not text, text",
    "raises_exit": "raise SystemExit(text)",
    "raises_base": "raise type(text.title(), (BaseException,), {})(text)",
    "raises_code": "exec(compile('1 / 0', text, 'exec'), {'__name__': text})",
    "asks_for_words": "source.file(text)",
    "writes_words": "out.write(text, [1.0])",
    "writes_too_few": "out.write('values', np.zeros((3, len(text))))",
}  # fmt: skip

HEAD = """
import json
import numpy as np
from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.store.publish import PublishError
from storyframes.store.storage import StorageError
from tasks.extractors.base import ExtractionError, Extractor, Input, MissingInputError
from tasks.extractors.frame_pass import FrameExtractor

def spec(name):
    return FeatureSpec(name, "a test's", {"values": ArraySpec(Axis.FRAME, "float32", "a test's")})

def said(source):
    return json.loads(source.file(Input.TRANSCRIPT).path.read_text())["utterances"][0]["text"]
"""

LEAK = """
class NAME(Extractor):
    spec = spec("NAME")
    version = 1
    inputs = (Input.VIDEO, Input.TRANSCRIPT)

    def extract(self, source, out):
        text = said(source)
        LEAK
"""

FRAME_LEAKS = """
class names_array(FrameExtractor):
    spec = spec("names_array")
    version = 1
    inputs = (Input.VIDEO, Input.TRANSCRIPT)

    def open(self, source, out):
        self.text = said(source)
        return super().open(source, out)

    def rows(self, batch):
        return {self.text: np.zeros(len(batch))}

class raises_in_rows(names_array):
    spec = spec("raises_in_rows")

    def rows(self, batch):
        raise ExtractionError(self.text)
"""


@pytest.mark.slow
def test_no_byte_of_what_was_said_gets_out(study_copy: Path, tmp_path: Path, own_state: Mapping[str, str]) -> None:
    transcript = study_copy / "transcripts/p01-s01.json"
    content = json.loads(transcript.read_text())
    content["utterances"][0]["text"] = PLANTED
    transcript.write_text(json.dumps(content))
    features = [*LEAKS, "names_array", "raises_in_rows"]
    code = (
        HEAD + FRAME_LEAKS + "".join(LEAK.replace("NAME", name).replace("LEAK", leak) for name, leak in LEAKS.items())
    )
    points = {name: f"leaking:{name}" for name in features}
    environment = installed(write(tmp_path / "installed", "leaking", points, leaking=code)) | own_state
    state = Path(own_state["XDG_STATE_HOME"])
    for variable in ("XDG_CACHE_HOME", "TMPDIR", "PREFECT_HOME"):
        (tmp_path / "house" / variable).mkdir(parents=True)
        environment[variable] = str(tmp_path / "house" / variable)
    config = tmp_path / "storyframes.toml"
    config.write_text(f"features = {json.dumps(['frames', *features])}\n[cluster]\ncpus = 1\n")
    store = tmp_path / "house/features"
    arguments = ["extract", study_copy, store, "--config", config, "--session", "p01-s01", "--server"]
    done = storyframes(*arguments, environment={**environment, "PREFECT_LOGGING_LEVEL": "DEBUG"})
    assert done.returncode == 1, done.stderr

    reasons = {name: json.loads((store / f"p01-s01/{name}/attempt.json").read_text())["reason"] for name in features}
    assert all(reasons.values())
    (database,) = state.rglob("prefect.db")
    with sqlite3.connect(database) as connection:
        (runs,) = connection.execute("select count(*) from task_run").fetchone()
    assert runs  # so there was something to look through; short units share tasks
    for path in [*(tmp_path / "house").rglob("*"), *state.rglob("*")]:
        assert PLANTED not in path.name.lower(), path
        if path.is_file():
            assert PLANTED.encode() not in path.read_bytes().lower(), path
    assert PLANTED not in (done.stdout + done.stderr).lower()
