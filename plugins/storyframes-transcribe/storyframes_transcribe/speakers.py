"""Whose words a microphone of several people heard: each word is attributed by the ``speaking`` of the persons' tracks.

Only transcripts that were made here, and nobody has corrected, get speakers; words, their order and times stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

from storyframes.speaking import SPEAKING, attribute, read_speech
from storyframes.spec import MAIN, of_track
from storyframes.store import FeatureStore, StorageError, StoreError
from storyframes.store.records import Caveat
from storyframes_transcribe.recordings import Recording, speaker_of, transcript_path
from storyframes_transcribe.session import Outcome, Status
from storyframes_transcribe.transcript_file import Attribution, KeptError, TranscriptFile, read_made, utterances, write
from tasks.study import Study


def name_speakers(study: Study, store: FeatureStore, recording: Recording, outcome: Outcome, pause_s: float) -> Outcome:
    """Attribute the words of a transcript that is there, and write it where that gives another file.

    Args:
        recording: of a microphone that is no single person's; others are left as they are.
        pause_s: a pause of so many seconds ends an utterance.

    Returns:
        The outcome, with how many words have a speaker.
    """
    if recording.person_id is not None or not outcome.is_there:
        return outcome
    path = study.root / transcript_path(recording.session_id, recording.track)
    try:
        made = read_made(path)
        if made is None:
            return outcome
        persons = persons_of_tracks(study, store, recording.session_id)
        if persons:
            named = _with_speakers(study, store, recording, made, persons, pause_s)
            made = made if named == made else write(path, named)
    except KeptError as error:
        return replace(outcome, status=Status.KEPT, reason=str(error))
    except (StoreError, StorageError, OSError) as error:
        return replace(outcome, status=Status.FAILED, reason=f"no speakers: {error}")
    every = {person.person_id for person in study.persons if person.session_id == recording.session_id}
    attributed = sum(len(utterance.words) for utterance in made.utterances if utterance.person_id)
    return replace(outcome, attributed=attributed, unheard=len(every - set(persons.values())))


def persons_of_tracks(study: Study, store: FeatureStore, session_id: str) -> dict[str, str]:
    """By track, its person: of each person the first track that has ``speaking``, the session's own last.

    What says nothing about one person is left out: the speech of anybody whom a microphone hears, and a picture of
    several people, whose regions are tracks.
    """
    participant = study.sessions[session_id].participant_id
    of_session = [person for person in study.persons if person.session_id == session_id]
    own = next((person.person_id for person in of_session if person.participant_id == participant), None)
    of_several = {files.of for files in study.tracks[session_id].values()}
    persons: dict[str, str] = {}
    for track, files in sorted(study.tracks[session_id].items(), key=lambda pair: pair[0] == MAIN):
        person_id = own if track == MAIN else files.person_id
        feature = of_track(SPEAKING, track)
        if not person_id or person_id in persons.values() or track in of_several or not store.has(session_id, feature):
            continue
        if Caveat.ANYBODYS_SPEECH not in store.attributes(session_id, feature)["stamps"]:
            persons[track] = person_id
    return persons


def _with_speakers(
    study: Study,
    store: FeatureStore,
    recording: Recording,
    made: TranscriptFile,
    persons: Mapping[str, str],
    pause_s: float,
) -> TranscriptFile:
    """The same words in utterances of one speaker each."""
    words = made.model_copy(update={"crosstalk": ()}).words
    clock = study.clock(recording.session_id, recording.track)
    on_session = [word.on_session(clock) for word in words]  # as read_speech's times are
    speech = read_speech(store, recording.session_id, list(persons))
    said = attribute([word.start_s for word in on_session], [word.end_s for word in on_session], speech)
    owners = [persons[each.track] if each.track else None for each in said]
    spoken = tuple(
        utterance
        for person_id, pairs in groupby(zip(owners, words, strict=True), key=lambda pair: pair[0])
        for utterance in utterances(
            [word for _, word in pairs], pause_s, speaker_of(study, recording.session_id, person_id), person_id
        )
    )
    versions = {track: store.version(recording.session_id, of_track(SPEAKING, track)) or "" for track in persons}
    share = sum(owner is not None for owner in owners) / max(len(owners), 1)
    told = Attribution(speaking=versions, attributed=round(share, 4))
    provenance = made.provenance.model_copy(update={"speakers": told})
    return made.model_copy(update={"utterances": spoken, "provenance": provenance})
