"""An array of parts that are killed and begun again is one undisturbed run, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak import parts


@pytest.mark.slow
def test_parts_that_are_killed_at_random_and_requeued_are_one_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parts.soak(tmp_path, sessions=12, parts=4, at_once=2, seed=23) == []
    said = capsys.readouterr().out
    assert "SIGKILL" in said, said
    assert "SIGTERM" in said, said
    root = tmp_path / "parts"
    damaged = next(path for path in root.rglob("c/**/*") if path.is_file())
    damaged.write_bytes(damaged.read_bytes()[::-1])
    assert any(str(damaged.name) in problem for problem in parts.differences(root, tmp_path / "one"))
