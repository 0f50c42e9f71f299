"""A study as its owner gives it: tables, transcripts and labels.

``load`` reads a study: ``table_rows`` makes the rows of each table (``strict_tables`` reads the file, ``csv_text`` its
text, ``rows`` has the columns), and ``references`` and ``label_rows`` check the rows against each other. Everything
wrong becomes one of the ``problems``. ``labels`` has schemes and labels, ``missing_values`` cells that may say that
there is no label.

``transcript`` (with ``captions``), ``curves`` and ``boxes`` read files that the tables name. ``sessions_from_files``
writes the first tables and configuration, by what ``recording_names`` reads in names. ``changed_tables`` changes
tables. ``study_identity`` is what a feature store records of its study, ``forgotten_ids`` the list of who is forgotten.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from tasks.study.boxes import Boxes, BoxesError, are_shared, read_boxes
    from tasks.study.changed_tables import (
        TableChangeError,
        check_tables,
        name_transcripts,
        open_table,
        problems_with,
        put_in_place,
        row_key,
    )
    from tasks.study.curves import CurveError, read_curve
    from tasks.study.forgotten_ids import ForgottenIds, ForgottenListError, read_forgotten_ids
    from tasks.study.labels import EMPATHY, Label, Scheme, SchemeType, alike, did_you_mean, folded, listed
    from tasks.study.load import Study, StudyFileError, declared_schemes, load_study, read_study
    from tasks.study.missing_values import is_one_of, possibly_missing
    from tasks.study.problems import StudyError, shortened, shown_value
    from tasks.study.rows import Track, as_words, spoken_name
    from tasks.study.strict_tables import (
        Fault,
        decimal_commas,
        is_empty,
        read_table,
        with_decimal_point,
        without_empty_rows,
    )
    from tasks.study.study_identity import check_study_record, people_of, remember_study
    from tasks.study.transcript import TranscriptError, Utterance, read_transcript

__all__ = [
    "EMPATHY",
    "Boxes",
    "BoxesError",
    "CurveError",
    "Fault",
    "ForgottenIds",
    "ForgottenListError",
    "Label",
    "Scheme",
    "SchemeType",
    "Study",
    "StudyError",
    "StudyFileError",
    "TableChangeError",
    "Track",
    "TranscriptError",
    "Utterance",
    "alike",
    "are_shared",
    "as_words",
    "check_study_record",
    "check_tables",
    "decimal_commas",
    "declared_schemes",
    "did_you_mean",
    "folded",
    "is_empty",
    "is_one_of",
    "listed",
    "load_study",
    "name_transcripts",
    "open_table",
    "people_of",
    "possibly_missing",
    "problems_with",
    "put_in_place",
    "read_boxes",
    "read_curve",
    "read_forgotten_ids",
    "read_study",
    "read_table",
    "read_transcript",
    "remember_study",
    "row_key",
    "shortened",
    "shown_value",
    "spoken_name",
    "with_decimal_point",
    "without_empty_rows",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "changed_tables": "TableChangeError check_tables name_transcripts open_table problems_with put_in_place "
        "row_key",
        "boxes": "Boxes BoxesError are_shared read_boxes",
        "curves": "CurveError read_curve",
        "forgotten_ids": "ForgottenIds ForgottenListError read_forgotten_ids",
        "labels": "EMPATHY Label Scheme SchemeType alike did_you_mean folded listed",
        "load": "Study StudyFileError declared_schemes load_study read_study",
        "missing_values": "is_one_of possibly_missing",
        "problems": "StudyError shortened shown_value",
        "rows": "Track as_words spoken_name",
        "strict_tables": "Fault decimal_commas is_empty read_table with_decimal_point without_empty_rows",
        "study_identity": "check_study_record people_of remember_study",
        "transcript": "TranscriptError Utterance read_transcript",
    },
)
