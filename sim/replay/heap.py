"""Settings of the C library's heap for work on columns.

A part is judged by some hundred columns of some megabytes, each allocated, used once and freed. By default
glibc gives such memory back to the kernel at once, so the next column faults its pages in again: up to a
fifth of the processor time of a judging process. These settings keep freed memory for the next column.
"""

import ctypes
import functools

KEPT = 256 << 20
"""Freed bytes at the end of the heap that the process keeps."""
_MAPPED = 32 << 20
"""A block of so many bytes still has pages of its own, which go back when it is freed."""
_GROWTH = 64 << 20
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Parameters of `mallopt`, from glibc's malloc.h."""


@functools.cache
def keep_freed_memory() -> bool:
    """Keep freed memory for the next allocations; return false if the C library has no such setting."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False  # musl, macOS, Windows
    settings = {_TRIM_THRESHOLD: KEPT, _TOP_PAD: _GROWTH, _MMAP_THRESHOLD: _MAPPED}
    accepted = [mallopt(name, size) for name, size in settings.items()]
    return all(accepted)
