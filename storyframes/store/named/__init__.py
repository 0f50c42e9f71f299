"""Names of values: ``address`` parses them, ``selection`` is what a name selects of a session."""
