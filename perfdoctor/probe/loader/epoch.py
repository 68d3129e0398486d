"""One pass over a DataLoader: what it delivered, and how long it was waited for."""

from __future__ import annotations

import weakref
from typing import Any, Optional


class Epoch:
    """One iterator of one loader, which is held weakly: one that is gone was left by its loop."""

    __slots__ = (
        "batch_size",
        "batches",
        "before",
        "begin",
        "first_wait_ns",
        "index",
        "iterator",
        "last_ns",
        "loader",
        "startup_ns",
        "wait_ns",
    )

    def __init__(
        self,
        iterator: Any,
        loader: int,
        batch_size: int,
        index: int,
        before: int,
        begin: int,
        startup_ns: int,
    ) -> None:
        self.iterator = weakref.ref(iterator)
        self.loader = loader
        self.batch_size = batch_size  # 0 if it is not known
        self.index = index
        self.before = before  # batches of the loader's ended epochs
        self.begin = begin
        self.startup_ns = startup_ns
        self.last_ns = begin  # when its last batch was there
        self.first_wait_ns: Optional[int] = None
        self.batches = 0
        self.wait_ns = 0
