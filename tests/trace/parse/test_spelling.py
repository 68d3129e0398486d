"""How a file spells its events is told by its first ones, and events are found by it."""

from __future__ import annotations

import numpy as np
import pytest

from perfdoctor.trace.parse import spelling
from tests.support import trace_files
from tests.support.trace_files import kernel, op

EVENTS = [
    op("aten::{lambda()#1}"),
    kernel(),
    {"name": "process_name", "ph": "M", "pid": 1, "tid": 0},
    op(ts=300),
]
MARGIN = " " * 63 + "\n"


def listed(text):
    """The list of events of a file."""
    return text[text.index("[") + 1 : text.rindex("]")]


WRITERS = {
    "lines": lambda events: trace_files.in_lines(events, trace_files.of_2026),
    "one line": trace_files.compact,
    "indented": trace_files.pretty,
    "without blanks": lambda events: trace_files.compact(events).replace(": ", ":").replace(", ", ","),
    "an event a line": lambda events: trace_files.compact(events).replace("}, {", "},\n{"),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_each_event_opens_once(write):
    text = listed(write(EVENTS))
    spelled = spelling.of(text.encode())
    data = (MARGIN + spelled.before.decode() + text.strip() + MARGIN).encode()
    opens = spelled.opens(np.frombuffer(data, np.uint8)).tolist()
    assert len(opens) == len(EVENTS)
    for begin, end in zip(opens, [*opens[1:], len(data)], strict=True):
        assert data[begin:end].count(b'"ph"') == 1


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"]}",
        b'{"args": {}, "ph": "X"}, {"args": {}, "ph": "X"}',
        b'{"ph": "X", "ts": 1}',
        b"\n" + b" " * 40 + b'{\n  "ph": "X"\n}',
    ],
)
def test_what_is_spelled_otherwise_is_not_known(text):
    assert spelling.of(text) is None


def test_the_border_between_two_events_is_no_border_of_another_list():
    text = listed(trace_files.pretty(EVENTS)).encode()
    spelled = spelling.of(text)
    behind = (
        b'\n  ],\n  "deviceProperties": [\n    {\n      "id": 0\n    },\n    {\n      "id": 1\n    }\n  ]'
    )
    assert (text + behind).rfind(spelled.boundary) < len(text)
