"""One step of the work a file; plain functions that flows wrap and tests call."""
