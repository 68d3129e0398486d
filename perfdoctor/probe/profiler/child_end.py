"""How a child ends whose parent had a window."""

from __future__ import annotations


def end_without_joining() -> None:
    """Let a forked child end without torch's static destructors.

    One of them joins a thread of the profiler's, which a child does not have: it would wait for ever.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)
