"""Readers of the files of annotation programs, one for each program."""
