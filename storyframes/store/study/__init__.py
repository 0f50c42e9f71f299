"""What a feature store knows of the people in it: which sessions its study has, and which are to be forgotten.

``record`` reads and dates the record of the study that ``extract`` and ``index`` keep (``study.json``); ``forgotten``
has the keyed digests of sessions and people that were forgotten (``forgotten.json``); ``left`` names the sessions that
the store has and the study does not; ``given`` notes the releases and exports that were made of it (``given.json``).
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from storyframes.store.study.forgotten import Forgotten, id_words, is_distinctive, read_forgotten
    from storyframes.store.study.given import given_away, note_given
    from storyframes.store.study.left import describe_left, sessions_left
    from storyframes.store.study.record import StudyRecord, confirm_study_record, read_study_record

__all__ = [
    "Forgotten",
    "StudyRecord",
    "confirm_study_record",
    "describe_left",
    "given_away",
    "id_words",
    "is_distinctive",
    "note_given",
    "read_forgotten",
    "read_study_record",
    "sessions_left",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "forgotten": "Forgotten id_words is_distinctive read_forgotten",
        "given": "given_away note_given",
        "left": "describe_left sessions_left",
        "record": "StudyRecord confirm_study_record read_study_record",
    },
)
