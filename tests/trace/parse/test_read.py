"""Traces of every layout are read alike; what is damaged is left out, counted and said."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfdoctor.errors import NotATrace, TraceTooLarge
from perfdoctor.trace.parse import read as read_module
from perfdoctor.trace.parse.columns import UNKNOWN, DeviceKind, Trace
from perfdoctor.trace.parse.read import read
from tests.support import trace_files
from tests.support.trace_files import Literal, call, event, kernel, op

TABLES = ("ops", "calls", "annotations", "functions", "device", "syncs", "memory", "details")
LAYOUTS = {
    "lines of 2022": lambda events: trace_files.in_lines(events, trace_files.of_2022),
    "lines of 2026": lambda events: trace_files.in_lines(events, trace_files.of_2026),
    "compact": trace_files.compact,
    "pretty": trace_files.pretty,
    "bare list": trace_files.bare,
    "bare pretty list": lambda events: json.dumps([trace_files.plain(event) for event in events], indent=2),
    "indented by one": lambda events: json.dumps(
        {"traceEvents": [trace_files.plain(e) for e in events]}, indent=1
    ),
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())

MIXED = [
    {"name": "process_name", "ph": "M", "ts": 1, "pid": 1, "tid": 0, "args": {"name": "python"}},
    op("aten::mm", 100, 30, **{"External id": 4, "Input Dims": [[8, 16], [16, 4]], "Input type": ["float", "float"]}),
    op("aten::add", 140.125, 2.5),
    call(ts=110, correlation=77),
    {"ph": "s", "id": 77, "pid": 1, "tid": 7, "ts": 110, "cat": "ac2g", "name": "ac2g"},
    kernel("sgemm<float, 4>", 150, 20, 77),
    {"ph": "f", "id": 77, "pid": 0, "tid": 7, "ts": 150, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 180, 4, 0, 7,
          {"device": 0, "stream": 20, "correlation": 78, "bytes": 4096}),
    event("gpu_memset", "Memset (Device)", 190, 1, 0, 7, {"device": 0, "stream": 7, "correlation": 79, "bytes": 16}),
    event("user_annotation", "ProfilerStep#3", 90, 200, 1, 7, {"External id": 2}),
    event("python_function", "train.py(12): step", 95, 100, 1, 7, {"Python id": 1, "Python parent id": None}),
    event("cuda_sync", "Stream Sync", 160, 10, 0, 7, {"stream": 7, "correlation": 80}),
    {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 7, "ts": 120,
     "args": {"Total Reserved": 2048, "Total Allocated": 512, "Bytes": 512, "Device Id": 0, "Device Type": 1}},
    event("Trace", "PyTorch Profiler (0)", 90, 200, "Spans", "PyTorch Profiler", {"Op count": 0}),
]  # fmt: skip


def content(trace: Trace) -> dict[str, Any]:
    """Everything in the tables, names spelled out, in an order that does not depend on the layout."""
    found: dict[str, Any] = {}
    for table in TABLES:
        columns = {
            field.name: getattr(getattr(trace, table), field.name).tolist()
            for field in fields(getattr(trace, table))
        }
        if "name" in columns:
            columns["name"] = [trace.names[number] for number in columns["name"]]
        if "thread" in columns:
            columns["thread"] = [trace.threads[number] for number in columns["thread"]]
        if table == "details":
            columns["op"] = [trace.ops.begin_ns.tolist()[number] for number in columns["op"]]
            columns["inputs"] = [
                trace.inputs[number] if number >= 0 else None for number in columns["inputs"]
            ]
            columns["stack"] = [trace.stacks[number] if number >= 0 else None for number in columns["stack"]]
        found[table] = sorted(map(repr, zip(*columns.values(), strict=True)))
    return found


@every_layout
def test_each_layout_gives_the_same_tables(tmp_path: Path, layout: Any) -> None:
    trace = read(trace_files.save(tmp_path, layout(MIXED)))
    assert content(trace) == content(read(trace_files.save(tmp_path, trace_files.compact(MIXED), "c.json")))
    assert trace.events == len(MIXED)
    assert trace.skipped.because is None


def test_each_event_goes_into_its_table(tmp_path: Path) -> None:
    trace = read(trace_files.save(tmp_path, trace_files.in_lines(MIXED)))
    assert {table: len(getattr(trace, table)) for table in TABLES} == {
        "ops": 2, "calls": 1, "annotations": 1, "functions": 1, "device": 3, "syncs": 1, "memory": 1, "details": 1,
    }  # fmt: skip
    assert trace.device.kind.tolist() == [DeviceKind.KERNEL, DeviceKind.COPY, DeviceKind.MEMSET]
    assert trace.device.bytes.tolist() == [UNKNOWN, 4096, 16]
    assert trace.device.stream.tolist() == [7, 20, 7]
    assert trace.device.correlation.tolist() == [77, 78, 79]
    assert trace.device.occupancy[0] == 0.5
    assert np.isnan(trace.device.occupancy[1:]).all()
    assert trace.calls.correlation.tolist() == [77]
    assert trace.ops.begin_ns.tolist() == [100_000, 140_125]
    assert trace.ops.duration_ns.tolist() == [30_000, 2_500]
    assert trace.inputs[trace.details.inputs[0]].shapes == ((8, 16), (16, 4))
    assert trace.memory.allocated.tolist() == [512]
    assert trace.memory.on_device.tolist() == [True]


def test_epoch_nanoseconds_are_exact_although_no_float64_holds_them(tmp_path: Path) -> None:
    stamps = ["1712195495505582.988", "1712195495505583.013", "1712195495505583.014"]
    for layout in LAYOUTS.values():
        events = [op(ts=Literal(stamp), dur=Literal("0.001")) for stamp in stamps]
        text = (
            trace_files.in_lines(events)
            if layout is LAYOUTS["lines of 2022"]
            else trace_files.in_lines(events).replace("\n", "")
        )
        trace = read(trace_files.save(tmp_path, text))
        assert trace.ops.begin_ns.tolist() == [int(stamp.replace(".", "")) for stamp in stamps]


@pytest.mark.parametrize("stamp", ["4203669604595.407", "8796093022207.999", "1.5", "12"])
def test_stamps_of_any_magnitude_keep_their_nanoseconds(tmp_path: Path, stamp: str) -> None:
    text = trace_files.in_lines([op(ts=Literal(stamp))])
    for name, text_of in {"lines": text, "compact": text.replace("\n", "")}.items():
        assert read(trace_files.save(tmp_path, text_of, f"{name}.json")).ops.begin_ns[0] == round(
            float(stamp) * 1000
        )


def test_negative_and_missing_durations_are_kept_as_they_are(tmp_path: Path) -> None:
    without = {key: value for key, value in op(ts=3).items() if key != "dur"}
    for text in (trace_files.in_lines([op(dur=-2), without]), trace_files.compact([op(dur=-2), without])):
        assert sorted(read(trace_files.save(tmp_path, text)).ops.duration_ns.tolist()) == [-2000, 0]


def test_what_the_file_says_of_itself_before_and_after_its_events(tmp_path: Path) -> None:
    about = {
        "deviceProperties": [{"id": 0, "name": "A100", "totalGlobalMem": 1 << 35, "computeMajor": 8, "computeMinor": 0,
                              "numSms": 108, "warpSize": 32}],
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
    }  # fmt: skip
    text = trace_files.in_lines([op()], **about).rstrip("}") + ', "baseTimeNanoseconds": 1735632360000000000}'
    trace = read(trace_files.save(tmp_path, text))
    assert (trace.rank, trace.world_size, trace.epoch_offset_ns) == (3, 8, 1735632360000000000)
    assert (trace.devices[0].name, trace.devices[0].multiprocessors, trace.devices[0].minor) == (
        "A100",
        108,
        0,
    )


@pytest.mark.parametrize("damage", ["}", ', "with_flops": }', ', "baseTimeNanoseconds": 17, "cut'])
def test_of_what_is_damaged_in_it_the_whole_values_are_used_and_the_damage_is_said(
    tmp_path: Path, damage: str
) -> None:
    about = {"deviceProperties": [{"id": 0, "name": "A100"}], "distributedInfo": {"rank": 3, "world_size": 8}}
    text = trace_files.in_lines([op()], **about).replace(
        '"deviceProperties"', '"host": "a"b",\n "deviceProperties"'
    )
    trace = read(trace_files.save(tmp_path, text.rstrip("}") + damage))
    assert (trace.rank, trace.world_size, trace.devices[0].name) == (3, 8, "A100")
    assert trace.epoch_offset_ns == (17 if "17" in damage else 0)
    assert trace.skipped.because == "what it says of the recording is damaged"


@pytest.mark.parametrize("name", ["trace.rank5.0.json", "worker5.pt.trace.json", "rank-5.json"])
def test_the_rank_may_stand_in_the_name(tmp_path: Path, name: str) -> None:
    assert read(trace_files.save(tmp_path, trace_files.compact([op()]), name)).rank == 5


@pytest.mark.parametrize(
    "name", ["worker12_rank5.pt.trace.json", "gpu-worker3.lab.org_rank5.json", "worker-5.1660.pt.trace.json"]
)
def test_a_rank_in_the_name_goes_before_the_number_of_a_worker(tmp_path: Path, name: str) -> None:
    assert read(trace_files.save(tmp_path, trace_files.compact([op()]), name)).rank == 5


@pytest.mark.parametrize(
    "host", ["worker-3", "gpu-worker3.lab.org", "trainer-worker-3.jobs.svc.cluster.local", "worker3-gpu"]
)
def test_the_number_of_a_host_is_no_rank(tmp_path: Path, host: str) -> None:
    saved = trace_files.save(tmp_path, trace_files.compact([op()]), f"{host}_100.1660.pt.trace.json")
    assert read(saved).rank is None


# ---------------------------------------------------------------- damage


@pytest.mark.shows("damaged-trace")
@every_layout
@pytest.mark.parametrize("compressed", [False, True])
def test_cut_at_any_byte_the_whole_events_are_used_and_the_cut_is_said(
    tmp_path: Path, layout: Any, compressed: bool
) -> None:
    text = layout(MIXED).encode()
    data = gzip.compress(text) if compressed else text
    seen = set()
    for length in range(len(data) - 40, 100, -23):
        path = trace_files.save(tmp_path, b"")
        path.write_bytes(data[:length])
        try:
            trace = read(path)
        except NotATrace:
            continue
        seen.add(trace.events)
        assert trace.skipped.because is not None
        assert trace.skipped.is_cut
        assert len(trace.ops) <= 2
        assert len(trace.device) <= 3
    assert max(seen) >= len(MIXED) - 1


BROKEN = {
    "quotes": 'void f<"x", "y">(int)',
    "quotes before a comma": 'say "a", "b"',
    "a control character": "a\x07b",
    "a line end": "one\ntwo",
    "no UTF-8": "caf\udce9",
}


@pytest.mark.shows("damaged-trace")
@pytest.mark.parametrize("name", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("joined", ["lines", "one line"])
def test_names_that_are_no_valid_json_are_mended_and_counted(tmp_path: Path, name: str, joined: str) -> None:
    broken = kernel(Literal(f'"{name}"'), 200, 10, 5)
    text = trace_files.in_lines([*MIXED, broken, op(ts=300), broken | {"ts": 400}, op(ts=500)])
    trace = read(trace_files.save(tmp_path, text if joined == "lines" else text.replace("\n  ", " ")))
    assert len(trace.device) == 5
    assert len(trace.ops) == 4
    assert "2 events were not valid JSON" in (trace.skipped.because or "")
    assert name.replace("\udce9", "�") in trace.names


NOTHING = Literal("")


@pytest.mark.parametrize("joined", ["lines", "one line"])
def test_a_value_that_is_none_costs_no_other_argument_and_is_counted(tmp_path: Path, joined: str) -> None:
    copy = event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 180, 4, 0, 20,
                 {"memory bandwidth (GB/s)": Literal("inf"), "bytes": 4096, "stream": 20, "correlation": 9})  # fmt: skip
    product = op("aten::mm", 200, 5, **{"Input Dims": [[8, 16], [16, 4]], "Description": NOTHING})
    text = trace_files.in_lines([call(), copy, product, op(ts=300), kernel()])
    trace = read(trace_files.save(tmp_path, text if joined == "lines" else text.replace("\n  ", " ")))
    assert (trace.device.bytes[0], trace.device.correlation[0]) == (4096, 9)
    assert [found.shapes for found in trace.inputs] == [((8, 16), (16, 4))]
    assert "2 events were not valid JSON" in (trace.skipped.because or "")


def test_sizes_that_no_tensor_has_are_none(tmp_path: Path) -> None:
    product = op("aten::mm", 200, 5, **{"Input Dims": [[2**62, 2], [8, 4], [2**61, 2]]})
    trace = read(trace_files.save(tmp_path, trace_files.compact([product])))
    assert [found.shapes for found in trace.inputs] == [((), (8, 4), (2**61, 2))]


def test_events_without_usable_numbers_are_counted(tmp_path: Path) -> None:
    trace = read(
        trace_files.save(
            tmp_path, trace_files.compact([op(), op(ts="soon"), op(ts=None), op(ts=1e300), op(dur="x")])
        )
    )
    assert len(trace.ops) == 1
    assert trace.skipped.events == 4
    assert "4 events could not be read" in (trace.skipped.because or "")


@pytest.mark.shows("damaged-trace")
@every_layout
def test_an_event_that_cannot_be_used_is_lost_and_not_repaired_too(tmp_path: Path, layout: Any) -> None:
    events = [op(), kernel(), kernel(dur=math.nan), op("aten::mm", ts=math.inf), op(ts=300)]
    skipped = read(trace_files.save(tmp_path, layout(events))).skipped
    assert skipped.because == "2 events could not be read"
    assert (skipped.events, skipped.device_events, skipped.is_cut) == (2, 1, False)


BAD = {
    "empty": (b"", "is empty"),
    "text": (b"hello there", "it is not JSON"),
    "other JSON": (b'{"answer": 42}', "it has no traceEvents"),
    "other list": (b"[1, 2, 3]", "it is a list of something else"),
    "UTF-16": ("{}".encode("utf-16"), "is UTF-16 text"),
    "zip": (b"PK\x03\x04" + b"x" * 50, "a zip archive"),
    "no events": (b'{"traceEvents": []}', "does not hold any event"),
    "foreign events": (b'{"traceEvents": [{"ph": "X", "cat": "disk", "name": "a", "ts": 1, "dur": 2}]}', "torch.profiler"),
    "damaged gzip": (b"\x1f\x8b\x08" + b"\x00" * 30, "it is not JSON"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "said"), BAD.values(), ids=BAD.keys())
def test_what_is_no_trace_is_refused_in_one_sentence(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(NotATrace, match=said) as caught:
        read(trace_files.save(tmp_path, data))
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(NotATrace, match="cannot read"):
            read(path)


@pytest.mark.shows("huge-trace")
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_trace_above_the_cap_is_refused_with_the_flag_that_raises_it(tmp_path: Path, name: str) -> None:
    path = trace_files.save(tmp_path, trace_files.compact(MIXED * 100), name)
    with pytest.raises(TraceTooLarge) as caught:
        read(path, limit_bytes=10_000)
    assert "--limit-gb" in (caught.value.hint or "")


# ---------------------------------------------------------------- any events, any size of block

numbers = st.integers(0, 2**40) | st.floats(0, 2**40).map(lambda value: round(value, 3))
anything = st.one_of(
    st.builds(op, st.text(max_size=12), numbers, numbers, st.integers(0, 3)),
    st.builds(kernel, st.text(max_size=12), numbers, numbers, st.integers(0, 9), st.integers(0, 3)),
    st.builds(
        call, st.sampled_from(["cudaLaunchKernel", "cudaMemcpyAsync"]), numbers, numbers, st.integers(0, 9)
    ),
    st.sampled_from(MIXED),
)


@pytest.mark.shows("huge-trace")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.lists(anything, min_size=1, max_size=30), st.integers(20, 400))
def test_any_events_are_read_alike_whatever_the_layout_and_the_blocks(
    tmp_path: Path, events: list[trace_files.Event], block: int
) -> None:
    events = [*events, op()]
    with pytest.MonkeyPatch.context() as patch:
        expected = content(read(trace_files.save(tmp_path, trace_files.compact(events))))
        patch.setattr("perfdoctor.trace.parse.source.BLOCK_BYTES", block)
        for layout in LAYOUTS.values():
            assert content(read(trace_files.save(tmp_path, layout(events)))) == expected


def test_of_a_file_without_an_event_for_long_the_rest_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_module, "BARREN_BYTES", 4 << 20)
    event = b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}'
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents": [' + event + b"," + b" " * (16 << 20) + event + b"]}")
    trace = read(path)
    assert len(trace.ops) == 1
    assert "no event in 4 MB of it: the rest was not read" in trace.skipped.because


@pytest.mark.parametrize(
    ("grid", "blocks"),
    [
        pytest.param([25, 4, 1], 100, id="three-sizes"),
        pytest.param([2**31 - 1] * 3, 2**62, id="more-than-any-device-takes"),
        *((wrong, UNKNOWN) for wrong in (None, [], "8", [0, 1, 1], [1.5, 1, 1], [True, 1, 1], [-1, 1, 1])),
    ],
)
def test_a_grids_blocks_are_counted(tmp_path: Path, grid: Any, blocks: int) -> None:
    kernel = next(event for event in MIXED if event.get("cat") == "kernel")
    events = [{**kernel, "args": {**kernel["args"], "grid": grid}}]
    assert read(trace_files.save(tmp_path, trace_files.compact(events))).device.blocks.tolist() == [blocks]
