from __future__ import annotations

import gzip
import json

import orjson
import pytest

from perfdoctor.errors import NotATrace, PerfdoctorError
from perfdoctor.trace import perfetto
from perfdoctor.trace.perfetto import PID, Counter, Slice, merge
from tests.support import trace_files

EVENTS = [trace_files.op(ts=100 + 10 * number, name=f"aten::op{number}") for number in range(50)]
MARKS = [
    Slice("steps", "step", 1_700_000_000_123_456_789, 1_700_000_000_223_456_789),
    Slice("steps", "step", 1_700_000_000_223_456_789, 1_700_000_000_323_456_789),
    Slice("loader", "wait", 1_700_000_000_123_456_789, 1_700_000_000_133_456_789),
    Counter("cores", 1_700_000_000_123_456_789, 1.5),
]
UNLIMITED = 10**9


def merged(folder, text, marks=MARKS, name="t.json", out="out.json"):
    """The original's events and ours, from the written file."""
    target = folder / out
    merge(trace_files.save(folder, text, name), marks, target, UNLIMITED)
    data = target.read_bytes()
    document = orjson.loads(gzip.decompress(data) if out.endswith(".gz") else data)
    events = document if isinstance(document, list) else document["traceEvents"]
    own = [event for event in events if event["pid"] == PID]
    return [event for event in events if event["pid"] != PID], own


WRITERS = [
    trace_files.in_lines,
    lambda events: trace_files.in_lines(events, trace_files.of_2026),
    trace_files.compact,
    trace_files.pretty,
    trace_files.bare,
]


@pytest.mark.parametrize("write", WRITERS, ids=["of-2022", "of-2026", "compact", "pretty", "bare"])
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
@pytest.mark.parametrize("out", ["out.json", "out.json.gz"])
def test_every_original_event_is_untouched_and_ours_are_beside_them(tmp_path, write, name, out):
    theirs, ours = merged(tmp_path, write(EVENTS), name=name, out=out)
    assert theirs == EVENTS
    assert [event["name"] for event in ours if event["ph"] == "X"] == ["step", "step", "wait"]
    assert not list(tmp_path.glob("*.part"))


def test_what_stands_around_the_events_is_kept(tmp_path):
    path = trace_files.save(
        tmp_path, trace_files.in_lines(EVENTS, deviceProperties=[{"id": 0, "name": "A100"}])
    )
    merge(path, MARKS, tmp_path / "out.json", UNLIMITED)
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["deviceProperties"] == [{"id": 0, "name": "A100"}]
    assert document["traceName"] == "t"


def test_nanoseconds_since_the_epoch_keep_all_their_digits(tmp_path):
    merge(trace_files.save(tmp_path, trace_files.in_lines(EVENTS)), MARKS, tmp_path / "out.json", UNLIMITED)
    assert '"ts":1700000000123456.789' in (tmp_path / "out.json").read_text()


def test_lanes_and_their_process_have_names(tmp_path):
    _, ours = merged(tmp_path, trace_files.in_lines(EVENTS))
    names = [(event["name"], event["args"].get("name")) for event in ours if event["ph"] == "M"]
    assert ("process_name", "perfdoctor") in names
    assert [name for kind, name in names if kind == "thread_name"] == ["steps", "loader"]
    lanes = {event["name"]: event["tid"] for event in ours if event["ph"] == "X"}
    assert lanes["step"] != lanes["wait"]


def test_counters_are_numbers(tmp_path):
    _, ours = merged(tmp_path, trace_files.in_lines(EVENTS))
    assert [event["args"] for event in ours if event["ph"] == "C"] == [{"value": 1.5}]


@pytest.mark.parametrize("events", [[], EVENTS], ids=["empty", "full"])
def test_without_marks_or_events_the_commas_are_right(tmp_path, events):
    theirs, _ = merged(tmp_path, trace_files.bare(events), marks=[])
    assert theirs == events


@pytest.mark.parametrize("write", WRITERS, ids=["of-2022", "of-2026", "compact", "pretty", "bare"])
@pytest.mark.parametrize("left", [0.999, 0.95, 0.6, 0.31, 0.1])
def test_a_file_that_was_cut_off_is_closed_behind_its_last_whole_event(tmp_path, write, left):
    text = write(EVENTS)
    theirs, ours = merged(tmp_path, text[: int(left * len(text))])
    assert 0 < len(theirs) <= len(EVENTS)
    assert theirs == EVENTS[: len(theirs)]
    assert ours


def test_a_file_that_was_cut_behind_its_events_loses_only_what_it_says_of_itself(tmp_path):
    text = trace_files.in_lines(EVENTS)[:-4]
    theirs, ours = merged(tmp_path, text)
    assert theirs == EVENTS
    assert ours


def test_a_compressed_file_that_was_cut_short_is_closed_too(tmp_path):
    packed = gzip.compress(trace_files.in_lines(EVENTS * 40).encode())
    path = tmp_path / "t.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    merge(path, MARKS, tmp_path / "out.json", UNLIMITED)
    assert orjson.loads((tmp_path / "out.json").read_bytes())["traceEvents"]


def test_an_events_own_nested_arguments_do_not_end_the_file_early(tmp_path):
    odd = [*EVENTS, trace_files.op(name="last", args={"name": 1, "nested": [{"ph": "X"}, {"ts": 1}]})]
    theirs, _ = merged(tmp_path, trace_files.compact(odd))
    assert theirs == odd


def test_what_is_longer_than_one_block_is_streamed(tmp_path, monkeypatch):
    monkeypatch.setattr(perfetto, "TAIL_BYTES", 2_000)
    monkeypatch.setattr("perfdoctor.trace.parse.source.BLOCK_BYTES", 512)
    theirs, _ = merged(tmp_path, trace_files.in_lines(EVENTS * 20))
    assert theirs == EVENTS * 20


def test_what_a_file_says_of_itself_may_be_longer_than_what_is_held_back(tmp_path, monkeypatch):
    monkeypatch.setattr(perfetto, "TAIL_BYTES", 500)
    monkeypatch.setattr("perfdoctor.trace.parse.source.BLOCK_BYTES", 256)
    text = trace_files.in_lines(EVENTS).removesuffix("}") + ', "notes": ' + json.dumps("x" * 5_000) + "}"
    theirs, _ = merged(tmp_path, text)
    assert theirs == EVENTS


@pytest.mark.parametrize("text", ["no json", '{"a": 1}', ""])
def test_what_is_no_trace_leaves_nothing_behind(tmp_path, text):
    path = trace_files.save(tmp_path, text)
    with pytest.raises(NotATrace):
        merge(path, MARKS, tmp_path / "out.json", UNLIMITED)
    assert list(tmp_path.iterdir()) == [path]


def test_an_older_file_stays_until_the_new_one_is_whole(tmp_path):
    (tmp_path / "out.json").write_text("old")
    with pytest.raises(NotATrace):
        merge(trace_files.save(tmp_path, "no json"), MARKS, tmp_path / "out.json", UNLIMITED)
    assert (tmp_path / "out.json").read_text() == "old"


def test_the_trace_itself_is_never_overwritten(tmp_path):
    path = trace_files.save(tmp_path, trace_files.in_lines(EVENTS))
    with pytest.raises(PerfdoctorError, match="is the trace itself"):
        merge(path, MARKS, path, UNLIMITED)
    assert json.loads(path.read_text())["traceEvents"] == EVENTS


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    path = trace_files.save(tmp_path, trace_files.in_lines(EVENTS))
    with pytest.raises(PerfdoctorError, match="cannot write"):
        merge(path, MARKS, tmp_path / "missing" / "out.json", UNLIMITED)
