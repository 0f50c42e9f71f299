"""A study as its owner gives it: tables, transcripts and labels.

``load`` reads a study: ``table_rows`` makes the rows of each table (``strict_tables`` reads the file, ``csv_text`` its
text, ``rows`` has the columns), and ``references`` and ``label_rows`` check the rows against each other. Everything
wrong becomes one of the ``problems``. ``labels`` has schemes and labels, ``missing_values`` cells that may say that
there is no label.

``transcript`` (with ``captions``), ``curves`` and ``boxes`` read files that the tables name. ``first_tables`` writes
the first tables and configuration from the files in a folder, and ``changed_tables`` changes tables. ``study_identity``
is what a feature store records of its study, ``forgotten_ids`` the list of who is forgotten.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from tasks.study.boxes import Boxes
    from tasks.study.captions import find_prefixes
    from tasks.study.changed_tables import (
        ChangedTables,
        TableChangeError,
    )
    from tasks.study.csv_text import decode
    from tasks.study.curves import CurveSamples
    from tasks.study.first_tables.recording_names import as_id, session_in_name
    from tasks.study.first_tables.sessions_from_files import make_sessions
    from tasks.study.labels import Label, Scheme, SchemeType, did_you_mean
    from tasks.study.load import Study, load_study, read_study
    from tasks.study.problems import StudyError, UnusableFileError, shown_value
    from tasks.study.rows import Track, spoken_name
    from tasks.study.strict_tables import (
        Table,
    )
    from tasks.study.study_identity import check_study_record
    from tasks.study.transcript import Utterance, Word, read_transcript
    from tasks.study.transcript_formats.drafts import SURE_LANGUAGE

__all__ = [
    "SURE_LANGUAGE",
    "Boxes",
    "ChangedTables",
    "CurveSamples",
    "Label",
    "Scheme",
    "SchemeType",
    "Study",
    "StudyError",
    "Table",
    "TableChangeError",
    "Track",
    "UnusableFileError",
    "Utterance",
    "Word",
    "as_id",
    "check_study_record",
    "decode",
    "did_you_mean",
    "find_prefixes",
    "load_study",
    "make_sessions",
    "read_study",
    "read_transcript",
    "session_in_name",
    "shown_value",
    "spoken_name",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "boxes": "Boxes",
        "captions": "find_prefixes",
        "changed_tables": "ChangedTables TableChangeError",
        "csv_text": "decode",
        "curves": "CurveSamples",
        "first_tables.recording_names": "as_id session_in_name",
        "first_tables.sessions_from_files": "make_sessions",
        "labels": "Label Scheme SchemeType did_you_mean",
        "load": "Study load_study read_study",
        "problems": "StudyError UnusableFileError shown_value",
        "rows": "Track spoken_name",
        "strict_tables": "Table",
        "study_identity": "check_study_record",
        "transcript": "Utterance Word read_transcript",
        "transcript_formats.drafts": "SURE_LANGUAGE",
    },
)
