"""Events end up in columns; odd arguments become unknowns."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfdoctor.trace.parse.columns import ProcessGroup
from perfdoctor.trace.parse.events import EventTable
from perfdoctor.trace.parse.tables import Columns, Tables


def event(cat: str, name: str, args: Any) -> dict[str, Any]:
    """An event as decoded."""
    return {"ph": "X", "cat": cat, "name": name, "ts": 1, "dur": 2, "pid": 3, "tid": 7, "args": args}


def test_columns_grow_and_keep_their_order() -> None:
    columns = Columns(a="i8", b="f4")
    for first in range(0, 1000, 10):
        columns.extend(np.arange(first, first + 10), [0.5] * 10)
    done = columns.done()
    assert done["a"].tolist() == list(range(1000))
    assert done["b"].dtype == np.float32
    assert len(done["b"]) == 1000


def test_device_and_stream_come_from_the_lane_where_arguments_are_silent() -> None:
    tables = Tables()
    arguments = ({"device": 2, "stream": 20}, {}, {"device": "odd", "stream": None}, None)
    assert tables.add([event("kernel", "k", args) for args in arguments]) == []
    device = tables.finished()["device"]
    assert device.device.tolist() == [2, 3, 3, 3]
    assert device.stream.tolist() == [20, 7, 7, 7]


def test_lists_among_numbers_are_unknown() -> None:
    tables = Tables()
    assert tables.add([event("kernel", "k", {"correlation": told}) for told in ([1, 2], 5, [3])]) == []
    assert tables.finished()["device"].correlation.tolist() == [-1, 5, -1]


def test_the_group_that_a_kernel_communicates_in_is_kept() -> None:
    tables = Tables()
    told = {"Process Group Name": "1", "Process Group Ranks": "[0, 2]", "Group size": 2}
    tables.add([event("kernel", "nccl", args) for args in (told, {}, told, {"Process Group Name": 3})])
    found = tables.finished()
    assert found["device"].group.tolist() == [0, -1, 0, 1]
    assert found["groups"] == [ProcessGroup("1", "[0, 2]", 2), ProcessGroup("3")]


def test_stacks_are_kept_frame_by_frame() -> None:
    tables = Tables()
    tables.add([event("cpu_op", "aten::item", {"Call stack": "train.py(12): step;train.py(40): main"})])
    found = tables.finished()
    assert found["stacks"] == [("train.py(12): step", "train.py(40): main")]
    assert found["details"].inputs.tolist() == [-1]


def test_what_is_no_event_is_handed_back_by_its_place() -> None:
    tables = Tables()
    assert sorted(tables.add([event("cpu_op", "a", {}), 5, None, {}, event("cpu_op", ["list"], {})])) == [
        1,
        2,
        4,
    ]
    assert tables.host[EventTable.OPS].count == 1
    assert tables.events == 5


def test_categories_that_may_be_work_of_an_unknown_device_are_named() -> None:
    tables = Tables()
    common = {"name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    phases = {"cpu_op": "X", "overhead": "X", "Trace": "X", "ac2g": "s", "mtia_ccp_events": "X"}
    tables.add([{"ph": phase, "cat": category, **common} for category, phase in phases.items()])
    assert tables.finished()["unknown"] == ("mtia_ccp_events",)
