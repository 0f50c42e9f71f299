"""Configurations that nobody means well: each is refused in one line that names the key, whoever reads it."""

from __future__ import annotations

import contextlib
import os
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import flows.settings
from flows.clusters.settings import ClusterSettingsError, load_cluster
from flows.settings import SettingsError, load_settings
from storyframes.clips.clip_index import SplitSpec
from storyframes.clips.window_spec import WindowSpec
from storyframes.config_file import ConfigFileError, check_values, read_toml
from tasks.extractors.openface.extractor import OpenFaceSettings
from tasks.tools.containers import ContainerError, Docker, Podman

DIGEST = "sha256:" + "0" * 64


def refusal(folder: Path, text: str) -> str:
    """What a configuration is refused with; without the file's name, which has a line of its own where keys are."""
    path = folder / "c.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    lines = str(error.value).removeprefix(f"{path}:").splitlines()
    (said,) = [line.strip() for line in lines if line.strip()]
    assert len(said) < 400
    return said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[clips]\nwindow = true\n", "clips.window = True: true and false mean nothing here"),
        ("[clips]\nsplit_seed = false\n", "clips.split_seed = False: true and false mean nothing here"),
        ("[clips]\nsplit_shares = [true, 0, 0]\n", "clips.split_shares = True: true and false mean nothing here"),
        ("[openface]\ncpus = true\n", "openface: cpus = True: true and false mean nothing here"),
        ("[cluster]\ncpus = true\n", "cluster.local: cpus = True: true and false mean nothing here"),
        ("[labels.joy]\nraters = true\n", "labels.joy.raters = True: true and false mean nothing here"),
        ("[openface]\ntimeout_s = inf\n", "openface.timeout_s = inf: a number has to be finite"),
        ("[openface]\nmemory_gib = nan\n", "openface.memory_gib = nan: a number has to be finite"),
        ("[clips]\nsplit_shares = [0.7, 0.2, 0.2]\n", "they add up to 1.1, and have to add up to 1"),
        ("[clips]\nsplit_shares = [70, 20, 10]\n", "they add up to 100, and have to add up to 1"),
        ('[openface]\nimage = "--privileged"\n', "openface.image = '--privileged': begins with '-'"),
        (f'[openface]\nimage = "--privileged@{DIGEST}"\n', "begins with '-'"),
        (f"[clips]\nsplit_seed = {'9' * 5000}\n", "clips.split_seed: a number of 5,000 digits"),
        (f"[clips]\nsplit_seed = 0x{'f' * 20}\n", "clips.split_seed: a whole number beyond 64 bits"),
        (f"[openface]\ncpus = {'9' * 40}\n", "openface.cpus: a whole number beyond 64 bits"),
        (f"[clips]\nphases = {'[' * 5000}{']' * 5000}\n", "is nested too deeply"),
        (f"[clips]\nphases = {'[' * 50}{']' * 50}\n", "is nested too deeply"),
        (f"[{'.'.join('a' * 3000)}]\nb = 1\n", "is nested too deeply"),
        (f"{'a.' * 3000}b = 1\n", "is nested too deeply"),
        (f"[clips]\nphases = [{'1,' * 120_000}]\n", "has more than 100,000 values"),
        ("#" * 2_000_000, "is larger than 256,000 bytes"),
    ],
)
def test_each_is_refused_in_a_line_with_its_key(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal(tmp_path, text)


@pytest.mark.parametrize(
    "text", [f"{'a.' * 20_000}b = 1\n", f"[{'.'.join('a' * 900)}]\n" + "".join(f"b{n} = 1\n" for n in range(20_000))]
)
def test_a_key_of_many_parts_is_refused_before_it_is_read(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading one of n parts takes n squared steps, again for each key of its table."""
    monkeypatch.setattr(tomllib, "loads", None)
    assert "line 1: is nested too deeply: a key of more than 64 parts" in refusal(tmp_path, text)


@pytest.mark.parametrize("key", ["a{n}.b", "clips.a{n}"])
def test_many_unknown_keys_are_looked_up_as_often_as_they_are_shown(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    for name in ("plug_in", "suggest_key"):  # each takes milliseconds
        asked = getattr(flows.settings, name)
        monkeypatch.setattr(flows.settings, name, lambda *given, asked=asked: (calls.append(given), asked(*given))[1])
    path = tmp_path / "c.toml"
    path.write_text("".join(f"{key.format(n=n)} = 1\n" for n in range(2000)))
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    assert len(calls) < 60
    assert len(str(error.value).splitlines()) == 52
    assert str(error.value).endswith("and 1,950 more")


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (Path("/dev/zero"), tmp_path / "fifo"):
        with pytest.raises(SettingsError, match="is not a regular file"):
            load_settings(path)
        with pytest.raises(ClusterSettingsError, match="is not a regular file"):
            load_cluster(str(path))
    with pytest.raises(SettingsError, match="Is a directory"):
        load_settings(tmp_path)


BOMBS: dict[str, str] = {"deep": f"a = {'[' * 5000}{']' * 5000}", "digits": f"a = {'9' * 5000}", "inf": "a = inf"}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_configuration_is_read_as_strictly(tmp_path: Path, bomb: str) -> None:
    (tmp_path / "c.toml").write_text(f"[clips]\n{BOMBS[bomb]}\n")
    with pytest.raises(SettingsError) as refused:
        load_settings(tmp_path / "c.toml")
    assert str(refused.value).startswith(f"{tmp_path / 'c.toml'}: ")
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "kind: address\naddress: tls://n:1\nwait_s: .inf\n",
        f"kind: local\ncpus: {'9' * 5000}\n",
        f"kind: local\ncpus: {'[' * 5000}\n",
        "kind: local\ncpus: true\n",
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{after}: &{after} [{('*' + one + ', ') * 9}]\n" for one, after in pairwise("abcdefgh")),
        "a: &a [*a]\n",
    ],
)
def test_a_clusters_file_is_read_as_strictly(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ClusterSettingsError) as refused:
        load_cluster(str(tmp_path / "c.yaml"))
    assert len(str(refused.value).splitlines()) <= 2
    assert len(str(refused.value)) < 500


def test_what_a_program_says_is_held_to_the_same() -> None:
    with pytest.raises(ValueError, match=r"timeout_s\n.*finite number"):
        OpenFaceSettings(timeout_s=float("inf"))
    with pytest.raises(ValueError, match="window = True"):
        WindowSpec(window=True)
    for shares in ((0.7, 0.2, 0.2), (7, 2, 1), (0.1, 0.1, 0.1)):
        with pytest.raises(ValueError, match="add up to 1"):
            SplitSpec(shares=shares)
    assert SplitSpec(shares=(1 / 3, 1 / 3, 1 / 3))
    assert SplitSpec(shares=(0.333, 0.333, 0.334))


@pytest.mark.parametrize("engine", [Podman, Docker])
def test_no_image_is_an_option_of_an_engine(engine: type[Podman | Docker]) -> None:
    for image in ("--privileged", f"--privileged@{DIGEST}", f"-v=/:/host@{DIGEST}", f"a b@{DIGEST}"):
        with pytest.raises(ContainerError, match="name of an image"):
            engine("/no/such/engine").resolve(image)


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner), max_leaves=12
)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=3), _VALUES))
@examples(deadline=None, max_examples=30)
def test_whatever_is_in_it_is_taken_or_refused_in_a_line(content: dict) -> None:
    with contextlib.suppress(ConfigFileError):
        check_values(content)


@given(st.binary(max_size=200) | st.text(alphabet="a.[]={}\"'\n1,e+-#", max_size=80).map(str.encode))
@examples(deadline=None, max_examples=200)
def test_whatever_a_file_holds_it_is_read_or_refused(content: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        with contextlib.suppress(ConfigFileError):
            assert isinstance(read_toml(Path(file.name)), dict)
