"""The boxes of all faces in a video, by OpenFace's FaceLandmarkVidMulti, a program beside FeatureExtraction."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from storyframes.store.layout import new_version
from tasks.extractors.base import CommonSettings, ExtractionError
from tasks.extractors.openface.csv_output import OpenFaceOutputError
from tasks.extractors.openface.extractor import PROGRAM_OF_PUBLIC_IMAGE, Backend, OpenFace, OpenFaceSettings
from tasks.extractors.openface.several_faces import face_boxes
from tasks.extractors.tool_folder import room_for_temporary_files
from tasks.media.container import FIRST_STREAMS, StreamChoice
from tasks.media.recording import file_for_tools


class OpenFaceBoxes:
    """Finds the faces, at most four, that OpenFace follows through a video.

    With ``backend = "csv"``, which runs nothing, the container's program is run.
    """

    def __init__(self, settings: OpenFaceSettings) -> None:
        binary = (settings.binary or Path(PROGRAM_OF_PUBLIC_IMAGE)).with_name("FaceLandmarkVidMulti")
        backend = Backend.CONTAINER if settings.backend is Backend.CSV else settings.backend
        self._tool = OpenFace(settings.model_copy(update={"backend": backend, "binary": binary}), CommonSettings())

    def check_tool(self) -> None:
        """Make sure that the program is on this machine.

        Raises:
            ExtractionError: it is not; the message says how to get it.
        """
        self._tool.check_tool()

    def boxes(self, path: Path, clock: np.ndarray, streams: StreamChoice = FIRST_STREAMS) -> np.ndarray:
        """The faces of a whole video, (n, 6) by frame: the frame, left, top, width, height, and the confidence.

        Args:
            clock: (T,) seconds of all frames of the video.
            streams: which picture of the file it is.

        Raises:
            ExtractionError: the program fails, or its output is damaged.
        """
        with (
            room_for_temporary_files(),
            file_for_tools(path, streams=streams) as video,
            self._tool.run_tool(video, float(clock[-1]), new_version()) as output,
        ):
            try:
                return face_boxes(output.csv, clock)
            except OpenFaceOutputError as error:
                raise ExtractionError(f"{error}{output.remark}") from None
