"""Who is in a picture: regions of several people in one recording, proposed from the faces in it.

``detectors`` finds faces in pictures (DOPE's, and those of plug-ins), ``detections`` keeps each face once, with what it
looks like. ``pieces`` associates them over time, and ends a piece where it could become another person's.
``attribution`` says whose each piece is, by seats; ``joining`` which pieces are one person's, by a model of faces.
``boxes`` makes a file of boxes of it, ``proposal`` is all of it for one recording, and writes it into the study.
``command`` is ``storyframes people``.
"""

from typing import TYPE_CHECKING

from storyframes import exports

if TYPE_CHECKING:
    from storyframes_people.detectors import FaceDetector, Pictures

__all__ = ["FaceDetector", "Pictures"]

__getattr__, __dir__ = exports(__name__, {"detectors": "FaceDetector Pictures"})
