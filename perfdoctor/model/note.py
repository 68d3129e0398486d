"""Remarks: what a reader should know beside the figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from perfdoctor.model.dataclass import dataclass


@dataclass(frozen=True)
class Note:
    """One remark: which it is, and the values in it. How it is worded is the renderer's."""

    slug: str
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)


# A sentence is what another process has written (the notes kept in run.json), or what an error says too.
Remark = Note | str
