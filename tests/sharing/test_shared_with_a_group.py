"""A store that a group shares: two users write it by turns, and neither locks the other out."""

from __future__ import annotations

import grp
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.messages import missing
from support.stores import local, publish_openface
from support.systems.users import as_user
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.store import catalogue, maintenance
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError, create_store
from storyframes.store.maintenance import sharing
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage import StorageError, access

OWNER, COLLEAGUE, STRANGER = 54321, 54322, 54323
GROUP = "users"  # every Debian has it
GID = grp.getgrnam(GROUP).gr_gid

pytestmark = pytest.mark.needs("root")


@pytest.fixture
def root() -> Iterator[Path]:
    """A private store of OWNER's with one version. Everybody may enter its folder, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="storyframes-test-"))
    folder.chmod(0o755)
    os.chown(folder, OWNER, OWNER)
    root = folder / "features"
    create_store(root)
    publish_openface(root, "s1", 10)
    catalogue.compact(local(root))
    for path in (root, *root.rglob("*")):
        os.chown(path, OWNER, OWNER)
    yield root
    shutil.rmtree(folder)


def owner(function: Callable[[], Any]) -> Any:
    return as_user(OWNER, [GID], function)


def colleague(function: Callable[[], Any]) -> Any:
    return as_user(COLLEAGUE, [GID], function)


def modes(root: Path) -> set[tuple[str, str, int]]:
    """The mode of every file and folder, and its group."""
    statuses = [path.lstat() for path in (root, *root.rglob("*"))]
    return {
        ("folder" if stat.S_ISDIR(s.st_mode) else "file", f"{stat.S_IMODE(s.st_mode):04o}", s.st_gid) for s in statuses
    }


def values(root: Path) -> list[float]:
    return [float(number) for number in FeatureStore(root).read("s1", "openface", array="confidence")]


def publish(root: Path, number: float) -> None:
    """A version and a catalogue, by this process's user under a umask that leaves nobody anything."""
    os.umask(0o077)
    from storyframes.features import FEATURES

    with FeatureWriter(local(root), "s1", FEATURES["openface"]) as out:
        out.write("values", np.zeros((10, 714), np.float32))
        out.write("valid", np.ones(10, np.uint8))
        out.write("confidence", np.full(10, number, np.float32))
        out.publish("e" * 64, {"inputs": {}})
    catalogue.compact(local(root))


def problems(root: Path) -> list[str]:
    return [f"{finding.path}: {finding.problem}" for finding in maintenance.verify(local(root))]


def test_a_store_is_its_owners_alone_until_it_is_shared(root: Path) -> None:
    assert isinstance(colleague(lambda: values(root)), StorageError | PermissionError | StoreError)
    assert owner(lambda: sharing.share(local(root), GROUP)) == {}
    assert colleague(lambda: values(root)) == [pytest.approx(0.98)] * 10
    assert isinstance(as_user(STRANGER, [], lambda: values(root)), StorageError | PermissionError | StoreError)
    assert modes(root) == {("folder", "2750", GID), ("file", "0640", GID)}
    assert isinstance(colleague(lambda: publish(root, 0.5)), OSError)
    assert owner(lambda: publish(root, 0.25)) is None  # and what is written later is the group's too
    assert colleague(lambda: (values(root), problems(root))) == ([0.25] * 10, [])
    assert modes(root) == {("folder", "2750", GID), ("file", "0640", GID)}


@pytest.mark.slow
def test_two_users_write_one_store_by_turns(root: Path) -> None:
    assert owner(lambda: sharing.share(local(root), GROUP, write=True)) == {}
    for number, user in enumerate((colleague, owner, colleague)):
        assert user(lambda: publish(root, number)) is None  # noqa: B023  # called at once
        for reader in (owner, colleague):
            assert reader(lambda: (values(root), problems(root))) == ([number] * 10, [])
    assert modes(root) == {("folder", "2770", GID), ("file", "0660", GID)}
    removed = owner(lambda: [removal.path for removal in maintenance.collect(local(root), -1)])
    assert len(removed) == 3  # the colleague's superseded version among them
    assert owner(lambda: (values(root), problems(root))) == ([2] * 10, [])


def test_what_a_colleague_is_writing_disturbs_nobody(root: Path) -> None:
    from storyframes.features import FEATURES

    def look_while_writing() -> Any:
        os.umask(0o077)
        with FeatureWriter(local(root), "s2", FEATURES["openface"]) as out:
            out.write("confidence", np.zeros(100, np.float32))
            return modes(root)

    assert owner(lambda: sharing.share(local(root), GROUP, write=True)) == {}
    folders = {mode for kind, mode, _ in colleague(look_while_writing) if kind == "folder"}
    assert folders == {"2770"}


def test_verify_names_what_the_group_cannot_read(root: Path) -> None:
    assert owner(lambda: sharing.share(local(root), GROUP)) == {}
    current = root / "s1/openface/current.json"
    current.chmod(0o600)
    expected = f"s1/openface/current.json: the group users cannot read it: mode 0600, group {GID}"
    (finding,) = owner(lambda: list(maintenance.verify(local(root))))
    assert (f"{finding.session_id}/{finding.feature}/{finding.path}: {finding.problem}", finding.forbidden) == (
        expected,
        True,
    )
    shown = CliRunner().invoke(app, ["verify", str(root)])
    assert shown.exit_code == 1
    assert not missing(shown.output, "'storyframes share'", "with the same options")
    assert "makes again" not in shown.output  # the values are sound
    assert owner(lambda: (sharing.share(local(root), GROUP), problems(root))) == ({}, [])


def test_what_goes_while_verify_looks_is_no_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner(lambda: sharing.share(local(root), GROUP))
    lease = root / "s1/openface/.a-version.lock"
    lease.touch()
    real = os.stat

    def stat_of(path: Any, **options: Any) -> os.stat_result:
        if path == lease.name:  # its writer has ended
            lease.unlink()
        return real(path, **options)

    monkeypatch.setattr(os, "stat", stat_of)
    assert problems(root) == []
    assert not lease.exists()


def test_private_again(root: Path) -> None:
    owner(lambda: sharing.share(local(root), GROUP, write=True))
    colleague(lambda: publish(root, 0.5))
    unchanged = owner(lambda: sharing.make_private(local(root)))
    assert any(path.endswith("current.json") for path in unchanged)  # the colleague's files, which stay the group's
    assert root.stat().st_mode & 0o7777 == 0o700
    assert owner(lambda: values(root)) == [0.5] * 10  # nobody is locked out of what is theirs
    assert owner(lambda: publish(root, 0.75)) is None
    assert owner(lambda: values(root)) == [0.75] * 10
    assert isinstance(colleague(lambda: values(root)), StorageError | PermissionError | StoreError)


def test_who_may_share_and_with_whom(root: Path) -> None:
    assert "no group 'nobodys'" in str(owner(lambda: sharing.share(local(root), "nobodys")))
    assert not missing(str(owner(lambda: sharing.share(local(root), "root"))), "no member of the group")
    owner(lambda: sharing.share(local(root), GROUP, write=True))
    assert "another user's" in str(colleague(lambda: sharing.share(local(root), GROUP)))
    assert "another user's" in str(colleague(lambda: sharing.make_private(local(root))))
    assert "no member" in str(as_user(OWNER, [], lambda: publish(root, 0.5)))  # left the group since


def test_no_link_in_the_store_changes_what_is_outside_it(root: Path) -> None:
    secret, notes = root.parent / "secret", root.parent / "notes"
    for file, mode in ((secret, 0o600), (notes, 0o644)):
        file.touch()
        file.chmod(mode)
        os.chown(file, OWNER, OWNER)
    (root / "s1/link").symlink_to(secret)
    (root / "s1/secret").hardlink_to(secret)
    (root / "s1/notes").hardlink_to(notes)
    unchanged = owner(lambda: sharing.share(local(root), GROUP))
    assert set(unchanged) == {"s1/link", "s1/secret", "s1/notes"}
    assert not missing(unchanged["s1/secret"], "has another name too")
    assert not missing(str(problems(root)), "s1/secret", "the group users cannot read")
    assert set(owner(lambda: sharing.make_private(local(root)))) == {"s1/link", "s1/notes"}
    found = [(stat.S_IMODE(file.stat().st_mode), file.stat().st_gid) for file in (secret, notes)]
    assert found == [(0o600, OWNER), (0o644, OWNER)]


def test_a_group_of_the_same_name_or_number_is_not_taken_for_it(root: Path, monkeypatch) -> None:
    """A group was removed and its number given to others; or this machine knows the name as another number's."""

    def groups(name: str, gid: int) -> None:
        entry = grp.struct_group((name, "x", gid, []))
        monkeypatch.setattr(grp, "getgrnam", {name: entry}.__getitem__)
        monkeypatch.setattr(grp, "getgrgid", {gid: entry, OWNER: entry}.__getitem__)
        access._number.cache_clear()

    assert owner(lambda: sharing.share(local(root), GROUP, write=True)) == {}
    before = values(root)
    groups("students", GID)
    refused = f"with the group users, which is unknown here, and its number {GID} is another's (students): 'storyframes"
    assert refused in str(owner(lambda: publish(root, 0.5)))
    assert refused in str(problems(root))
    groups(GROUP, OWNER)
    refused = (
        f"group users, which has the number {OWNER} here, but the folder is of the group {GID}: 'storyframes share'"
    )
    assert refused in str(owner(lambda: publish(root, 0.5)))
    assert owner(lambda: values(root)) == before
    assert owner(lambda: sharing.share(local(root), GROUP)) == {}  # says anew which group it is
    assert owner(lambda: publish(root, 0.5)) is None
    assert modes(root) == {("folder", "2750", OWNER), ("file", "0640", OWNER)}
    access._number.cache_clear()


def test_a_damaged_record_is_no_reason_to_guess(root: Path) -> None:
    owner(lambda: sharing.share(local(root), GROUP))
    (root / sharing.SHARING).write_text("{}")
    assert "'storyframes share' writes it again" in str(owner(lambda: publish(root, 0.5)))
    assert owner(lambda: sharing.share(local(root), GROUP)) == {}
    assert owner(lambda: publish(root, 0.5)) is None
    assert modes(root) == {("folder", "2750", GID), ("file", "0640", GID)}


def test_the_command(root: Path) -> None:
    def share(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["share", str(root), *options])
        return done.exit_code, done.output.partition("Next: ")[0]

    assert share() == (0, f"{root}: only its owner may use it\n")
    assert share("--group", GROUP, "--write") == (0, f"{root}: the group users may read and write\n")
    assert share() == (0, f"{root}: the group users may read and write\n")
    root.parent.chmod(0o700)
    code, output = share("--group", GROUP)
    assert code == 1
    assert f"{root.parent} has the mode 0700" in output
    root.parent.chmod(0o755)
    assert share("--private") == (0, f"{root}: only its owner may use it\n")
    assert modes(root) == {("folder", "0700", GID), ("file", "0600", GID)}
    assert share("--write")[0] == share("--private", "--group", GROUP)[0] == 2
    assert CliRunner().invoke(app, ["share", "s3://bucket/features"]).exit_code == 2
