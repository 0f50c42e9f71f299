"""The text of the first configuration: features that the files can have, and windows that fit the recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasks.media.video_header import Streams
from tasks.study.labels import listed

_WINDOWS_S = (8.0, 4.0, 2.0, 1.0, 0.5)
_PER_RECORDING = 4  # windows that fit into the shortest one, side by side


def first_settings(recordings: Sequence[Streams], rows: Sequence[Mapping[str, str]]) -> str:
    """The text of a commented TOML file: features that the files can have, and windows that fit the recordings.

    Args:
        recordings: what the headers of the recordings say, of those that could be opened.
        rows: of the tables of sessions and tracks, with the files that each has.
    """
    has_video, has_text = any(row.get("video") for row in rows), any(row.get("transcript") for row in rows)
    has_sound = any(row.get("audio") for row in rows) or any(recording.has_sound for recording in recordings)
    has_openface = any(row.get("openface") for row in rows)
    usable = {"frames": has_video, "openface": has_openface, "opensmile": has_sound, "sbert": has_text}
    features = ", ".join(f'"{name}"' for name, is_usable in usable.items() if is_usable)
    shortest_s = min((recording.seconds for recording in recordings if recording.seconds), default=0.0)
    window_s = next((seconds for seconds in _WINDOWS_S if seconds * _PER_RECORDING <= shortest_s), _WINDOWS_S[-1])
    window_s = window_s if shortest_s else _WINDOWS_S[0]
    lines = [
        "# What is extracted from this study, and how its clips are cut. Every key is in docs/configuration.md.",
        *(f"# {line}" for line in _described(recordings, rows)),
        "",
        "# What these files can have and this installation can make without another program or model:",
        f"features = [{features}]",
        *(f"# {line}" for line in _possible(has_video, has_text, has_openface)),
        "",
        "[clips]",
        "# Windows in seconds are as long in every recording, whatever its frame rate.",
        f"window_s = {window_s}",
        f"stride_s = {min(1.0, window_s / 2)} # from the start of one window to the next one's",
    ]
    return "\n".join(lines) + "\n"


def _described(recordings: Sequence[Streams], rows: Sequence[Mapping[str, str]]) -> list[str]:
    videos = sum(bool(row.get("video")) for row in rows)
    sounds = sum(bool(row.get("audio")) for row in rows)
    texts = sum(bool(row.get("transcript")) for row in rows)
    described = [f"The files: {videos} videos, {sounds} sounds, {texts} transcripts."]
    rates = sorted(
        {f"{recording.fps:.4g}" for recording in recordings if recording.has_video and recording.fps}, key=float
    )
    if rates:
        described.append(f"Frames per second of the videos, by their headers: {listed(rates, 8)}.")
    if silent := sum(recording.has_video and not recording.has_sound for recording in recordings):
        described.append(f"Videos without sound: {silent}.")
    if lengths := [recording.seconds for recording in recordings if recording.seconds]:
        described.append(f"They last {min(lengths):.4g} to {max(lengths):.4g} s.")
    return described


def _possible(has_video: bool, has_text: bool, has_openface: bool) -> list[str]:
    """The features that need something first, and what."""
    possible = []
    if has_video and not has_openface:
        possible.append('"openface" (faces): with [openface] backend = "container" or "binary" (docs/openface.md)')
    if has_video:
        possible.append("\"resnet50\" (pictures as vectors): after 'storyframes models fetch resnet50-v1'")
    if has_text:
        possible.append("\"glove\" (a vector for each word): after 'storyframes models fetch glove-840b'")
    return ["Also possible:", *possible] if possible else []
