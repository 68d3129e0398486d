from __future__ import annotations

import json

import pytest

from perfdoctor.model.note import Note
from perfdoctor.runs import raw
from perfdoctor.runs import records as recorded
from perfdoctor.wire.batch_rows import BATCHES
from perfdoctor.wire.folded_stacks import END, header
from perfdoctor.wire.rows import RowLayout
from tests.support import jobs
from tests.support.jobs import COLLECTIVE_LAYOUT, MS, write_job
from tests.support.records import STEP_LAYOUT


def test_a_rank_that_ends_inside_a_collective_says_which(tmp_path):
    (folder,) = write_job(tmp_path, ranks=2, steps=5, inside=(1,)).folders
    ranks = recorded.read(folder).ranks
    assert ranks[0].now is None
    last_ns = int(ranks[1].steps["end_ns"][-1])
    assert ranks[1].now == {
        "op": "all_reduce",
        "begin_ns": last_ns,
        "step": 5,
        "sequence": 5,
        "bytes": 4_000_000,
        "group": 0,
    }


def test_a_rank_that_has_left_its_collective_is_in_none(tmp_path):
    (folder,) = write_job(tmp_path, ranks=1, steps=5, inside=(0,)).folders
    path = folder / "collectives.rank0.bin"
    data = bytearray(path.read_bytes())
    data[jobs.NOW_BYTE + jobs.NOW.size - 1] = 0
    path.write_bytes(data)
    assert recorded.read(folder).ranks[0].now is None


@pytest.mark.parametrize("value", [10, 0x22, 255])
def test_the_slot_for_now_is_no_part_of_the_header(tmp_path, value):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    path = folder / "collectives.rank0.bin"
    data = bytearray(path.read_bytes())
    data[jobs.NOW_BYTE : jobs.NOW_BYTE + jobs.NOW.size] = bytes([value]) * jobs.NOW.size
    path.write_bytes(data)
    rows = recorded.read(folder).ranks[0].collectives
    assert rows.dtype == COLLECTIVE_LAYOUT
    assert len(rows) == 5


def test_a_rank_without_collectives_has_none(tmp_path):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    (folder / "collectives.rank0.bin").unlink()
    own = recorded.read(folder).ranks[0]
    assert (own.collectives, own.now) == (None, None)


def test_processes_of_two_hosts_with_the_same_id_are_told_apart_by_rank(tmp_path):
    (folder,) = write_job(tmp_path, ranks=2, steps=5).folders
    lines = [json.loads(line) for line in (folder / "boot.jsonl").read_text().splitlines()]
    lines[1]["pid"], lines[1]["job"]["host"] = lines[0]["pid"], "elsewhere"
    (folder / "boot.jsonl").write_text("".join(json.dumps(line) + "\n" for line in reversed(lines)))
    assert recorded.read(folder).ranks[0].node == "node0"


def test_of_two_processes_of_one_rank_and_attempt_the_longer_is_shown(tmp_path):
    for count, seed in ((30, 0), (12, 1)):
        (folder,) = write_job(tmp_path, ranks=1, steps=count, seed=seed).folders
    records = recorded.read(folder)
    assert len(records.ranks[0].steps) == 30
    assert records.problems == (Note("several-processes", {"count": 2, "rank": 0}),)


def test_a_file_that_ends_between_its_blocks_is_whole_while_rows_are_followed_by_empty_ones(tmp_path):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    path = folder / "steps.rank0.bin"
    path.write_bytes(path.read_bytes()[: 4096 + 6 * STEP_LAYOUT.itemsize])
    records = recorded.read(folder)
    assert len(records.ranks[0].steps) == 5
    assert records.problems == ()


@pytest.mark.shows("damaged-run")
def test_a_copy_of_a_file_beside_it_is_not_read(tmp_path):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    (folder / "gpu0.jsonl").write_text('{"index": 0}\n')
    for name in ("gpu0 (copy).jsonl", "gpu0-old.jsonl", "steps.rank0 (copy).bin"):
        (folder / name).write_text('{"index": 7}\n')
    records = recorded.read(folder)
    assert dict(records.gpus) == {0: ({"index": 0},)}
    assert list(records.ranks) == [0]


@pytest.mark.shows("hostile-files")
def test_a_rank_beyond_the_size_of_any_job_is_none(tmp_path):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    (folder / f"events.rank{recorded.MOST_RANKS}.jsonl").touch()
    assert list(recorded.read(folder).ranks) == [0]


@pytest.mark.shows("killed")
def test_rows_end_where_the_writer_was_killed(tmp_path):
    planted = write_job(tmp_path, ranks=1, steps=50, stopped={0: 20})
    rows = recorded.read(planted.folders[0]).ranks[0].steps
    assert len(rows) == 20
    assert abs(int(rows["end_ns"][-1]) - int(planted.end_ns[19])) < 2 * MS


@pytest.mark.shows("damaged-run", "hostile-files")
@pytest.mark.parametrize(
    "columns",
    [
        [["end_ns", "<i8,2"]],
        [["end_ns", "O"]],
        [["end_ns", "<U8"]],
        [["other", "<i8"]],
        [["end_ns"]],
        [],
        5,
        None,
    ],
    ids=str,
)
def test_columns_that_are_none_of_a_rows_file_are_refused(tmp_path, columns):
    header = json.dumps({"kind": "steps", "row_bytes": 8, "columns": columns}).encode().ljust(4096)
    (tmp_path / "steps.rank0.bin").write_bytes(header + b"\x01" * 64)
    problems = []
    assert recorded.read_rows(tmp_path / "steps.rank0.bin", problems) is None
    assert [problem.slug for problem in problems] == ["file-left-out"]


def test_of_one_rank_nothing_of_the_others_is_read(tmp_path):
    (folder,) = write_job(tmp_path, ranks=3, steps=5).folders
    found = recorded.read_rank(folder, 1)
    assert list(found.ranks) == [1]
    assert len(found.ranks[1].steps) > 0
    assert found.host == recorded.read(folder).host


def test_lines_of_stacks_that_are_none_are_counted_and_left_out(tmp_path):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    good, bad = ["main;a;b 2", "", "main;a;b 3"], ["main;a 2\u00b2", "main;a " + "9" * 5000, "main;a -1", "a"]
    text = "\n".join(["# perfdoctor stacks source=py-spy", *good, *bad])
    (folder / "stacks.rank0.txt").write_text(text, encoding="utf-8")
    records = recorded.read(folder)
    assert records.ranks[0].stacks == ((("main", "a", "b"), 5),)
    assert records.problems == (Note("broken-lines", {"file": "stacks.rank0.txt", "count": 4}),)


@pytest.mark.parametrize("cut", [1, 6, 7, 12])
def test_a_part_of_stacks_without_its_end_is_left_out(tmp_path, cut):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    first, second = "main;a;b 2\n", "main;a;b 3\nmain;a;c 1\n"
    text = header("in-process", 20.0) + first + END + second + END
    (folder / "stacks.rank0.txt").write_text(text[:-cut], encoding="utf-8")
    records = recorded.read(folder)
    assert records.ranks[0].stacks == ((("main", "a", "b"), 2),)
    assert Note("cut-short", {"file": "stacks.rank0.txt"}) in records.problems


def test_stacks_of_a_version_that_wrote_no_ends_are_read(tmp_path):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    (folder / "stacks.rank0.txt").write_text(
        "# source=py-spy rate_hz=20 idle=1\nmain;a 2\n", encoding="utf-8"
    )
    records = recorded.read(folder)
    assert records.ranks[0].stacks == ((("main", "a"), 2),)
    assert records.problems == ()


def test_rows_without_a_declared_column_are_left_out(tmp_path):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    path = folder / "steps.rank0.bin"
    path.write_bytes(path.read_bytes().replace(b'"data_wait"', b'"data-wait"', 1))
    assert [problem.slug for problem in recorded.read(folder).problems] == ["file-left-out"]


def test_rows_from_before_a_column_was_added_are_read_without_it():
    older = RowLayout(BATCHES.kind, tuple(column for column in BATCHES.columns if column[0] != "file_bytes"))
    header = {"columns": older.described, "row_bytes": older.packer.size}
    layout = raw.layout_of(header, BATCHES.required)
    assert layout is not None
    assert layout.names == tuple(name for name, _ in older.columns)


@pytest.mark.parametrize(
    ("column", "value"),
    [("begin_ns", 2**63 - 1), ("forward", -(2**62)), ("samples", 2**60), ("begin_ns", -1)],
)
def test_rows_that_nobody_has_written_are_counted_and_left_out(tmp_path, column, value):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    path = folder / "steps.rank0.bin"
    data = bytearray(path.read_bytes())
    at = 4096 + 2 * STEP_LAYOUT.itemsize + STEP_LAYOUT.fields[column][1]
    data[at : at + 8] = value.to_bytes(8, "little", signed=True)
    path.write_bytes(data)
    records = recorded.read(folder)
    assert len(records.ranks[0].steps) == 4
    assert records.problems == (Note("broken-rows", {"file": path.name, "count": 1}),)


@pytest.mark.parametrize(
    "line",
    ['{"event": ["cost"]}', '{"event": {}}', '{"event": "cost", "a": ' + "[" * 300 + "]" * 300 + "}", "[]"],
)
def test_lines_that_are_no_events_are_counted_and_left_out(tmp_path, line):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    whole = recorded.read(folder)
    with (folder / "events.rank0.jsonl").open("a") as file:
        file.write(line + "\n")
    records = recorded.read(folder)
    assert records.ranks[0].events == whole.ranks[0].events
    assert records.problems == (Note("broken-lines", {"file": "events.rank0.jsonl", "count": 1}),)


@pytest.mark.parametrize("kind", ["no-driver", "old-driver", "held", "lost"])
def test_a_device_that_could_not_be_used_is_a_note_and_no_process(tmp_path, kind):
    (folder,) = write_job(tmp_path, ranks=1, steps=5).folders
    before = recorded.read(folder)
    with (folder / "boot.jsonl").open("a") as file:
        for told in (kind, kind, "melted"):
            file.write(json.dumps({"event": "device_error", "kind": told}) + "\n")
    after = recorded.read(folder)
    assert after.boots == before.boots
    assert [note for note in after.problems if note not in before.problems] == [Note(f"device-{kind}")]
