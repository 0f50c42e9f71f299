"""The contract that every extractor keeps, as a test for those who write one.

``contract`` is the test, :func:`check_extractor`; ``rules`` are what it checks of an extractor; ``earlier`` compares
its values with those of an earlier check; ``trial`` is one extraction of a recording and its result, in this process
or, to measure memory, in its own.

Running an extractor needs the pipeline (``storyframes[pipeline]``), which this package looks up as an entry point
instead of importing it.
"""

from storyframes.testing.contract import check_extractor, violations
from storyframes.testing.earlier import ChangedValuesWarning

__all__ = ["ChangedValuesWarning", "check_extractor", "violations"]
