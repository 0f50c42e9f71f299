"""Faults of disks and of timing.

`faulty_disk` (a disk that fails or loses power, a library made of faulty_disk.c) · `turns` (every way in which writers
and gc can meet).
"""
