"""The recorded voices: only pinned files are unpacked, scenes have what they say at its time, errors are counted."""

from __future__ import annotations

import stat
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing
from support.voices import human
from support.voices.fetching import CACHE_VARIABLE, Package, PackageError, admit, missing_packages, pinned_packages
from support.voices.scenes import RATE, Planted, Spoken, compose, step_levels_db
from support.voices.scoring import HeardAt, aligned, ghosts, word_errors


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def wheel(path: Path, members: dict[str, str], link: str = "") -> Package:
    """A package that is pinned as this file is."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
        if link:
            member = zipfile.ZipInfo(link)
            member.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(member, "/etc/passwd")
    return Package("voices", "1.0", "wheel", sha256(path.read_bytes()).hexdigest(), "MIT", "a test")


def test_a_pinned_file_is_unpacked_once(tmp_path: Path, cache: Path) -> None:
    package = wheel(tmp_path / "voices.whl", {"voices/said.txt": "yes"})
    assert admit(package, tmp_path / "voices.whl") == admit(package, tmp_path / "voices.whl") == package.folder
    assert (package.folder / "voices/said.txt").read_text() == "yes"
    assert package.folder.parent == cache
    assert [path.name for path in cache.iterdir()] == [package.folder.name]


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path, cache: Path) -> None:
    package = wheel(tmp_path / "voices.whl", {"voices/said.txt": "yes"})
    wheel(tmp_path / "voices.whl", {"voices/said.txt": "no"})
    with pytest.raises(PackageError) as refused:
        admit(package, tmp_path / "voices.whl")
    assert missing(str(refused.value), "voices.whl", package.sha256) == []
    assert not package.folder.exists()


@pytest.mark.parametrize(("member", "link"), [("../evil.txt", ""), ("/evil.txt", ""), ("a.txt", "voices/link")])
def test_no_member_leads_out_of_its_folder(tmp_path: Path, cache: Path, member: str, link: str) -> None:
    package = wheel(tmp_path / "voices.whl", {member: "evil"}, link)
    with pytest.raises(PackageError) as refused:
        admit(package, tmp_path / "voices.whl")
    assert missing(str(refused.value), "voices.whl", link or member) == []
    assert list(cache.iterdir()) == []
    assert not (tmp_path / "evil.txt").exists()


def test_what_is_missing_is_found_by_its_digest(cache: Path) -> None:
    assert missing_packages() == [*pinned_packages()]
    first = next(iter(pinned_packages().values()))
    first.folder.mkdir(parents=True)
    assert missing_packages([first.name]) == []


def tone(seconds: float, hertz: float) -> Spoken:
    """A tone between half a second of silence on both sides."""
    time = np.arange(round(seconds * RATE)) / RATE
    sound = np.sin(2 * np.pi * hertz * time).astype(np.float32)
    return Spoken(f"{hertz:.0f} Hz", np.pad(sound, round(0.5 * RATE)))


def test_a_scene_has_each_utterance_at_its_time_on_every_microphone() -> None:
    persons = [[tone(1.0, 500), tone(0.6, 600)], [tone(0.8, 900)]]
    scene = compose(persons, 3, seed=1, crosstalk_db=-12, delay_s=0.02, gains_db=(0, -6))
    said = [(each.person, each.turn, each.text) for each in scene.planted]
    assert said == [(0, 0, "500 Hz"), (1, 1, "900 Hz"), (0, 2, "600 Hz")]
    for each in scene.planted:
        for person, sound in enumerate(scene.microphones):
            late = 0.0 if person == each.person else 0.02
            levels = step_levels_db(sound)
            loud = np.flatnonzero(levels > -52)
            within = loud[(loud > (each.start_s - 0.2) * 100) & (loud < (each.end_s + 0.2) * 100)]
            assert within[0] / 100 == pytest.approx(each.start_s + late, abs=0.011)
            assert (within[-1] + 1) / 100 == pytest.approx(each.end_s + late, abs=0.011)
            expected = -26 - (0 if person == each.person else 12) - (6 if person else 0)
            assert np.median(levels[within]) == pytest.approx(expected, abs=0.5)
    gaps = [later.start_s - sooner.end_s for sooner, later in zip(scene.planted, scene.planted[1:], strict=False)]
    assert all(0.29 < gap < 1.21 for gap in gaps)


def test_errors_of_words_are_counted() -> None:
    assert word_errors("The cat, isn't there.", "the CAT isn't there") == (0, 4)
    assert word_errors("one two three four", "one too three four five") == (2, 4)
    assert word_errors("one two", "") == (2, 2)
    assert aligned(["a", "b", "c"], ["b", "c", "d"]) == [(0, None), (1, 0), (2, 1), (None, 2)]


def test_a_ghost_is_a_word_while_only_others_speak() -> None:
    planted = [Planted(0, 0, "yes", 1.0, 2.0), Planted(1, 1, "no", 3.0, 4.0)]
    heard = [HeardAt("yes", 0.9, 1.5), HeardAt("no", 3.2, 3.6), HeardAt("hm", 6.0, 6.2)]
    assert ghosts(heard, 0, planted) == [heard[1]]
    assert ghosts(heard, 1, planted) == [heard[0]]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.needs("real voices")
def test_the_pinned_packages_hold_voices_and_models() -> None:
    sentences = human.english()
    assert len(sentences) == 12
    assert sum(len(each.text.split()) for each in sentences) == 100
    for language in human.LANGUAGES:
        assert len(human.days_and_months(language)) == 19
        assert len(human.prompts(language)) > 100
    assert (human.whisper_model("base") / "model.bin").stat().st_size == 145_217_532
    assert (human.whisper_model("tiny.en") / "model.bin").stat().st_size == 75_537_502
