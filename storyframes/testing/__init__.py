"""The contract that every extractor keeps, as a test for those who write one.

``contract`` is the test, :func:`check_extractor`; ``rules`` are what it checks of an extractor; ``trial`` is one
extraction of a recording and its result, in this process or, to measure memory, in its own.

Running an extractor needs the pipeline (``storyframes[pipeline]``), which this package looks up as an entry point
instead of importing it.
"""

from storyframes.testing.contract import ContractError, check_extractor, violations

__all__ = ["ContractError", "check_extractor", "violations"]
