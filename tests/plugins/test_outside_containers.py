"""Features computed in a container: any language will do, frames reach it, and nothing is left of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.tools.container_engines import containers
from support.tools.outside_programs import Ground

from storyframes.features import ArraySpec, Axis, FeatureSpec
from tasks.extractors.base import CommonSettings, ExtractionError, Input, Run
from tasks.extractors.outside.extractor import OutsideExtractor, OutsideFrameExtractor
from tasks.extractors.outside.settings import ContainerSettings
from tasks.tools.containers import Engine

pytestmark = pytest.mark.slow
pytest_plugins = ["support.tools.container_engines"]

FRAMES = 45
SPEC = FeatureSpec("corner", "the first byte of each frame", {"values": ArraySpec(Axis.FRAME, "uint8", "", fill=0)})
# A shell is the interpreter here: it is given the client (of no use to it), the program and the manifest.
SHELL = ("/bin/sh", "-c", 'exec /bin/sh "$1" "$2"')

READ = """
cat > /tmp/frames
size=$((64 * 48 * 3)); count=0
while [ $count -lt 45 ]; do
    dd if=/tmp/frames bs=$size skip=$count count=1 2>/dev/null | head -c 1
    count=$((count + 1))
done > /tmp/rows
"""
WRITE = r"""
out=/storyframes/output
header="{'descr': '|u1', 'fortran_order': False, 'shape': ($count,)}"
length=$(printf %03o ${#header})
{ printf '\223NUMPY\001\000'; printf "\\$length\000"; printf %s "$header"; cat /tmp/rows; } > $out/values.npy
sum=$(busybox sha256sum < /tmp/rows | cut -d' ' -f1)
echo '{"format": 1, "frames_read": '$count', "arrays": {"values": {"rows": '$count', "sha256": "'$sum'"}}}' \
    > $out/results.json
"""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    ground = Ground(tmp_path_factory.mktemp("ground"), FRAMES)
    (ground.study / "s.avi").chmod(0o644)  # where these tests are root, others have to be able to read it
    return ground


Extract = Callable[..., dict[str, np.ndarray]]


@pytest.fixture
def extract(ground: Ground, tmp_path: Path, engine: Engine, image_of: Callable[..., str]) -> Extract:
    """Extract the feature of a program in a container."""

    def run(code: str, base: type = OutsideFrameExtractor, timeout_s: float = 60, **attributes) -> dict:
        program = tmp_path / "program.sh"
        program.write_text(code)
        own = {"spec": SPEC, "version": 1, "run": Run.CONTAINER, "Settings": ContainerSettings, "program": program}
        cls = type("Corner", (base,), {**own, "command": SHELL, **attributes})
        settings = {"image": image_of(), "engine": engine.name, "memory_gib": 0.5, "timeout_s": timeout_s}
        return ground.extract(cls, **settings, timeout_s_per_video_s=0.01)

    return run


@pytest.fixture(autouse=True)
def no_container_is_left(engine: Engine) -> Iterator[None]:
    yield
    assert containers(engine) == []


def test_it_is_sent_the_frames_that_everybody_gets(extract: Extract, ground: Ground) -> None:
    found = extract(READ + WRITE)["values"]
    np.testing.assert_array_equal(found, ground.rgb[:, 0, 0, 0])
    assert len(np.unique(found)) > 40


def test_it_sees_its_inputs_and_nothing_else(extract: Extract, ground: Ground) -> None:
    """What it finds goes into the error here, which quotes what a program printed last."""
    looks = """
cat /storyframes/manifest.json | grep -o '"inputs": {[^}]*}'; ls /input; ls /sys/class/net; id -u
touch /input/x 2>/dev/null && echo written; cmp=$(md5sum < /input/video.avi | cut -d' ' -f1); echo $cmp; exit 9
"""
    with pytest.raises(ExtractionError, match=r"its program ended with 9") as error:
        extract(looks, OutsideExtractor, inputs=(Input.VIDEO,))
    said = str(error.value)
    assert '"inputs": {"video": "/input/video.avi"} video.avi lo' in " ".join(said.split())
    assert hashlib.md5((ground.study / "s.avi").read_bytes(), usedforsecurity=False).hexdigest() in said
    assert "written" not in said
    if os.geteuid() == 0:
        assert " 0 " not in " ".join(said.split())  # nobody is root inside


FAULTS = {
    "ends with 3": ("head -c 100 > /dev/null; exit 3", "its program ended with 3"),
    "is killed": (READ + "kill -9 $$", r"its program was killed \(137\)"),
    "leaves no record": (READ + WRITE + "rm $out/results.json", "it left no results.json"),
    "leaves a link": (
        READ + WRITE + "rm $out/values.npy; ln -s /etc/passwd $out/values.npy",
        "values.npy cannot be opened",
    ),
    "reads too little": (
        "head -c 100 > /dev/null; count=45; head -c 45 /dev/zero > /tmp/rows"
        + WRITE.replace("'$count', \"arr", '7, "arr'),
        "it ended after it had read 7 of 45 frames|as if all were well",
    ),
}


@pytest.mark.parametrize(("code", "said"), FAULTS.values(), ids=FAULTS)
def test_what_is_not_whole_is_never_stored(extract: Extract, code: str, said: str) -> None:
    with pytest.raises(ExtractionError, match=said):
        extract(code)


def test_one_that_hangs_is_stopped_with_its_container(extract: Extract) -> None:
    with pytest.raises(ExtractionError, match=r"kept us waiting for 5 s, .*\[corner\] timeout_s"):
        extract("sleep 1000", timeout_s=5)


def test_the_image_is_part_of_the_fingerprint_and_has_to_be_there(
    ground: Ground, engine: Engine, image_of: Callable[..., str]
) -> None:
    class Corner(OutsideFrameExtractor):
        spec, version, run, Settings, command = SPEC, 1, Run.CONTAINER, ContainerSettings, SHELL

    def models(image: str) -> dict[str, str]:
        return dict(Corner(ContainerSettings(image=image, engine=engine.name), CommonSettings()).models())

    assert models(image_of())["image"] == image_of().removeprefix("sha256:")
    for image, why in (("", r"\[corner\] image = .* is not set"), (f"sha256:{'0' * 64}", "is not on this machine")):
        with pytest.raises(ExtractionError, match=why):
            models(image)
