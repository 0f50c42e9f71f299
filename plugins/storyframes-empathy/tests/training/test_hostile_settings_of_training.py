"""Sections ``[train]`` that nobody means well: each is refused in one line that names the key, whoever reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.messages import naming

from flows.settings import SettingsError, load_settings
from storyframes_empathy.training.settings import TrainSettings, TrainSettingsError, load_train_settings

READERS = pytest.mark.parametrize(
    ("load", "error"), [(load_settings, SettingsError), (load_train_settings, TrainSettingsError)]
)


@READERS
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[train]\nepochs = true\n", "train: epochs = True: true and false mean nothing here"),
        ("[train.ef_lstm]\nhidden = true\n", "train.ef_lstm: hidden = True: true and false mean nothing here"),
        ("[train]\nlabel_range = [0, inf]\n", "train.label_range.1 = inf: a number has to be finite"),
        ("[train]\nsplit_shares = [0.5, 0.2, 0.2]\n", "they add up to 0.9, and have to add up to 1"),
    ],
)
def test_each_is_refused_in_a_line_with_its_key(
    tmp_path: Path, text: str, said: str, load: Callable, error: type[Exception]
) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(error) as refused:
        load(tmp_path / "c.toml")
    line = str(refused.value).splitlines()[-1]
    assert said in line
    assert len(line) < 400


BOMBS: dict[str, str] = {"deep": f"a = {'[' * 5000}{']' * 5000}", "digits": f"a = {'9' * 5000}", "inf": "a = inf"}


@pytest.mark.parametrize("bomb", BOMBS)
@READERS
def test_whoever_reads_the_file_refuses_it(tmp_path: Path, bomb: str, load: Callable, error: type[Exception]) -> None:
    (tmp_path / "c.toml").write_text(f"[train]\n{BOMBS[bomb]}\n")
    with pytest.raises(error) as refused:
        load(tmp_path / "c.toml")
    assert str(refused.value).startswith(f"{tmp_path / 'c.toml'}: ")
    assert len(str(refused.value).splitlines()) == 1


def test_what_a_program_says_is_held_to_the_same() -> None:
    with pytest.raises(ValueError, match=naming("true and false mean nothing")):
        TrainSettings(epochs=True)
