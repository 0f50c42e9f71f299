"""All extractors: the project's own, those of plug-ins, and the models of the configuration; with their settings."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, create_model, model_validator

from storyframes.features import STORIES
from storyframes.installation import FEATURE_COMPANIONS, install_line
from storyframes.plug_ins import PlugInError
from storyframes.spec import is_label_curve, may_be_called
from tasks.extractors.audio.extractor import AudioEmbedding, AudioSettings
from tasks.extractors.base import Extractor, Scope
from tasks.extractors.dope.extractor import Dope
from tasks.extractors.embed.local_model import planned_digest
from tasks.extractors.embed.settings import EmbedSettings, Kind
from tasks.extractors.frames import Frames
from tasks.extractors.glove import Glove, StoryGlove
from tasks.extractors.image.extractor import ImageEmbedding
from tasks.extractors.image.settings import ImageSettings
from tasks.extractors.label_curve import label_curve
from tasks.extractors.openface.extractor import OpenFace
from tasks.extractors.opensmile.extractor import OpenSmile
from tasks.extractors.plug_ins import load_plug_ins
from tasks.extractors.resnet50 import ResNet50
from tasks.extractors.sbert import Sbert, StorySbert
from tasks.extractors.settings import CommonSettings, ExtractorSettings, RecordingSettings, TranscriptSettings
from tasks.extractors.speaking import Speaking
from tasks.extractors.text.extractor import StoryTextEmbedding, TextEmbedding
from tasks.extractors.text.model import TextSettings
from tasks.extractors.video.extractor import VideoEmbedding, VideoSettings
from tasks.models.weights import MODELS, ModelFile
from tasks.strict_settings import StrictSettings

BUILT_IN: tuple[type[Extractor[Any]], ...] = (
    Frames,  # first: all the others need the session's clock
    OpenFace,
    ResNet50,
    Dope,
    OpenSmile,
    Glove,
    Sbert,
    StoryGlove,
    StorySbert,
    Speaking,
)
"""The project's own extractors, in the order in which they run."""

DEFAULT_FEATURES = ("frames", "openface", "resnet50", "opensmile", "glove", "sbert")
"""What is extracted where nothing else is asked for."""

AnyEmbedSettings = Annotated[AudioSettings | ImageSettings | TextSettings | VideoSettings, Field(discriminator="kind")]
"""A section ``[[embed]]``; a new kind of model is one more here, and its extractors in the table below."""

_EMBEDDINGS: Mapping[tuple[Kind, Scope], type[Extractor[Any]]] = {
    (Kind.AUDIO, Scope.SESSION): AudioEmbedding,
    (Kind.IMAGE, Scope.SESSION): ImageEmbedding,
    (Kind.TEXT, Scope.SESSION): TextEmbedding,
    (Kind.TEXT, Scope.STORIES): StoryTextEmbedding,
    (Kind.VIDEO, Scope.SESSION): VideoEmbedding,
}

# Words that mean something else in place of a feature's name: sections of the configuration, inputs of clips.
_RESERVED = frozenset(
    "features recording transcript clips cluster labels embed train sections".split()
    + "stories vision audio words sentence story label".split()
)


@cache
def _plug_ins() -> tuple[tuple[type[Extractor[Any]], ...], Mapping[str, str]]:
    return load_plug_ins(BUILT_IN, check_name)


def check_name(cls: type[Extractor[Any]]) -> None:
    """Refuse a feature whose section in the configuration would be something else.

    Raises:
        PlugInError: the word has another meaning.
    """
    if has_other_meaning(cls.spec.name):
        raise PlugInError(f"no feature can be called {cls.spec.name!r}: the word has another meaning")


def has_other_meaning(name: str) -> bool:
    """Whether a word means something else in place of a feature's name."""
    return hasattr(_Sections, name) or name in _RESERVED or name.startswith(("label.", "label_"))


def broken() -> Mapping[str, str]:
    """The plug-ins that cannot be used: by distribution and entry point, why."""
    return _plug_ins()[1]


def registered(scope: str = Scope.SESSION) -> dict[str, type[Extractor[Any]]]:
    """The extractors of sessions, or of the ``stories``, by feature, in the order in which they run.

    Without those that a configuration's sections ``[[embed]]`` make, nor labels' curves: :func:`extractor_classes`
    has the former.
    """
    return {cls.spec.name: cls for cls in _all() if cls.scope == scope}


def model_files() -> dict[str, ModelFile]:
    """All published model files, by name: storyframes' own and those of plug-ins."""
    return MODELS | {model.name: model for cls in _all() for model in cls.published}


def _all() -> tuple[type[Extractor[Any]], ...]:
    return (*BUILT_IN, *_plug_ins()[0])


_NO_SECTION = ExtractorSettings()  # of an extractor without settings of its own, such as a label's curve


class _Sections(StrictSettings):
    """The configuration of extraction; every extractor's own section comes to these."""

    # what is extracted where nothing else is asked for. ``dope`` is not among them by default: its model has to be got
    # from its authors first. The models of ``embed`` are
    features: tuple[str, ...] = DEFAULT_FEATURES
    recording: RecordingSettings = Field(default_factory=RecordingSettings)
    transcript: TranscriptSettings = Field(default_factory=TranscriptSettings)
    embed: tuple[AnyEmbedSettings, ...] = ()  # models that are made features, each under a name of its own

    @property
    def common(self) -> CommonSettings:
        return CommonSettings(self.recording, self.transcript)

    def section(self, feature: str) -> ExtractorSettings:
        """The section of a feature's extractor.

        Raises:
            KeyError: there is no such feature.
        """
        if feature in _sections():
            return getattr(self, feature)
        for model in self.embed:
            if model.name == feature:
                return model
        if feature not in {cls.spec.name for cls in _all()} and not is_label_curve(feature):
            raise KeyError(feature)
        return _NO_SECTION

    def with_section(self, feature: str, section: ExtractorSettings) -> Self:
        """The same with another section for one feature."""
        return self._copy({feature: section})

    def resolved(self) -> Self:
        """The same with machine-dependent values filled in, so that all workers do alike."""
        settled = self._copy({feature: self.section(feature).resolved() for feature in self._with_section()})
        return settled._copy({model.name: model.as_planned(planned_digest(model)) for model in settled.embed})

    def for_measuring(self) -> Self:
        """The same for measuring what extraction costs."""
        return self._copy({feature: self.section(feature).for_measuring() for feature in self._with_section()})

    def _with_section(self) -> list[str]:
        return [*_sections(), *(model.name for model in self.embed)]

    def _copy(self, sections: Mapping[str, ExtractorSettings]) -> Self:
        embed = tuple(sections.get(model.name, model) for model in self.embed)
        changed = {name: section for name, section in sections.items() if name in _sections()}
        return self.model_copy(update={**changed, "embed": embed})

    def __reduce__(self) -> tuple[Any, ...]:
        """Plug-ins' sections are pickled as JSON, so that a process without a plug-in can read all the rest."""
        classes = {cls.spec.name: cls for cls in _plug_ins()[0]}
        foreign = {name: section for name, section in self.__dict__.items() if name in classes}
        own = {name: section for name, section in self.__dict__.items() if name not in classes}
        written = {name: section.model_dump(mode="json") for name, section in foreign.items()}
        return _rebuilt, (type(self), own, written, self.model_fields_set)

    @model_validator(mode="before")
    @classmethod
    def _extract_models_by_default(cls, content: Any) -> Any:
        """If ``features`` is absent, the models of ``embed`` are extracted too: a section is written to be used."""
        if not isinstance(content, dict) or "features" in content or not isinstance(content.get("embed"), list | tuple):
            return content
        models = [
            section.get("name") if isinstance(section, dict) else getattr(section, "name", None)
            for section in content["embed"]
        ]
        named = [name for name in models if isinstance(name, str) and name not in DEFAULT_FEATURES]
        return {**content, "features": (*DEFAULT_FEATURES, *dict.fromkeys(named))}

    @model_validator(mode="after")
    def _names_are_right(self) -> Self:
        names = [model.name for model in self.embed]
        for model, name in zip(self.embed, names, strict=True):
            if name in registered() or name in registered(Scope.STORIES):
                raise ValueError(f"embed: name = {name!r} is that of another feature: choose another")
            if has_other_meaning(name) or not may_be_called(name):
                raise ValueError(f"embed: name = {name!r}: the word has another meaning: choose another")
            if names.count(name) > 1:
                raise ValueError(f"embed: name = {name!r} stands twice: each is a feature of its own")
            if missing := [read for read in model.reads if read not in registered()]:
                raise ValueError(f"embed: {name}: landmarks = {missing[0]!r}: {unknown_feature(missing[0])}")
        for feature in self.features:
            if feature not in registered() and feature not in names:
                raise ValueError(f"features: {unknown_feature(feature, names)}")
        return self


def _rebuilt(
    cls: type[_Sections], own: dict[str, Any], foreign: dict[str, dict[str, Any]], given: set[str]
) -> _Sections:
    """Settings from another process; the sections of plug-ins that are not here are left out."""
    known = {
        name: _sections()[name].model_validate(section) for name, section in foreign.items() if name in _sections()
    }
    return cls.model_construct(_fields_set=given & (own.keys() | known.keys()), **own, **known)


def unknown_feature(feature: str, models: Iterable[str] = ()) -> str:
    """Why a feature cannot be extracted, as a sentence for the user; ``models`` are the names in ``[[embed]]``."""
    named = {name: why for name, why in broken().items() if name.rpartition(": ")[2] == feature}
    if (companion := FEATURE_COMPANIONS.get(feature)) and not named:
        return f"the feature {feature!r} comes with {companion}: {install_line(name=companion)}"
    features = [*registered(), *models]
    close = difflib.get_close_matches(feature, features, n=1)
    hint = f": is {close[0]!r} meant?" if close else f"; there are {', '.join(features)}"
    sentence = f"there is no feature {feature!r}{hint}"
    if unusable := named or broken():
        sentence += "; plug-ins that cannot be used: " + "; ".join(f"{name}: {why}" for name, why in unusable.items())
    return sentence


@cache
def _sections() -> Mapping[str, type[ExtractorSettings]]:
    """The features whose extractors have something to set, and what."""
    return {cls.spec.name: cls.Settings for cls in _all() if cls.Settings.model_fields}


if TYPE_CHECKING:

    class ExtractorsSettings(_Sections):
        """Every extractor's section of the configuration."""

else:
    ExtractorsSettings = create_model(
        "ExtractorsSettings",
        __base__=_Sections,
        __module__=__name__,
        __doc__="Every extractor's section of the configuration.",
        **{name: (section, Field(default_factory=section)) for name, section in _sections().items()},
    )


def extractor_classes(settings: ExtractorsSettings, scope: Scope) -> dict[str, type[Extractor[Any]]]:
    """The extractors of sessions, or of the stories, with those that the sections ``[[embed]]`` make.

    By feature, in the order in which they run.
    """
    models = {model.name: _EMBEDDINGS.get((model.kind, scope)) for model in settings.embed}
    return registered(scope) | {name: cls for name, cls in models.items() if cls is not None}


def build_extractors(
    settings: ExtractorsSettings, session_id: str, *, may_download: bool = True
) -> dict[str, Extractor[Any]]:
    """The extractors of a session (or of the stories), by feature, in the order in which they run.

    Args:
        session_id: the session, or ``stories``; empty for any session.
        may_download: see :attr:`Extractor.may_download`.
    """
    classes = extractor_classes(settings, _scope(session_id))
    return {name: _built(cls, name, settings, may_download=may_download) for name, cls in classes.items()}


def build_extractor(settings: ExtractorsSettings, session_id: str, feature: str) -> Extractor[Any]:
    """The extractor of one feature of a session (or of the stories), that of a label's curve among them.

    Raises:
        KeyError: there is none.
    """
    if is_label_curve(feature):
        cls: type[Extractor[Any]] = label_curve(feature)
    else:
        cls = extractor_classes(settings, _scope(session_id))[feature]
    return _built(cls, feature, settings)


def _built(
    cls: type[Extractor[Any]], feature: str, settings: ExtractorsSettings, *, may_download: bool = True
) -> Extractor[Any]:
    """An extractor, with those of the features that it reads."""
    extractor = cls(settings.section(feature), settings.common)
    extractor.may_download = may_download
    classes = registered(cls.scope)
    extractor.read_extractors = {
        name: _built(classes[name], name, settings, may_download=may_download)
        for name in extractor.reads
        if name in classes
    }
    return extractor


def _scope(session_id: str) -> Scope:
    return Scope.STORIES if session_id == STORIES else Scope.SESSION


def anchored(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The sections of a configuration file with relative paths in them made absolute, by ``folder``."""

    known: dict[str, type[ExtractorSettings]] = {"recording": RecordingSettings, **_sections()}

    def of(name: str, section: Any) -> Any:
        if name == "embed" and isinstance(section, list):
            return [EmbedSettings.anchored(model, folder) if isinstance(model, dict) else model for model in section]
        return known[name].anchored(section, folder) if name in known and isinstance(section, dict) else section

    return {name: of(name, section) for name, section in content.items()}
