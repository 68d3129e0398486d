"""Rows of the training thread: its time by phase, closed at each border that may be a step's."""

from __future__ import annotations

from .rows import RowLayout

# What closed a row, weakest first.
OPEN, CALL, BATCH, BACKWARD_DONE, UPDATE, END = range(6)

# Bits of the column `flags`.
SKIPPED = 1  # a GradScaler left the optimizer's step out
DISTURBED = 2  # watched at a cost: a profiler window was open, or each call or item was looked at
ROLLED_UP = 4  # the row covers several markers
FRESH = 8  # gradients were cleared or parameters changed before the first backward

# Phases, as places of a list of times; the first eight have a column each, in this order.
DATA_WAIT, HOST_TO_DEVICE, FORWARD, BACKWARD, GRAD_SYNC, OPTIMIZER, VALIDATION, CHECKPOINT, OTHER = range(9)
PHASE_COLUMNS = (
    "data_wait", "host_to_device", "forward", "backward", "grad_sync", "optimizer_ns", "validation",
    "checkpoint",
)  # fmt: skip

STEPS = RowLayout(
    "steps",
    (
        ("end_ns", "i8"),
        ("begin_ns", "i8"),
        ("marker", "u1"),
        ("flags", "u1"),
        ("optimizer", "u2"),
        ("marks", "u4"),
        ("backwards", "u4"),
        ("batches", "u4"),
        ("calls", "u4"),
        ("switches", "u4"),
        ("samples", "i8"),
        ("loss", "f8"),
        ("process_cpu_ns", "i8"),
        *((name, "i8") for name in PHASE_COLUMNS),
    ),
)
