"""The contract that every extractor keeps, as a test for those who write one.

``contract`` is the test, :func:`check_extractor`; ``rules`` are what it holds an extractor to. ``trial`` is what one
extraction of a recording came to, ``damage`` spoils a recording's files, ``other_values`` finds another value for a
setting, ``peak_memory`` is the process in which memory is measured.

Running an extractor needs the pipeline (``storyframes[pipeline]``), which this package does not import: the class says
where it is run.
"""

from storyframes.testing.contract import ContractError, check_extractor, violations

__all__ = ["ContractError", "check_extractor", "violations"]
