"""Whose words a microphone of several people heard: each word is attributed by the ``speaking`` of the persons' tracks.

Only transcripts that were made here, and nobody has corrected, get speakers; words, their order and times stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from storyframes import MAIN, FeatureName, FeatureStore, attribute, read_speech
from storyframes.store import Caveat, StorageError, StoreError
from storyframes_transcribe.recordings import person_of_sound, person_of_track, speaker_of
from storyframes_transcribe.session import Outcome, Status
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.transcript_file import Attribution, KeptError, TranscriptFile, read_made, utterances, write
from tasks.study import Study


def name_speakers(study: Study, store: FeatureStore, settings: TranscribeSettings, outcome: Outcome) -> Outcome:
    """Attribute the words of a transcript that is there, and write it where that gives another file.

    That of one person's microphone, and one that was joined from these, are left as they are.

    Returns:
        The outcome, with how many words have a speaker.
    """
    session_id, path = outcome.session_id, study.root / outcome.path
    if not outcome.is_there or outcome.joined or person_of_sound(study, session_id, outcome.track):
        return outcome
    try:
        made = read_made(path)
        persons = persons_of_tracks(study, store, session_id)
        if made and persons:
            named = _with_speakers(study, store, settings, outcome, made, persons)
            made = made if named == made else write(path, named)
    except KeptError as error:
        return replace(outcome, status=Status.KEPT, reason=str(error))
    except (StoreError, StorageError, OSError) as error:
        return replace(outcome, status=Status.FAILED, reason=f"no speakers: {error}")
    unheard = {one.person_id for one in study.persons if one.session_id == session_id} - set(persons.values())
    attributed = sum(len(one.words) for one in made.utterances if one.person_id) if made else 0
    return replace(outcome, attributed=attributed, unheard=len(unheard))


def persons_of_tracks(study: Study, store: FeatureStore, session_id: str) -> dict[str, str]:
    """By track, its person: of each person the first track that has ``speaking``, the session's own last.

    What says nothing about one person is left out: the speech of anybody whom a microphone hears, and a picture of
    several people, whose regions are tracks. So is what comes from the turns of the transcript itself.
    """
    of_several = {files.of for files in study.tracks[session_id].values()}
    persons: dict[str, str] = {}
    for track in sorted(study.tracks[session_id], key=lambda track: track == MAIN):
        person_id = person_of_track(study, session_id, track)
        feature = FeatureName.of_track("speaking", track)
        if not person_id or person_id in persons.values() or track in of_several or not store.has(session_id, feature):
            continue
        if not {Caveat.ANYBODYS_SPEECH, Caveat.BY_VOICE} & {*store.attributes(session_id, feature)["stamps"]}:
            persons[track] = person_id
    return persons


def _with_speakers(
    study: Study,
    store: FeatureStore,
    settings: TranscribeSettings,
    of: Outcome,
    made: TranscriptFile,
    persons: Mapping[str, str],
) -> TranscriptFile:
    """The same words in utterances of one speaker each."""
    words = made.model_copy(update={"crosstalk": ()}).words
    clock = study.clock(of.session_id, of.track)
    on_session = [word.on_session(clock) for word in words]  # as read_speech's times are
    speech = read_speech(store, of.session_id, list(persons))
    starts, ends = [word.start_s for word in on_session], [word.end_s for word in on_session]
    present = {person.person_id for person in study.persons if person.session_id == of.session_id}
    has_everybody = present <= {*persons.values()}
    said = attribute(starts, ends, speech, least=settings.speaker_probability, has_everybody=has_everybody)
    owners = [persons[each.track] if each.track else None for each in said]
    spoken = [
        utterance
        for owner, pairs in groupby(zip(owners, words, strict=True), key=itemgetter(0))
        for utterance in utterances(
            [word for _, word in pairs], settings.pause_s, speaker_of(study, of.session_id, owner), owner
        )
    ]
    versions = {track: store.version(of.session_id, FeatureName.of_track("speaking", track)) or "" for track in persons}
    share = sum(owner is not None for owner in owners) / max(len(owners), 1)
    told = Attribution(speaking=versions, least=settings.speaker_probability, attributed=round(share, 4))
    provenance = made.provenance.model_copy(update={"speakers": told})
    return made.model_copy(update={"utterances": tuple(spoken), "provenance": provenance})
