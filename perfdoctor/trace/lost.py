"""Why a trace says nothing about a device that worked: the notes of such traces."""

from __future__ import annotations

from perfdoctor.trace.results import RankTrace

INVALID = "kernels were launched but none recorded: the trace says nothing about the device"
UNREAD = "no kernel could be read, the records are damaged: the trace says nothing about the device"
CUT_OFF = "the file is cut off, and what is left holds no kernel: the trace says nothing about the device"
UNKNOWN_KIND = "the work of this kind of device cannot be read: the trace says nothing about the device"
UNRECORDED = (
    "operators of a device ran, and its work was not recorded: the trace says nothing about the device"
    " (record it with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
)
LOST = (INVALID, UNREAD, CUT_OFF, UNKNOWN_KIND, UNRECORDED)


def lost_work(trace: RankTrace) -> str | None:
    """Why the device's work is missing, one of `LOST`; None where it is there, or no device worked."""
    return next((why for why in LOST if why in trace.notes), None)
