"""The extractors: each turns a session's files into one feature.

``base`` says what an extractor is, with its ``settings`` and its ``source``. ``registry`` has all of them: the
project's, those of plug-ins (``plug_ins`` loads and checks them) and the models of the configuration. ``availability``
says what can run on this machine, ``earlier_fingerprints`` which versions of development versions are still current.
``regions`` is what becomes of features of a region of another track's picture.

``frames`` comes first: it is the session's clock. ``frame_pass`` decodes a video once for all features of its frames.
The general rooms are ``image``, ``video``, ``audio`` and ``text``, for any model that the configuration names
(``embed`` is what they share, ``torch_compute`` how their networks compute). ``resnet50``, ``opensmile``, ``sbert`` and
``glove`` are built on them. ``openface`` and ``dope`` are rooms of their own, ``speaking`` compares a session's
microphones, ``label_curve`` makes a feature of continuous labels, and ``outside`` runs a plug-in's program in an
environment or a container of its own. External programs work in a ``tool_folder``.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from tasks.extractors.audio.shape import AudioShape
    from tasks.extractors.audio.sound import FrameRows, Sound, SoundExtractor
    from tasks.extractors.audio.windows import SoundRows, moments
    from tasks.extractors.base import (
        CommonSettings,
        Cost,
        ExtractionError,
        Extractor,
        ExtractorSettings,
        MissingInputError,
        Run,
        Source,
        Tolerance,
    )
    from tasks.extractors.dope.extractor import Dope
    from tasks.extractors.embed.sources import snapshot_of
    from tasks.extractors.frame_pass import FrameConsumer, FrameExtractor
    from tasks.extractors.frames import FrameClock
    from tasks.extractors.image.extractor import ImageEmbedding
    from tasks.extractors.openface.all_faces import OpenFaceBoxes
    from tasks.extractors.outside.environment import Requirements
    from tasks.extractors.outside.extractor import OutsideExtractor, OutsideFrameExtractor
    from tasks.extractors.outside.settings import ContainerSettings, OutsideSettings, VenvSettings
    from tasks.extractors.registry import ExtractorsSettings, registered
    from tasks.extractors.sbert import SbertSettings
    from tasks.extractors.text.speech import speaker_labels

__all__ = [
    "AudioShape",
    "CommonSettings",
    "ContainerSettings",
    "Cost",
    "Dope",
    "ExtractionError",
    "Extractor",
    "ExtractorSettings",
    "ExtractorsSettings",
    "FrameClock",
    "FrameConsumer",
    "FrameExtractor",
    "FrameRows",
    "ImageEmbedding",
    "MissingInputError",
    "OpenFaceBoxes",
    "OutsideExtractor",
    "OutsideFrameExtractor",
    "OutsideSettings",
    "Requirements",
    "Run",
    "SbertSettings",
    "Sound",
    "SoundExtractor",
    "SoundRows",
    "Source",
    "Tolerance",
    "VenvSettings",
    "moments",
    "registered",
    "snapshot_of",
    "speaker_labels",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "audio.shape": "AudioShape",
        "audio.sound": "FrameRows Sound SoundExtractor",
        "audio.windows": "SoundRows moments",
        "base": "CommonSettings Cost ExtractionError Extractor ExtractorSettings MissingInputError Run "
        "Source Tolerance",
        "dope.extractor": "Dope",
        "embed.sources": "snapshot_of",
        "frame_pass": "FrameConsumer FrameExtractor",
        "frames": "FrameClock",
        "image.extractor": "ImageEmbedding",
        "openface.all_faces": "OpenFaceBoxes",
        "outside.environment": "Requirements",
        "outside.extractor": "OutsideExtractor OutsideFrameExtractor",
        "outside.settings": "ContainerSettings OutsideSettings VenvSettings",
        "registry": "ExtractorsSettings registered",
        "sbert": "SbertSettings",
        "text.speech": "speaker_labels",
    },
)
