"""Parts with different settings or code are refused, and what parts lack is said where the clips are made."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.commands import storyframes_here
from support.servers.prefect_runs import request
from support.stores import local

from flows.clusters.installation import Installation
from flows.noted_part import NotedPart, made_with
from flows.part_records import (
    MadeWith,
    MixedPartsError,
    PartArray,
    PartState,
    array_progress,
    begin_part,
    drop_part,
    note_part,
)
from flows.run import open_run, planned
from storyframes.store.layout import create_store
from storyframes.store.record_status import scan
from storyframes.store.records import unseal
from storyframes.store.storage import Storage
from tasks.extractors.base import ExtractionError
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.parts import session_costs
from tasks.planning.selection import Selection
from tasks.study.load import load_study

HERE = Installation("0.1.0", "c" * 64, "3.11", {"numpy": "2.1.0"}, {"my_plug_in": "p" * 64})
MADE = MadeWith(settings={"opensmile": "a" * 16, "recording": "b" * 16}, installation=HERE)


def begin(storage: Storage, number: int, made: MadeWith, *, parts: int = 3, ended: bool = False, **how: bool) -> Any:
    array = PartArray(parts=parts, features=["opensmile"])
    begun = begin_part(storage, "a", array, number, PartState(due=1, made_with=made), **how)
    if ended:
        note_part(storage, "a", array, number, PartState(due=1, done=1, ended=True, made_with=made))
    return begun


OTHERS = {
    "opensmile": MADE.model_copy(update={"settings": MADE.settings | {"opensmile": "d" * 16}}),
    "digest eeeeeeeeeeee": MADE.model_copy(update={"installation": replace(HERE, code="e" * 64)}),
    "numpy 2.2.0": MADE.model_copy(update={"installation": replace(HERE, libraries={"numpy": "2.2.0"})}),
    "Python 3.12": MADE.model_copy(update={"installation": replace(HERE, python="3.12")}),
    "plug-in my_plug_in": MADE.model_copy(update={"installation": replace(HERE, plug_ins={"my_plug_in": "q" * 64})}),
}


@pytest.mark.parametrize("names", OTHERS)
def test_a_part_with_other_settings_or_code_is_refused_and_nothing_is_noted(tmp_path: Path, names: str) -> None:
    storage = create_store(tmp_path / "features")
    begin(storage, 1, MADE)
    begin(storage, 2, MADE)
    with pytest.raises(MixedPartsError) as refused:
        begin(storage, 3, OTHERS[names])
    assert names in str(refused.value)
    assert "part 1, 2: " in str(refused.value)
    assert "theirs" not in str(refused.value)
    assert "--part $n/3 --drop" in str(refused.value)
    (progress,) = array_progress(storage)
    assert (progress.not_begun, progress.mixed) == ([3], [])


@pytest.mark.parametrize("names", OTHERS)
def test_what_is_allowed_is_shown_by_status(tmp_path: Path, names: str) -> None:
    storage = create_store(tmp_path / "features")
    begin(storage, 1, MADE, ended=True)
    begin(storage, 3, MADE, ended=True)
    begun = begin(storage, 2, OTHERS[names], ended=True, allow_mixed=True)
    assert [names in difference for difference in begun.differences] == [True]
    (progress,) = array_progress(storage)
    assert [line.startswith("part 2: ") and names in line for line in progress.mixed] == [True]
    assert progress.mixed[0] in storyframes_here("status", tmp_path / "features").stdout


def test_a_whole_array_that_has_ended_is_begun_again_with_others(tmp_path: Path) -> None:
    """After an upgrade all parts run again, and until they have, the array is not complete."""
    storage = create_store(tmp_path / "features")
    for number in (1, 2, 3):
        begin(storage, number, MADE, ended=True)
    (before,) = array_progress(storage)
    begun = begin(storage, 2, OTHERS["numpy 2.2.0"], ended=True)
    (after,) = array_progress(storage)
    assert before.is_complete
    assert (after.is_complete, after.ended, after.not_begun, after.mixed) == (False, [2], [1, 3], [])
    assert (begun.differences, "--force" in begun.warnings[0]) == ([], True)
    with pytest.raises(MixedPartsError, match="numpy"):
        begin(storage, 1, MADE)


def test_an_earlier_attempt_of_the_same_part_with_other_code_counts_unless_it_is_made_again(tmp_path: Path) -> None:
    """Its versions have the fingerprint of the new code, so they would be up to date."""
    storage = create_store(tmp_path / "features")
    begin(storage, 1, OTHERS["digest eeeeeeeeeeee"])
    with pytest.raises(MixedPartsError, match="digest"):
        begin(storage, 1, MADE)
    assert begin(storage, 1, MADE, force=True).differences == []
    assert begin(storage, 1, OTHERS["opensmile"]).differences == []  # other settings extract again by themselves


def test_a_part_that_an_older_version_noted_is_not_compared(tmp_path: Path) -> None:
    storage = create_store(tmp_path / "features")
    note_part(storage, "a", PartArray(parts=3, features=["opensmile"]), 1, PartState(due=1))
    assert begin(storage, 2, MADE).differences == []


def test_what_counts_is_what_decides_values(tmp_path: Path) -> None:
    """Not where a program lies, how many processors it takes, or what no asked feature reads."""
    from flows.settings import Settings

    def digests(**sections: Any) -> MadeWith:
        return made_with(Settings.model_validate(sections), ["opensmile", "glove"])

    plain = digests()
    assert plain.settings.keys() == {"frames", "opensmile", "glove", "recording", "transcript"}
    here = Installation.of_this_process(["opensmile"])
    assert plain.installation.libraries["opensmile"] == here.libraries["opensmile"]
    other_set = digests(opensmile={"feature_set": "eGeMAPSv02"})
    assert [line.split()[0] for line in other_set.differences_from(plain, "part 1")] == ["opensmile"]
    strict = digests(transcript={"allow_malformed_cues": True})
    assert [line.split()[0] for line in strict.differences_from(plain, "part 1")] == ["transcript"]
    second_sound = digests(recording={"sound_stream": 1})
    assert [line.split()[0] for line in second_sound.differences_from(plain, "part 1")] == ["recording"]
    assert digests(openface={"cpus": 7}, cluster={"cpus": 1}, clips={"window": 99}) == plain


def test_a_feature_whose_model_is_not_here_yet_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part without any session downloads no model; what it extracts mixes with nothing."""
    from flows.settings import Settings
    from tasks.extractors.resnet50 import ResNet50

    def digests(weights: str) -> MadeWith:
        return made_with(Settings.model_validate({"resnet50": {"weights": weights}}), ["resnet50"])

    def models(self: object) -> dict[str, str]:
        raise ExtractionError("the model is not here")

    monkeypatch.setattr(ResNet50, "models", lambda self: {"resnet50": "a" * 64})
    known, other = digests("IMAGENET1K_V1"), digests("IMAGENET1K_V2")
    monkeypatch.setattr(ResNet50, "models", models)
    unknown = digests("IMAGENET1K_V1")
    assert unknown.differences_from(known, "part 1") == known.differences_from(unknown, "part 2") == []
    assert [line.split()[0] for line in other.differences_from(known, "part 1")] == ["resnet50"]


def test_what_is_allowed_has_a_caveat(small_study: Path, tmp_path: Path) -> None:
    root = tmp_path / "features"

    def run(part: str, *options: str, allow_truncated: bool) -> Any:
        config = request(small_study, root, {"recording": {"allow_truncated": allow_truncated}}).config
        asked = ("extract", small_study, root, "--features", "frames", "--config", config)
        return storyframes_here(*asked, "--part", part, *options)

    assert run("1/2", allow_truncated=False).returncode == 0
    refused = run("2/2", allow_truncated=True)
    assert (refused.returncode, "recording has other settings" in refused.stderr) == (2, True)
    assert sum(status.current is not None for status in scan(local(root))) == 1
    allowed = run("2/2", "--allow-mixed", allow_truncated=True)
    assert allowed.returncode == 0, allowed.stderr
    caveats = [status.current.caveats for status in scan(local(root)) if status.current]
    assert sorted(caveats) == [[], ["extracted with other settings or code than other parts"]]


@pytest.mark.slow
@pytest.mark.end_to_end
def test_index_and_clips_say_what_parts_lack(small_study: Path, tmp_path: Path) -> None:
    root = tmp_path / "features"
    config = ("--config", request(small_study, root).config)
    asked = ("extract", small_study, root, "--features", "frames", *config)
    assert storyframes_here(*asked, "--part", "1/3").returncode == 0
    index = ("index", small_study, root, *config)
    missing = storyframes_here(*index)
    assert missing.returncode == 1
    line = "frames: 1 of 3 parts ended; not begun: 2, 3"
    assert line in missing.stderr
    assert storyframes_here(*index, "--parts-may-be-missing").returncode == 0
    shown = storyframes_here("clips", root)
    assert (shown.returncode, line in shown.stderr) == (0, True)
    content = storyframes_here(*index, "--json")
    assert (content.returncode, json.loads(content.stdout)["arrays"][0]["not_begun"]) == (1, [2, 3])
    for part in ("2/3", "3/3"):
        assert storyframes_here(*asked, "--part", part).returncode == 0
    whole = storyframes_here(*index)
    assert (whole.returncode, "parts" in whole.stderr) == (0, False), whole.stderr


def test_what_a_plain_run_extracted_is_not_missing(small_study: Path, tmp_path: Path) -> None:
    root = tmp_path / "features"
    config = ("--config", request(small_study, root).config)
    asked = ("extract", small_study, root, "--features", "frames", *config)
    index = ("index", small_study, root, *config)
    assert storyframes_here(*asked, "--part", "1/3").returncode == 0
    assert storyframes_here(*index).returncode == 1
    assert storyframes_here(*asked).returncode == 0
    done = storyframes_here(*index)
    assert (done.returncode, "parts" in done.stderr) == (0, False), done.stderr
    assert list(array_progress(local(root))) == []
    assert (unseal((root / "parts.json").read_bytes(), "") or {})["arrays"]  # what its parts have cost
    assert storyframes_here(*asked, "--part", "2/3", "--force").returncode == 0
    assert [array.ended for array in array_progress(local(root))] == [[2]]


def test_index_says_that_features_of_parts_failed(small_study: Path, tmp_path: Path) -> None:
    storage = create_store(tmp_path / "features")
    ended = PartState(due=4, done=3, failed=1, ended=True)
    note_part(storage, "a", PartArray(parts=1, features=["frames"]), 1, ended)
    said = storyframes_here("index", small_study, tmp_path / "features")
    assert (said.returncode, "with failed features: 1 (1)" in said.stderr) == (1, True)


def test_a_mistyped_part_is_dropped(small_study: Path, tmp_path: Path) -> None:
    root = tmp_path / "features"
    asked = ("extract", small_study, root, "--features", "frames", "--part")
    assert storyframes_here(*asked, "900/900").returncode == 0
    assert storyframes_here("index", small_study, root).returncode == 1
    other = storyframes_here(*asked, "899/900", "--drop")
    assert (other.returncode, "no part 899/900" in other.stderr) == (2, True)
    assert storyframes_here(*asked, "900/900", "--drop").returncode == 0
    assert storyframes_here(*asked, "1/1").returncode == 0
    assert [array.parts for array in array_progress(local(root))] == [1]
    assert storyframes_here("index", small_study, root).returncode == 0


def test_dropping_one_of_several_leaves_the_others(tmp_path: Path) -> None:
    storage = create_store(tmp_path / "features")
    array = PartArray(parts=3, features=["frames"])
    for name in ("a", "b"):
        for number in (1, 2):
            note_part(storage, name, array, number, PartState(ended=True))
    drop_part(storage, "b", array, 2)
    assert [progress.ended for progress in array_progress(storage)] == [[1, 2], [1]]


@pytest.mark.parametrize("option", ["--drop", "--allow-mixed"])
def test_options_of_parts_need_a_part(small_study: Path, tmp_path: Path, option: str) -> None:
    refused = storyframes_here("extract", small_study, tmp_path / "features", option)
    assert (refused.returncode, f"{option} is about a part" in refused.stderr) == (2, True)


def test_stories_weigh_nothing_where_no_feature_reads_them(small_study: Path) -> None:
    study, settings = load_study(small_study), ExtractorsSettings()
    assert study.stories
    assert set(session_costs(study, settings, Selection(only=("frames", "opensmile")))) == {*study.sessions}
    assert set(session_costs(study, settings, Selection(only=("frames", "glove")))) == {*study.sessions, "stories"}


def test_a_stopped_process_holds_up_no_part(small_study: Path, tmp_path: Path) -> None:
    """Another process holds the lock and never lets it go: progress is noted later, and the work goes on.

    It is said only when it has lasted: a part that notes at the same moment is nothing to end.
    """
    import fcntl

    run = planned(open_run(request(small_study, tmp_path / "features", only=["frames"], part="1/2")))
    lines: list[str] = []
    run.progress.warned = lines.append  # type: ignore[method-assign]
    with NotedPart(run) as noting, (tmp_path / "features/.parts.json.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        noting._note()
        assert lines == []
        for _ in range(4):
            noting._note()
        assert ["cannot be noted" in line and ".parts.json.lock" in line for line in lines] == [True]
        fcntl.flock(lock, fcntl.LOCK_UN)
    assert [progress.ended for progress in array_progress(run.storage)] == [[1]]
