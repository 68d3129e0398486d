"""Trace files for tests, written the way kineto of three ages writes them, and by others."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def op(name: str = "aten::add", ts: Any = 100, dur: Any = 5, thread: int = 7, **args: Any) -> Event:
    """An operator on the host."""
    return event("cpu_op", name, ts, dur, 1, thread, args or {"External id": 1})


def call(name: str = "cudaLaunchKernel", ts: Any = 101, dur: Any = 2, correlation: int = 9) -> Event:
    """A runtime call."""
    return event("cuda_runtime", name, ts, dur, 1, 7, {"cbid": 211, "correlation": correlation})


def kernel(name: str = "gemm", ts: Any = 110, dur: Any = 20, correlation: int = 9, stream: int = 7) -> Event:
    """A kernel."""
    args = {"External id": 3, "device": 0, "context": 1, "stream": stream, "correlation": correlation,
            "grid": [1, 1, 1], "est. achieved occupancy %": 50}  # fmt: skip
    return event("kernel", name, ts, dur, 0, stream, args)


def event(cat: str, name: str, ts: Any, dur: Any, pid: Any, tid: Any, args: Any = None) -> Event:
    """A complete event with its fields in kineto's order."""
    fields = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
    return fields | ({"args": args} if args else {})


def of_2022(event: Event) -> str:
    """Fields of an event on two lines, arguments on lines of their own."""
    head = ", ".join(
        f'"{key}": {_text(event[key])}' for key in ("ph", "cat", "name", "pid", "tid") if key in event
    )
    times = ", ".join(f'"{key}": {_text(event[key])}' for key in ("ts", "dur") if key in event)
    return "  {\n    " + head + ",\n    " + times + _args(event, ",\n    ") + "\n  }"


def of_2026(event: Event) -> str:
    """One field a line, the comma before the arguments too."""
    fields = ",\n    ".join(f'"{key}": {_text(value)}' for key, value in event.items() if key != "args")
    return "  {\n    " + fields + _args(event, "\n    ,\n    ") + "\n  }"


def _args(event: Event, before: str) -> str:
    if "args" not in event:
        return ""
    inside = ", ".join(f'"{key}": {_text(value)}' for key, value in event["args"].items())
    return before + '"args": {\n      ' + inside + "\n    }"


class Literal(str):
    """Text that goes into the file as it is: a number with all its digits, or a broken name."""


def _text(value: Any) -> str:
    return str(value) if isinstance(value, Literal) else json.dumps(value)


def in_lines(events: Sequence[Event], layout: Callable[[Event], str] = of_2022, **about: Any) -> str:
    """A whole file in one of kineto's layouts."""
    head = "".join(f'  "{key}": {json.dumps(value)},\n' for key, value in about.items())
    body = ",\n".join(layout(event) for event in events)
    return (
        '\n{\n  "schemaVersion": 1,\n'
        + head
        + '  "traceEvents": [\n'
        + body
        + '\n  ],\n  "traceName": "t"\n}'
    )


def plain(value: Any) -> Any:
    """Literals as numbers, for writers that know no others."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return float(value) if isinstance(value, Literal) else value


def compact(events: Sequence[Event], **about: Any) -> str:
    """A whole file as one line."""
    return json.dumps({"schemaVersion": 1, **about, "traceEvents": [plain(event) for event in events]})


def pretty(events: Sequence[Event], **about: Any) -> str:
    """A whole file, indented by two."""
    return json.dumps(
        {"schemaVersion": 1, **about, "traceEvents": [plain(event) for event in events]}, indent=2
    )


def bare(events: Sequence[Event]) -> str:
    """A list without anything around it."""
    return json.dumps([plain(event) for event in events])


def save(folder: Path, text: str | bytes, name: str = "t.json") -> Path:
    """The file, compressed where its name says so."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path
