"""Rows of whoever makes batches, a loader worker or the training process: what each batch cost."""

from __future__ import annotations

from .rows import RowLayout

TRAINING_PROCESS = -1  # in the column `worker`: no worker made the batch

BATCHES = RowLayout(
    "loader",
    (
        ("end_ns", "i8"),
        ("begin_ns", "i8"),
        ("pid", "u4"),
        ("worker", "i2"),
        ("loader", "u2"),
        ("batches", "u4"),
        ("samples", "u4"),
        ("read_ns", "i8"),
        ("read_cpu_ns", "i8"),
        ("collate_ns", "i8"),
        ("collate_cpu_ns", "i8"),
        ("bytes", "i8"),
        ("file_bytes", "i8"),  # what read calls returned; 0 where the kernel does not tell
    ),
    added=("file_bytes",),
)
