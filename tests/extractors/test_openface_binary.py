"""The fingerprint of a FeatureExtraction of this machine: whatever decides its values is in it, or it is refused."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.messages import missing
from support.tools.openface_tools import extract, script

TOOL = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
const char *face(void);
int main(int argc, char **argv) {
    const char *out = "", *input = "";
    char folder[4096], path[8192], command[20000];
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], "-f")) input = argv[i + 1];
        if (!strcmp(argv[i], "-out_dir")) out = argv[i + 1];
    }
    strcpy(folder, argv[0]);
    *strrchr(folder, '/') = 0;
    snprintf(path, sizeof path, "%s/%s", folder, "model/recorded.csv");
    if (getenv("MODEL")) strcpy(path, getenv("MODEL"));
    printf("Reading the landmark detector module from: %s....Done\n", path);
    printf("%s\n", face());
    const char *name = strrchr(input, '/') + 1;
    snprintf(command, sizeof command, "cp '%s' '%s/%.*s.csv'", path, out, (int)(strrchr(name, '.') - name), name);
    return system(command) != 0;
}
"""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a shared library beside it, as OpenFace is built."""
    folder = tmp_path_factory.mktemp("compiled")
    build_library(folder, "one")
    (folder / "tool.c").write_text(TOOL)
    compiler = ["cc", "-o", "FeatureExtraction", "tool.c", "-L.", "-lface", "-Wl,-rpath,$ORIGIN/lib"]
    subprocess.run(compiler, cwd=folder, check=True)
    (folder / "lib").mkdir()
    shutil.move(folder / "libface.so", folder / "lib/libface.so")
    (folder / "tool.c").unlink()
    return folder


def build_library(folder: Path, word: str) -> Path:
    (folder / "face.c").write_text(f'const char *face(void) {{ return "{word}"; }}\n')
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "libface.so", "face.c"], cwd=folder, check=True)
    (folder / "face.c").unlink()
    return folder / "libface.so"


@pytest.fixture
def tool(compiled: Path, study_copy: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(compiled, tmp_path / "OpenFace"))
    for name in ("model/patch_experts", "AU_predictors", "classifiers"):
        (folder / name).mkdir(parents=True)
        (folder / name / "weights.dat").write_bytes(b"0123456789")
    recorded = (study_copy / "openface/p01-s01.csv.gz").read_bytes()
    (folder / "model/recorded.csv").write_bytes(gzip.decompress(recorded))
    return folder / "FeatureExtraction"


def run(study: Path, root: Path, tool: Path, **settings):
    return extract(study, root, "p01-s01", backend="binary", binary=tool, **{"loads": []} | settings)


def same_size_and_time(path: Path, content: bytes) -> None:
    """Put another file in the place of this one, as an archive that is unpacked does."""
    status = path.stat()
    assert len(content) == status.st_size
    other = path.with_suffix(".new")
    other.write_bytes(content)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(other, path)


MODEL = "model/patch_experts/weights.dat"


@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("how", "name"),
    [
        *((how, MODEL) for how in ("another", "same size and time", "one more", "one less", "renamed")),
        ("same size and time", "AU_predictors/weights.dat"),
        ("one more", "classifiers/weights.dat"),
    ],
)
def test_a_change_of_any_model_is_another_fingerprint(
    study_copy: Path, store_root: Path, tool: Path, name: str, how: str
) -> None:
    assert run(study_copy, store_root, tool).status == "done"
    assert run(study_copy, store_root, tool).skipped
    path = tool.parent / name
    match how:
        case "another":
            path.write_bytes(b"other")
        case "same size and time":
            same_size_and_time(path, b"9876543210")
        case "one more":
            path.with_name("more.dat").write_bytes(b"more")
        case "one less":
            path.unlink()
        case "renamed":
            path.rename(path.with_name("renamed.dat"))
    again = run(study_copy, store_root, tool)
    assert (again.status, again.skipped) == ("done", False)


@pytest.mark.needs("cc")
def test_another_program_is_another_fingerprint(study_copy: Path, store_root: Path, tool: Path) -> None:
    run(study_copy, store_root, tool)
    with tool.open("ab") as file:
        file.write(b"\0")  # the loader does not mind
    assert not run(study_copy, store_root, tool).skipped


@pytest.mark.needs("cc")
def test_another_shared_library_is_another_fingerprint(study_copy: Path, store_root: Path, tool: Path) -> None:
    run(study_copy, store_root, tool)
    shutil.move(build_library(tool.parent, "two"), tool.parent / "lib/libface.so")
    again = run(study_copy, store_root, tool)
    assert (again.status, again.skipped) == ("done", False)


@pytest.mark.needs("cc")
def test_a_library_that_is_not_there_is_named(study_copy: Path, store_root: Path, tool: Path) -> None:
    (tool.parent / "lib/libface.so").unlink()
    assert missing(run(study_copy, store_root, tool).reason, "libface.so", "library") == []


@pytest.mark.needs("cc")
def test_a_program_without_models_beside_it_is_refused(
    study_copy: Path, store_root: Path, tool: Path, tmp_path: Path
) -> None:
    for name in ("model", "AU_predictors", "classifiers"):
        shutil.move(tool.parent / name, tmp_path / name)
    outcome = run(study_copy, store_root, tool)
    assert outcome.status == "failed"
    assert "has no models beside it" in outcome.reason
    assert "[openface] loads" in outcome.reason


@pytest.mark.needs("cc")
def test_a_script_is_refused_unless_it_is_said_what_it_loads(
    study_copy: Path, store_root: Path, tool: Path, tmp_path: Path
) -> None:
    wrapper = script(tmp_path, f'exec {tool} "$@"\n')
    shutil.copytree(tool.parent / "model", tmp_path / "model")  # models beside it do not tell what it runs
    outcome = run(study_copy, store_root, wrapper)
    assert outcome.status == "failed"
    assert missing(outcome.reason, "unknown", "script") == []
    assert run(study_copy, store_root, wrapper, loads=[tool.parent]).status == "done"
    assert run(study_copy, store_root, wrapper, loads=[tool.parent]).skipped
    (tool.parent / "AU_predictors/weights.dat").write_bytes(b"other")
    assert not run(study_copy, store_root, wrapper, loads=[tool.parent]).skipped
    wrapper.write_text(wrapper.read_text() + "# changed\n")
    assert not run(study_copy, store_root, wrapper, loads=[tool.parent]).skipped


@pytest.mark.needs("cc")
def test_what_loads_names_must_be_there(study_copy: Path, store_root: Path, tool: Path) -> None:
    outcome = run(study_copy, store_root, tool, loads=[tool.parent / "absent"])
    assert "loads names" in outcome.reason
    assert "which is not there" in outcome.reason


@pytest.mark.needs("cc")
def test_a_file_that_the_tool_says_it_reads_must_have_been_hashed(
    study_copy: Path, store_root: Path, tool: Path, tmp_path: Path
) -> None:
    elsewhere = shutil.copy(tool.parent / "model/recorded.csv", tmp_path / "elsewhere.csv")
    wrapper = script(tmp_path, f'MODEL={elsewhere} exec {tool} "$@"\n')
    outcome = run(study_copy, store_root, wrapper, loads=[tool.parent])
    assert outcome.status == "failed"
    assert missing(outcome.reason, "FeatureExtraction", elsewhere) == []
    assert run(study_copy, store_root, wrapper, loads=[tool.parent, elsewhere]).status == "done"


@pytest.mark.needs("cc")
def test_models_that_change_while_it_runs_are_noticed(
    study_copy: Path, store_root: Path, tool: Path, tmp_path: Path
) -> None:
    wrapper = script(tmp_path, f'echo other > {tool.parent}/model/weights.dat; exec {tool} "$@"\n')
    outcome = run(study_copy, store_root, wrapper, loads=[tool.parent])
    assert "was changed while it ran" in outcome.reason


def test_what_the_real_tool_says_it_reads_is_understood(shared: Path) -> None:
    from tasks.extractors.openface.files import files_read

    read = files_read((shared / "data/openface/stdout_example.txt").read_text())
    assert len(read) == 29
    assert Path("/home/openface-build/build/bin/AU_predictors/tris_68_full.txt") in read
    assert Path("/home/openface-build/build/bin/model/mtcnn_detector/ONet.dat") in read
    assert {path.suffix for path in read} == {".txt", ".dat"}
