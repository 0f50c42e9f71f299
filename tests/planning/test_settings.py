from __future__ import annotations

from pathlib import Path

import pytest

from flows.settings import Settings, SettingsError, load_settings
from storyframes.clips.window_spec import WindowSpec


def write(folder: Path, text: str) -> Path:
    path = folder / "storyframes.toml"
    path.write_text(text)
    return path


def test_without_a_file_the_defaults_hold() -> None:
    assert load_settings(None) == Settings()


def test_the_demos_configuration() -> None:
    settings = load_settings(Path(__file__).parents[2] / "demo/storyframes.toml")
    assert settings.resnet50.allow_untrained
    assert settings.glove.vectors.is_file()


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, '[glove]\nvectors = "models/glove.txt"\n'))
    assert settings.glove.vectors == tmp_path / "models/glove.txt"


def test_the_clips_are_cut_as_the_file_says(tmp_path: Path) -> None:
    text = '[clips]\nwindow = 60\nfps = 25\nphases = ["reflection"]\nsplit_shares = [0.8, 0.1, 0.1]\n'
    expected = WindowSpec(window=60, fps=25.0, phases=("reflection",), split_shares=(0.8, 0.1, 0.1))
    assert load_settings(write(tmp_path, text)).clips == expected
    assert load_settings(write(tmp_path, "[clips]\n")).clips == WindowSpec()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[resnet50]\nbatchsize = 4\n", r"resnet50\.batchsize: there is no such key"),
        ("[resnet]\n", "resnet: there is no such key"),
        ("[pyfeat]\n", r"\[pyfeat\] comes with storyframes-pyfeat: pip install"),
        ("[train]\n", r"\[train\] comes with storyframes-empathy: pip install"),
        ("[report]\n", "report: there is no such key"),  # a command of a distribution without settings
        ("[resnet50]\nbatch_size = 0\n", r"resnet50\.batch_size = 0: Input should be greater than or equal to 1"),
        (
            '[opensmile]\nfeature_set = "compare"\n',
            r"opensmile\.feature_set = 'compare': Input should be 'ComParE_2016'",
        ),
        ("[clips]\nsplit_shares = [0, 0, 0]\n", r"clips: split_shares = \[0.0, 0.0, 0.0\]: not all of them zero"),
        ("[clips]\nwindow = 0\nstride = 0\n", r"clips: window = 0: .*, at least 1; stride = 0: .*, at least 1"),
        ("[clips]\nwindow = 1.5\n", r"clips\.window = 1\.5: Input should be a valid integer"),
        ("[clips]\nfps = 0\n", r"clips: fps = 0\.0: more than 0 frames per second"),
        ("[clips]\nstep = 4\n", r"clips\.step: there is no such key"),
        ('[openface]\nbackend = "binary"\n', "needs binary"),
        ("[resnet50\n", "is not TOML"),
    ],
)
def test_every_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_settings(write(tmp_path, text))


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        load_settings(write(tmp_path, "[resnet50]\nbatchsize = 4\n[glove]\nvector = 'x'\n"))
    assert "batchsize" in str(error.value)
    assert "glove.vector" in str(error.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(tmp_path / "absent.toml")
