"""Known layouts are taken apart; whatever does not fit is handed back, never lost."""

from __future__ import annotations

import json

import pytest

from perfdoctor.trace.parse import spelling
from perfdoctor.trace.parse.events import EventTable
from perfdoctor.trace.parse.layout import KnownLayout
from perfdoctor.trace.parse.tables import Tables
from tests.support import trace_files
from tests.support.trace_files import kernel, op


def take(*events: str) -> tuple[Tables, list[bytes]]:
    """What the layout makes of blocks of text, one behind the other, and what it hands back."""
    return taken(("\n" + ",\n".join(events)).encode())


def taken(text: bytes) -> tuple[Tables, list[bytes]]:
    """The same of a whole list of events."""
    tables, spelled = Tables(), spelling.of(text)
    assert spelled is not None
    layout = KnownLayout(tables, spelled)
    look = layout.look(text.strip())
    layout.take(look)
    return tables, look.odd


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
        '  {\n    "ph": "X", "cat": "cpu_op", "name": "exponent", "pid": 1, "tid": 7,\n    "ts": 1, "dur": 2e-5\n  }',
        '  {\n    "ph": "X", "cat": "cpu_op", "name": "picoseconds", "pid": 1, "tid": 7,\n    "ts": 1.0001, "dur": 2\n  }',
        '  {\n    "ph": "X", "cat": "cpu_op", "name": ["listed"], "pid": 1, "tid": 7,\n    "ts": 1, "dur": 2\n  }',
        '  {\n    "ph": "X", "cat": {"a": 1}, "name": "no category", "pid": 1, "tid": 7,\n    "ts": 1, "dur": 2\n  }',
        '  {\n    "ph": "i", "name": "no arguments", "pid": 1, "tid": 7,\n    "ts": 1\n  }',
        '  {\n    "ph": "X", "cat": "cpu_op", "name": "n", "pid": 1, "tid": 7, "args": {"ts": 5},\n    "ts": 1, "dur": 2\n  }',
    ],
)
def test_an_odd_event_is_handed_back_whole(odd: str) -> None:
    tables, rest = take(trace_files.of_2022(op()), odd, trace_files.of_2022(op(ts=300)))
    assert [json.loads(piece) for piece in rest] == [json.loads(odd)]
    assert tables.host[EventTable.OPS].count == 2


@pytest.mark.parametrize("encode", [trace_files.compact, trace_files.pretty, trace_files.bare])
def test_files_that_a_json_encoder_wrote_need_no_decoding(encode) -> None:
    memory = {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 7, "ts": 5, "args": {"Bytes": 512}}
    text = encode([op(), kernel(), memory, op(ts=200.5), trace_files.call(correlation=5)])
    listed = text[text.index("[") + 1 : text.rindex("]")].encode()
    tables, rest = taken(listed)
    assert rest == []
    assert tables.host[EventTable.OPS].done()["begin_ns"].tolist()[1] == 200_500
    assert (tables.device.count, tables.memory.count) == (1, 1)
    assert tables.calls.done()["correlation"].tolist() == [5]


def test_arguments_that_repeat_are_decoded_once(monkeypatch) -> None:
    args = {"Input Dims": [[8, 16], [16, 4]], "Input type": ["float", "float"]}
    events = [
        op("aten::mm", at, 30, **{"External id": at, "Concrete Inputs": ["", ""]}, **args, **{"Ev Idx": at})
        for at in (100, 200, 300)
    ]
    looked = []
    kept = Tables.kept
    monkeypatch.setattr(Tables, "kept", lambda self, args: looked.append(args) or kept(self, args))
    tables, _ = take(*map(trace_files.of_2022, events))
    assert tables.details.done()["inputs"].tolist() == [0, 0, 0]
    assert len(looked) == 1


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
