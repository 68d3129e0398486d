"""Names that the probe and the outside share: of a run directory, and of the files in it.

The tag of a process is `rank0`, or `rank0.<pid>` for a further process of the same rank.
"""

from __future__ import annotations

# The variable that tells all that a command starts where its run is; probe/inject/sitecustomize.py, which
# imports nothing, names it itself.
RUN_VARIABLE = "PERFDOCTOR_RUN"

CONFIG = "config.json"  # what the probe is asked to do
STARTED = "started.jsonl"  # a line of each interpreter that the probe reached
BOOT = "boot.jsonl"  # a line of each process that imported torch
AGENT = "agent.jsonl"  # ranks whose end their launcher noticed, a line each
PROBE_LOG = "probe.log"  # the probe's own troubles
DISK_FULL = "disk-full"  # empty, for that has room on a full disk: since when nothing more could be recorded
WRITE_OVERLAY = "diverted"  # a folder: that it is there has the probe redirect what the script writes
TURNS = "turns"  # of a trial: when a training on a device has its turn
MEASURING = "measuring"  # made by the process that measures a loader; its last line says how far that is
MEASURED = "done"  # that line once it is over


def rows_file(kind: str, tag: str) -> str:
    """The rows of a process of one kind: steps, loader, workers or collectives."""
    return f"{kind}.{tag}.bin"


def events_file(tag: str) -> str:
    """The events of a process."""
    return f"events.{tag}.jsonl"


def stacks_file(tag: str) -> str:
    """The folded stacks of a process."""
    return f"stacks.{tag}.txt"


def windows_file(host: str) -> str:
    """The steps at which windows open, for all ranks of a host."""
    return f"windows.{host}.bin"


def trace_file(tag: str, window: int) -> str:
    """What torch.profiler exported of one window."""
    return f"trace.{tag}.{window}.json"
