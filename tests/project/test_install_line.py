"""The ``pip install`` line of a message is the one that works for this installation."""

from __future__ import annotations

import json
import runpy
import shlex
from pathlib import Path

import pytest

import storyframes
from storyframes.installation import install_line

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Metadata of a distribution, which each test says the origin of."""
    information = tmp_path / "some_plug_in-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: some-plug-in\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    return information


def line(place: Path, origin: object, extra: str = "a") -> str:
    (place / "direct_url.json").write_text(origin if isinstance(origin, str) else json.dumps(origin))
    return install_line(extra, "some-plug-in")


def test_from_an_index_it_has_the_name(place: Path) -> None:
    assert install_line("a,b", "some-plug-in") == "pip install 'some-plug-in[a,b]'"
    assert install_line("", "some-plug-in") == "pip install some-plug-in"
    assert install_line("a", "not-installed-at-all") == "pip install 'not-installed-at-all[a]'"


def test_from_a_folder_or_a_wheel_it_has_the_path(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a check out"
    folder.mkdir()
    wheel = folder / "some_plug_in-1.0-py3-none-any.whl"
    assert line(place, {"url": wheel.as_uri(), "archive_info": {}}) == "pip install 'some-plug-in[a]'"  # it is gone
    wheel.write_bytes(b"")
    assert shlex.split(line(place, {"url": wheel.as_uri(), "archive_info": {}})) == ["pip", "install", f"{wheel}[a]"]
    assert shlex.split(line(place, {"url": folder.as_uri(), "dir_info": {}}))[2:] == [f"{folder}[a]"]
    editable = {"url": folder.as_uri(), "dir_info": {"editable": True}}
    assert shlex.split(line(place, editable)) == ["pip", "install", "-e", f"{folder}[a]"]


def test_an_extra_that_brings_another_distribution_shows_where_that_is(place: Path, tmp_path: Path) -> None:
    """Its folder in the checkout, or the folder of the wheels; an extra without one has none."""
    with (place / "METADATA").open("a") as metadata:
        metadata.write("Requires-Dist: storyframes-other<0.3,>=0.2; extra == 'a'\nRequires-Dist: b; extra == 'b'\n")
    checkout, wheel = tmp_path / "check out", tmp_path / "dist/some_plug_in-1.0-py3-none-any.whl"
    (checkout / "plugins/storyframes-other").mkdir(parents=True)
    wheel.parent.mkdir()
    wheel.write_bytes(b"")
    origin = {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    other = str(checkout / "plugins/storyframes-other")
    assert shlex.split(line(place, origin, "c,a")) == ["pip", "install", "-e", f"{checkout}[c,a]", other]
    assert shlex.split(line(place, origin, "b")) == ["pip", "install", "-e", f"{checkout}[b]"]
    from_wheel = shlex.split(line(place, {"url": wheel.as_uri(), "archive_info": {}}))
    assert from_wheel == ["pip", "install", "--find-links", str(wheel.parent), f"{wheel}[a]"]


def test_from_elsewhere_it_has_the_url_unless_a_secret_is_in_it(place: Path) -> None:
    url = "https://example.org/some_plug_in-1.0.whl"
    assert line(place, {"url": url, "archive_info": {}}) == f"pip install 'some-plug-in[a] @ {url}'"
    vcs = {"url": "https://example.org/r.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    assert line(place, vcs) == "pip install 'some-plug-in[a] @ git+https://example.org/r.git@abc'"
    assert line(place, {"url": "https://me:secret@example.org/x.whl"}) == "pip install 'some-plug-in[a]'"
    for odd in ("no json", "[]", "{}"):
        assert line(place, odd) == "pip install 'some-plug-in[a]'"


def test_storyframes_itself_names_where_it_was_installed_from() -> None:
    checkout = Path(storyframes.__file__).parents[1]
    assert shlex.split(install_line("s3")) == ["pip", "install", "-e", f"{checkout}[s3]"]


def test_a_plug_in_that_is_not_installed_is_the_folder_in_the_checkout() -> None:
    folder = Path(storyframes.__file__).parents[1] / "plugins/storyframes-labels"
    assert shlex.split(install_line(name="storyframes-labels")) == ["pip", "install", str(folder)]
    assert install_line(name="storyframes-of-somebody") == "pip install storyframes-of-somebody"


CONFIGURED = r"""
:env:.constraint='/mine.txt'
global.constraint='/theirs.txt'
global.extra-index-url='https://one.example/simple\nfile:///two/simple'
global.find-links='/wheels /more'
global.index-url='https://all.example/simple'
install.index-url='https://installs.example/simple'
list.format='columns'
""".strip()


def test_what_pip_is_configured_with_reaches_uv() -> None:
    """``make`` installs with uv: the variable of a constraint before that of the machine, the section of installing
    before that of all commands, nothing of other commands."""
    translate = runpy.run_path(str(ROOT / ".ci/install.py"))["uv_variables"]
    variables = translate(CONFIGURED.splitlines())
    assert variables["UV_CONSTRAINT"] == variables["UV_BUILD_CONSTRAINT"] == "/mine.txt"
    assert variables["UV_DEFAULT_INDEX"] == "https://installs.example/simple"
    assert variables["UV_INDEX"] == "https://one.example/simple file:///two/simple"
    assert variables["UV_FIND_LINKS"] == "/wheels,/more"
    with pytest.raises(ValueError, match="only-binary"):
        translate(["install.only-binary=':all:'"])
