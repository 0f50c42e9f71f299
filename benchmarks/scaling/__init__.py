"""Much data: the clip index of many sessions, and long sound."""
