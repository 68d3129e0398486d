"""kineto's layout is taken apart; whatever does not fit is handed back, never lost."""

from __future__ import annotations

import json

import pytest

from perfdoctor.trace.parse.events import EventTable
from perfdoctor.trace.parse.layout import KinetoLayout
from perfdoctor.trace.parse.tables import Tables
from tests.support import trace_files
from tests.support.trace_files import kernel, op


def take(*events: str) -> tuple[Tables, list[bytes]]:
    """What the layout makes of blocks of text, one behind the other, and what it hands back."""
    tables = Tables()
    return tables, KinetoLayout(tables).take(("\n" + ",\n".join(events) + ",\n").encode())


@pytest.mark.parametrize("layout", [trace_files.of_2022, trace_files.of_2026])
def test_both_ages_of_the_layout_need_no_decoding(layout) -> None:
    tables, rest = take(layout(op()), layout(kernel()), layout(op(ts=200.125)))
    assert rest == []
    assert tables.host[EventTable.OPS].count == 2
    assert tables.device.count == 1


def test_head_lines_split_after_the_category_are_fine() -> None:
    tables, rest = take(trace_files.of_2022(op()).replace('"name"', '\n    "name"'))
    assert rest == []
    assert tables.host[EventTable.OPS].count == 1


@pytest.mark.parametrize(
    "odd",
    [
        '  {\n    "name": "late", "ph": "X", "cat": "cpu_op", "pid": 1, "tid": 7,\n    "ts": 1, "dur": 2\n  }',
        '  {\n    "ph": "X", "cat": "cpu_op", "name": "negative", "pid": 1, "tid": 7,\n    "ts": 1, "dur": -2\n  }',
        '  {\n    "ph": "X", "cat": "cpu_op", "name": "no duration", "pid": 1, "tid": 7,\n    "ts": 1\n  }',
        '  {\n    "ph": "X", "cat": "cpu_op", "name": "no thread",\n    "ts": 1, "dur": 2, "pid": 1, "tid": 7\n  }',
        '  {\n    "ph": "X", "cat": "cpu_op", "name": "tenths", "pid": 1, "tid": 7,\n    "ts": 1.5, "dur": 2\n  }',
        '  {\n    "ph": "i", "name": "[memory]", "pid": 1, "tid": 7,\n    "ts": 1\n  }',
    ],
)
def test_an_odd_event_is_handed_back_whole(odd: str) -> None:
    tables, rest = take(trace_files.of_2022(op()), odd, trace_files.of_2022(op(ts=300)))
    assert [json.loads(piece) for piece in rest] == [json.loads(odd)]
    assert tables.host[EventTable.OPS].count == 2


def test_what_stands_before_the_first_block_is_handed_back() -> None:
    _, rest = take('{"ph": "X", "ts": 1}', trace_files.of_2022(op()))
    assert rest == [b'{"ph": "X", "ts": 1}']


def test_arrows_are_dropped_but_counted() -> None:
    arrow = (
        '  {\n    "ph": "s", "id": 5, "pid": 1, "tid": 7, "ts": 110,\n    "cat": "ac2g", "name": "ac2g"\n  }'
    )
    tables, rest = take(arrow, trace_files.of_2022(op()))
    assert rest == []
    assert tables.events == 2


def test_the_correlation_is_found_wherever_it_stands() -> None:
    first = trace_files.event(
        "cuda_runtime", "hipLaunchKernel", 1, 2, 1, 7, {"correlation": 12, "kernel": "f(int)"}
    )
    last = trace_files.call(correlation=13)
    without = trace_files.event("cuda_runtime", "cudaFree", 3, 2, 1, 7, {"cbid": 4})
    bare = trace_files.event("cuda_runtime", "cudaFree", 4, 2, 1, 7)
    tables, _ = take(*(trace_files.of_2022(event) for event in (first, last, without, bare)))
    assert tables.calls.done()["correlation"].tolist() == [12, 13, -1, -1]
