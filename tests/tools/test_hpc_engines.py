"""The engines of clusters: Charliecloud for real, as an ordinary user; Apptainer's and Singularity's command lines."""

from __future__ import annotations

import dataclasses
import io
import os
import shutil
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing, naming
from support.processes import wait_for
from support.systems.rootless import USER, as_ordinary_user
from support.tools import standin
from support.tools.container_engines import LIMITS, extract_in
from support.tools.openface_tools import extract, open_values

from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from tasks.tools import hpc_engines
from tasks.tools.containers import ContainerError, ContainerJob, EngineName, Image, Mount
from tasks.tools.hpc_engines import Apptainer, Charliecloud, Singularity, find_engine, folder_digest
from tasks.tools.tool_process import ToolResult

ImageOf = Callable[..., Path]


@pytest.fixture(scope="session")
def image_of(tmp_path_factory: pytest.TempPathFactory) -> ImageOf:
    """The folder of the stand-in's image for a mode."""
    made: dict[str, Path] = {}

    def get(mode: str = "replay") -> Path:
        if mode not in made:
            made[mode] = tmp_path_factory.mktemp(f"image-{mode}")
            with tarfile.open(fileobj=io.BytesIO(standin.root_archive(mode))) as archive:
                archive.extractall(made[mode], filter="tar")
        return made[mode]

    return get


@pytest.fixture
def video(demo_study: Path, tmp_path: Path) -> Path:
    copy = Path(shutil.copy(demo_study / "videos/p01-s01.avi", tmp_path / "it's, a: video.avi"))
    copy.chmod(0o600)
    return copy


def job(video: Path, output: Path, timeout_s: float = 60, inside: str = "video") -> ContainerJob:
    output.mkdir(exist_ok=True)
    return ContainerJob(
        name="storyframes-test",
        command=(standin.BINARY, "-f", f"/input/{inside}.avi", "-out_dir", "/output"),
        inputs=(Mount(video, f"/input/{inside}.avi"),),
        output=Mount(output, "/output"),
        limits=dataclasses.replace(LIMITS, timeout_s=timeout_s),
    )


def run(image: Path, task: ContainerJob) -> ToolResult:
    def here() -> ToolResult:
        engine = find_engine(EngineName.CHARLIECLOUD)
        return engine.run(engine.resolve(str(image)), task)

    return as_ordinary_user(here)


# --- charliecloud ----------------------------------------------------------------------------------------------------


@pytest.mark.needs("charliecloud", "busybox")
def test_what_is_inside_can_do_nothing_but_write_its_output(
    image_of: ImageOf, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("A_SECRET", "of this machine")
    image, before = image_of("probe"), video.read_bytes()
    tool = image / standin.BINARY.lstrip("/")
    shared = Path("/dev/shm") / tmp_path.name
    more = f"env; ps; ls /; touch /bin/x; echo y > /output/made; echo z > {shared} && ls {shared}\n"
    tool.write_text(tool.read_text() + more)
    printed = run(image, job(video, tmp_path / "out")).output
    lines = printed.splitlines()
    assert lines[1] == str(USER if os.geteuid() == 0 else os.geteuid()), printed
    assert "CapEff:\t0000000000000000" in lines
    assert "NoNewPrivs:\t1" in lines
    assert "lo" in lines
    assert "eth0" not in printed
    assert "touch: /x: Read-only file system" in lines
    assert "touch: /bin/x: Read-only file system" in lines
    assert "tmp is writable" in lines
    assert missing(printed, "/input/video.avi: Read-only") == []
    assert "can't connect to remote host" in printed
    assert "threads 2" in lines
    assert "LC_ALL=C" in lines
    assert "A_SECRET" not in printed
    assert "python" not in printed  # other processes are not seen
    assert (tmp_path / "out/made").read_text() == "y\n"
    assert video.read_bytes() == before
    assert not (image / "input").exists()  # the image is as it was
    assert str(shared) in lines
    assert not shared.exists()  # it is shared with nobody


@pytest.mark.needs("charliecloud", "busybox")
def test_inputs_are_read_only_also_where_the_mounts_options_are_not_known(
    image_of: ImageOf, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hpc_engines, "_ROOT", hpc_engines._ROOT.replace("findmnt", "/bin/false"))
    before = video.read_bytes()
    result = run(image_of("probe"), job(video, tmp_path / "out"))
    assert result.exit_code == 125 or "can't create /input/video.avi: Read-only file system" in result.output
    assert video.read_bytes() == before


@pytest.mark.needs("charliecloud", "busybox")
@pytest.mark.parametrize("killed", [False, True])
def test_nothing_is_left_after_a_timeout_nor_when_its_worker_is_killed(
    image_of: ImageOf, video: Path, tmp_path: Path, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    inside = tmp_path.name  # names the processes of this test

    def inside_now() -> list[str]:
        lines = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if _readable(file)]
        return [line.decode() for line in lines if f"/input/{inside}.avi".encode() in line]

    def strike(worker: int) -> None:
        if killed:
            wait_for(lambda: (tmp_path / f"out/{inside}.csv").exists())
            assert inside_now()
            os.kill(worker, signal.SIGKILL)

    engine_run = job(video, tmp_path / "out", 1000 if killed else 2, inside)
    image = image_of("hang")

    def here() -> ToolResult:
        engine = find_engine(EngineName.CHARLIECLOUD)
        return engine.run(engine.resolve(str(image)), engine_run)

    result = as_ordinary_user(here, strike)
    assert result is None if killed else result.timed_out
    wait_for(lambda: not inside_now())
    wait_for(lambda: not list(temporary.iterdir()))


def _readable(file: Path) -> bool:
    try:
        return bool(file.read_bytes())
    except OSError:
        return False


@pytest.mark.needs("charliecloud", "busybox")
def test_a_whole_extraction_is_what_the_recorded_csv_gives(
    image_of: ImageOf, study_copy: Path, store_root: Path, tmp_path: Path
) -> None:
    engine, image = Charliecloud(shutil.which("ch-run") or ""), image_of()
    outcome = as_ordinary_user(lambda: extract_in(engine, str(image), study_copy, store_root))
    assert (str(outcome.status), outcome.rows) == ("done", 360), outcome.reason
    other = tmp_path / "other"
    create_store(other)
    extract(study_copy, other, "p01-s01")
    np.testing.assert_array_equal(open_values(store_root, "p01-s01"), open_values(other, "p01-s01"))
    attributes = FeatureStore(store_root).attributes("p01-s01", "openface")
    assert attributes["limits_not_enforced"].startswith("memory, processors and processes")
    assert attributes["provenance"]["models"] == {"image": folder_digest(image)}
    killed = as_ordinary_user(lambda: extract_in(engine, str(image_of("killed_late")), study_copy, store_root))
    assert missing(killed.reason, "137", "killed") == []
    without = as_ordinary_user(lambda: extract_in(engine, str(image), study_copy, store_root, binary="/opt/none"))
    assert missing(without.reason, "[openface] binary", "/opt/none") == []


@pytest.mark.needs("busybox")
def test_a_folder_is_pinned_by_what_is_in_it(image_of: ImageOf, tmp_path: Path) -> None:
    image = tmp_path / "image"
    shutil.copytree(image_of(), image, symlinks=True)
    digests = [folder_digest(image_of()), folder_digest(image)]
    assert digests[0] == digests[1]  # wherever it lies
    for change in (
        lambda: (image / "etc/passwd").write_text("other"),
        lambda: (image / "etc/passwd").chmod(0o755),
        lambda: (image / "etc/passwd").rename(image / "etc/shadow"),
        lambda: (image / "bin/sh").unlink(),
        lambda: (image / "bin/sh").symlink_to("cat"),
    ):
        change()
        digests.append(folder_digest(image))
    assert len(set(digests)) == len(digests) - 1


def test_a_folder_may_have_names_that_are_no_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    digests = []
    for name in (b"na\xefve", b"na\xeeve"):
        folder = tmp_path / name.hex()
        folder.mkdir()
        file = os.path.join(os.fsencode(folder), name)
        Path(os.fsdecode(file)).write_text("x")
        os.utime(file, (0, 0))
        os.symlink(b"to-" + name, os.path.join(os.fsencode(folder), b"link"))
        digests += [folder_digest(folder), folder_digest(folder)]
    assert digests[0] == digests[1] != digests[2] == digests[3]


def test_what_charliecloud_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Charliecloud("/usr/bin/ch-run")

    def refusal(reference: str) -> str:
        def here() -> str:
            with pytest.raises(ContainerError) as error:
                engine.resolve(reference)
            return str(error.value)

        return as_ordinary_user(here)

    for reference in ("image", str(tmp_path), f"docker.io/algebr/openface@sha256:{'0' * 64}"):
        assert missing(refusal(reference), "ch-image pull", "absolute") == []
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing(refusal("/"), "'unshare'", "'findmnt'") == []
    (tmp_path / "unshare").write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2; exit 1\n")
    for name in ("unshare", "findmnt"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o755)
    assert missing(refusal("/"), "Operation", "permitted") == []


@pytest.mark.needs("root")
def test_root_is_sent_to_other_engines() -> None:
    with pytest.raises(ContainerError, match="for ordinary users"):
        Charliecloud("/usr/bin/ch-run").resolve("/")


# --- apptainer and singularity: their command lines (the programs themselves were not at hand) -----------------------


@pytest.mark.parametrize("engine", [Apptainer, Singularity])
def test_the_command_line(tmp_path: Path, engine: type[Apptainer], monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / engine.name
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"; env | grep -E '^(APPTAINER|SINGULARITY)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("APPTAINER_BIND", "SINGULARITYENV_LC_ALL", "APPTAINERENV_TMPDIR", "APPTAINER_TMPDIR"):
        monkeypatch.setenv(name, "/here")
    task = dataclasses.replace(
        job(tmp_path, tmp_path / "out"), inputs=(Mount(Path("/data/a,b.avi"), "/input/video.avi"),)
    )
    printed = find_engine(engine.name).run(Image("/images/openface.sif", "0" * 64), task).output.splitlines()
    assert printed == [
        *("exec", "--containall", "--cleanenv", "--no-home", "--no-privs", "--pwd", "/", "--net", "--network", "none"),
        *("--env", "LANG=C", "--env", "LC_ALL=C", "--env", "OMP_NUM_THREADS=2", "--env", "OPENBLAS_NUM_THREADS=2"),
        *("--mount", 'type=bind,"source=/data/a,b.avi",destination=/input/video.avi,ro'),
        *("--mount", f"type=bind,source={tmp_path}/out,destination=/output"),
        *("/images/openface.sif", standin.BINARY, "-f", "/input/video.avi", "-out_dir", "/output"),
        "APPTAINER_TMPDIR=/here",
    ]


def test_the_images(tmp_path: Path) -> None:
    apptainer = Apptainer("/usr/bin/apptainer")
    sif = tmp_path / "openface.sif"
    sif.write_bytes(b"SIF")
    assert apptainer.resolve(str(sif)).digest == "6589689c485630cf9c62f5d0ac7d290ade166097bed817de2ab72a5aecbec530"
    (tmp_path / "sandbox").mkdir()
    sif.rename(tmp_path / "sandbox/bin")
    assert apptainer.resolve(str(tmp_path / "sandbox")).digest == folder_digest(tmp_path / "sandbox")
    for tag in ("latest", f"x@sha256:{'a' * 64}"):
        with pytest.raises(ContainerError, match=naming("image.sif", "docker://")):
            apptainer.resolve(f"docker://algebr/openface:{tag}")
    with pytest.raises(ContainerError, match=naming("SIF", "sandbox")):
        apptainer.resolve("openface.sif")
    with pytest.raises(ContainerError, match=r"'singularity build image\.sif"):
        Singularity("/usr/bin/singularity").resolve("docker://algebr/openface")
