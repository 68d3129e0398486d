"""What the C library does with memory that is freed while a trace is read; nothing where it is not glibc.

Reading allocates and frees a few megabytes for each block. By default glibc may hand them back to the system
every time and ask for them again, page by page.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from malloc.h
KEPT_BYTES = 64 << 20  # of free memory at the end of the heap
APART_BYTES = 4 << 20  # what is larger has pages of its own: columns, which grow without being copied
SMALL_BYTES = 1 << 20  # both of these once the trace is read: what is computed of it comes and goes

UNSUPPORTED = (OSError, AttributeError, TypeError)  # no such library, or no such function in it


def keep_freed() -> None:
    """Let freed memory stay with the process."""
    with suppress(*UNSUPPORTED):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, APART_BYTES)
        library.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def give_back() -> None:
    """Hand freed memory back to the system, now and from now on: up to 30 MB lie between the columns when a
    file is read, and as much would between those that are measured.
    """
    with suppress(*UNSUPPORTED):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, SMALL_BYTES)
        library.mallopt(M_TRIM_THRESHOLD, SMALL_BYTES)
        library.malloc_trim(0)
