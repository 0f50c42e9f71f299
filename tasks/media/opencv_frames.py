"""The pictures of a video as OpenCV decodes them, checked: every 32nd is compared with FFmpeg's own.

OpenCV may report a frame that it has not written: 5.0, and some versions before it, do so with interlaced frames, and
hand out whatever the memory held.
"""

from __future__ import annotations

from pathlib import Path

import av
import cv2
import numpy as np

from tasks.media.container import RecordingError
from tasks.media.shown_frames import ShownFrame

SAMPLED = 32  # every n-th frame is compared, the first as well
# Mean difference of a sample, of 256 levels, that rounding may explain. The conversions are the same, so there is none
# where both come with the same FFmpeg; a person who moves in front of a still camera gives more from frame to frame.
_TOLERANCE = 0.5


class OpenCVFrames:
    """OpenCV's pictures, one after the other.

    Args:
        path: the video.
        codec: FFmpeg's name of how it is coded, for messages.

    Raises:
        RecordingError: OpenCV cannot open it.
    """

    def __init__(self, path: Path, codec: str) -> None:
        self._name = path.name
        self._codec = codec
        self._gaps = 0
        # Naming the backend keeps OpenCV from taking a file name with '%' in it for a pattern of images.
        self._capture = cv2.VideoCapture(str(path.absolute()), cv2.CAP_FFMPEG)
        if not self._capture.isOpened():
            raise RecordingError(f"{path.name}: the video cannot be opened for decoding")

    def picture_of(self, frame: ShownFrame, damaged_packets: int = 0) -> np.ndarray:
        """The next picture, which should be this frame's: (height, width, 3) uint8 BGR.

        Args:
            frame: as FFmpeg decoded it.
            damaged_packets: so far; OpenCV says once for each that there is no picture, and then goes on.

        Raises:
            RecordingError: there is none, or it is not that of the frame.
        """
        where = f"{self._name}: frame {frame.number + 1}"
        ok, picture = self._capture.read()
        while not ok and self._gaps < damaged_packets:
            self._gaps += 1
            ok, picture = self._capture.read()
        if not ok:
            raise RecordingError(f"{where} ({self._codec}) decodes with FFmpeg, but not with OpenCV; {_ADVICE}")
        expected = (frame.picture.height, frame.picture.width, 3)
        if picture.shape != expected:
            sizes = f"{expected[1]}x{expected[0]}, but OpenCV gives {picture.shape[1]}x{picture.shape[0]}"
            raise RecordingError(f"{where} is {sizes}; {_ADVICE}")
        if frame.number % SAMPLED == 0:
            self._compare(picture, frame, where)
        return picture

    def end(self) -> None:
        """There are no more frames.

        Raises:
            RecordingError: OpenCV has more.
        """
        more = self._capture.grab()
        self.close()
        if more:
            raise RecordingError(f"{self._name}: OpenCV decodes more frames of it than FFmpeg; {_ADVICE}")

    def close(self) -> None:
        """OpenCV is not needed any more."""
        self._capture.release()

    def _compare(self, picture: np.ndarray, frame: ShownFrame, where: str) -> None:
        difference = cv2.norm(picture, bgr(frame.picture), cv2.NORM_L1) / picture.size
        if difference > _TOLERANCE:
            raise RecordingError(
                f"{where} is another picture with OpenCV than with FFmpeg (they differ by {difference:.1f} of 256 "
                f"levels on the average, {_TOLERANCE} may be rounding): one of them is wrong; {_ADVICE}"
            )


_ADVICE = "convert it with FFmpeg, for example ffmpeg -i VIDEO -c:v libx264 -crf 15 OTHER.mp4"


def bgr(picture: av.VideoFrame) -> np.ndarray:
    """A frame of PyAV's, converted as OpenCV converts: (height, width, 3) uint8 BGR."""
    return picture.to_ndarray(format="bgr24", interpolation="BICUBIC")
