"""A stand-in for OpenFace's image, made without any registry: busybox, and programs that replay.

It knows a video by its MD5 and writes the CSV that the real OpenFace wrote for it. An image is made for one mode: to
replay, or to fail in one of the ways in which the real tool was seen to fail. Its FaceLandmarkVidMulti replays, and
writes a second face in every frame, :data:`APART` pixels to the left; the two trackers are swapped halfway.

    python tests/support/tools/standin.py podman [MODE]      # prints the image's id, for [openface] image = "sha256:…"
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from storyframes.features import OPENFACE_COLUMNS

DEMO = Path(__file__).parents[3] / "demo" / "study"
BINARY = "/opt/openface/bin/FeatureExtraction"
APART = 100

_TOOL = """#!/bin/sh
while [ $# -gt 0 ]; do
    case "$1" in -f) input=$2; shift;; -out_dir) out=$2; shift;; esac; shift
done
name=${input##*/}
csv=$out/${name%.*}.csv
echo "Attempting to read from file: $input"
replay() {
    recorded=/recorded/$(md5sum < "$input" | cut -d' ' -f1).csv.gz
    [ -e "$recorded" ] && gunzip -c "$recorded" > "$csv"
}
"""

_X = 1 + OPENFACE_COLUMNS.index("x_0")
_SEVERAL = f"""replay; awk -F, -v OFS=, '
    NR == 1 {{ print; next }}
    {{ $2 = (NR > 180); print; $2 = (NR <= 180); for (i = {_X}; i < {_X + 68}; i++) $i -= {APART}; print }}
' $csv > $csv.all; mv $csv.all $csv
"""

MODES = {
    "replay": "replay",
    "no_csv": "exit 0",
    "few_rows": "replay; head -n 101 $csv > $csv.cut; mv $csv.cut $csv",
    "cut_line": "replay; head -c 500000 $csv > $csv.cut; mv $csv.cut $csv",
    "abort": "echo 'what(): could not make the output folder' >&2; exit 134",
    "killed": "replay; head -n 64 $csv > $csv.cut; rm $csv; kill -9 $$",
    "killed_late": "replay; kill -9 $$",
    "raw_intensities": """replay; awk -F, -v OFS=, 'NR > 1 { $680 = " -0.5" } 1' $csv > $csv.raw; mv $csv.raw $csv""",
    # Rows for as many frames as an AVI's header counts, whichever video it is.
    "any": "n=$(od -An -tu4 -j48 -N4 $input); gunzip -c $(ls -S /recorded/* | head -n 1) | head -n $((n + 1)) > $csv",
    "hang": "echo half > $csv; sleep 1000",
    "out_of_memory": "dd if=/dev/zero of=/dev/null bs=1000M count=1; exit $?",
    "foreign_owner": "replay; chown 12345:12345 $csv; chmod 000 $csv 2>/dev/null; chmod 644 $csv",
    "noisy": "yes 'a long line of output that nobody will read' | head -c 20000000; replay",
    "link": "ln -s /etc/passwd $csv",
    "probe": (
        "id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status; ls /sys/class/net; "
        "touch /x; touch /tmp/x && echo tmp is writable; echo x > $input; nc -w 2 1.1.1.1 80; "
        "echo threads $OMP_NUM_THREADS"
    ),
}


def root_archive(mode: str) -> bytes:
    """The image's root folder as a tar archive."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise FileNotFoundError("busybox is not installed (Debian: busybox-static)")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:

        def add(name: str, content: bytes, permissions: int = 0o644) -> None:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), permissions
            archive.addfile(member, io.BytesIO(content))

        for folder in ("bin", "etc", "recorded", "opt", "opt/openface", "opt/openface/bin"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        add("bin/busybox", Path(busybox).read_bytes(), 0o755)
        applets = "sh awk cat chmod chown cut dd echo grep gunzip head id kill ls md5sum mv od rm sleep touch nc yes ln"
        for applet in applets.split():
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        add(BINARY.lstrip("/"), (_TOOL + MODES[mode] + "\n").encode(), 0o755)
        add(f"{BINARY.lstrip('/').rpartition('/')[0]}/FaceLandmarkVidMulti", (_TOOL + _SEVERAL).encode(), 0o755)
        add("etc/passwd", b"root:x:0:0::/:/bin/sh\n")
        for csv in sorted((DEMO / "openface").glob("*.csv.gz")):
            video = DEMO / "videos" / f"{csv.name.removesuffix('.csv.gz')}.avi"
            digest = hashlib.md5(video.read_bytes(), usedforsecurity=False).hexdigest()
            add(f"recorded/{digest}.csv.gz", csv.read_bytes())
        for path, content in _recorded_clips():
            add(path, content)
    return buffer.getvalue()


def _recorded_clips() -> Iterator[tuple[str, bytes]]:
    """The clips that 'storyframes models check openface' cuts, with the first rows of their video's CSV."""
    from tasks.extractors.openface.tool import CLIP_S, LONG_S, cut_clip

    rows = gzip.decompress((DEMO / "openface" / "p01-s01.csv.gz").read_bytes()).splitlines(keepends=True)
    for seconds in (CLIP_S, LONG_S):
        with tempfile.TemporaryDirectory() as folder:
            clip = Path(folder) / "clip.avi"
            cut_clip(DEMO / "videos" / "p01-s01.avi", clip, seconds)
            digest = hashlib.md5(clip.read_bytes(), usedforsecurity=False).hexdigest()
        yield f"recorded/{digest}.csv.gz", gzip.compress(b"".join(rows[: 1 + round(15 * seconds)]))


def build(engine: str, mode: str = "replay") -> str:
    """Make the image with podman or docker; returns its id, ``sha256:…``."""
    name = f"storyframes-standin:{mode.replace('_', '-')}"
    command = [engine, "import", "-", name]
    printed = subprocess.run(command, input=root_archive(mode), capture_output=True, check=True).stdout.decode()
    return f"sha256:{printed.strip().splitlines()[-1].removeprefix('sha256:')}"


if __name__ == "__main__":
    print(build(*sys.argv[1:]))  # noqa: T201
