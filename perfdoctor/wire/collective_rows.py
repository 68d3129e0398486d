"""Rows of a rank's collectives, and the one that it is in, which stands in the header of their file."""

from __future__ import annotations

import struct

from .rows import TEXT_BYTES, RowLayout

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL, BARRIER, OTHER_OP = range(1, 8)
OP_NAMES = {
    ALL_REDUCE: "all_reduce",
    ALL_GATHER: "all_gather",
    REDUCE_SCATTER: "reduce_scatter",
    BROADCAST: "broadcast",
    ALL_TO_ALL: "all_to_all",
    BARRIER: "barrier",
    OTHER_OP: "other",
}
UNKNOWN_GROUP = 65_535  # of a handle whose call was not seen: sent to, or received from, one other rank

# Bits of the column `flags`.
ASYNC = 1  # the call returned at once; its row tells when it was waited for
DDP = 2  # all buckets of one backward pass of DistributedDataParallel
OUTSIDE_GRAD_SYNC = 4  # its time stayed in another phase, or was another thread's
UNTIMED = 8  # only counted: to time it would have meant to wait for the device
ESTIMATED = 16  # timed by the length of the backward pass, and by what was measured of passes before it

COLLECTIVES = RowLayout(
    "collectives",
    (
        ("end_ns", "i8"),
        ("begin_ns", "i8"),
        ("wait_ns", "i8"),
        ("bytes", "i8"),
        ("step", "u4"),
        ("sequence", "u4"),
        ("op", "u1"),
        ("flags", "u1"),
        ("group", "u2"),
        ("ranks", "u4"),
        ("buckets", "u4"),
    ),
)

NOW_BYTE = TEXT_BYTES  # where in the header the collective stands that the rank is in
NOW = struct.Struct("<qqQIHBB")  # begin_ns, step, bytes, sequence, group, op, whether the rank is inside
INSIDE_BYTE = NOW_BYTE + NOW.size - 1
