from __future__ import annotations

from collections import namedtuple

from perfdoctor.recorded import RankRecords
from perfdoctor.trace import windows


def test_a_window_that_cannot_be_read_is_a_note_and_the_rest_is_used(tmp_path):
    window = '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'
    (tmp_path / "trace.rank0.0.json").write_text("cut")
    (tmp_path / "trace.rank0.1.json").write_text(window)
    (tmp_path / "trace.rank0.1.json.gz.part").write_text("half")
    kinds = [
        {"event": "window", "index": 0, "kind": "plain"},
        {"event": "window", "index": 1, "kind": "shapes"},
    ]
    records = namedtuple("Records", "ranks")({0: RankRecords(0, None, None, tuple(kinds))})
    measured, notes = windows.measured(tmp_path, records)
    assert list(measured) == ["shapes"]
    assert len(notes) == 1
    assert "could not be read" in notes[0]
