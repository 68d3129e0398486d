import gzip

import pytest

from perfdoctor.runs import directory


def test_packed_traces_replace_the_plain_ones(tmp_path):
    plain = tmp_path / "trace.rank0.0.json"
    plain.write_bytes(b'{"traceEvents": []}' * 1000)
    text = plain.read_bytes()
    directory.pack_traces(tmp_path)
    (packed,) = tmp_path.iterdir()
    assert packed.name == "trace.rank0.0.json.gz"
    assert gzip.decompress(packed.read_bytes()) == text
    assert packed.stat().st_size < len(text) / 5
    assert packed.stat().st_mode & 0o777 == 0o600


def test_a_trace_that_cannot_be_packed_stays_as_it_is(tmp_path, monkeypatch):
    plain = tmp_path / "trace.rank0.0.json"
    plain.write_text("{}")
    monkeypatch.setattr(
        directory.os, "replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "disk full"))
    )
    with pytest.raises(OSError, match="disk full"):
        directory.pack_traces(tmp_path)
    assert plain.read_text() == "{}"
    assert not (tmp_path / "trace.rank0.0.json.gz").exists()


def test_drafts_of_a_killed_script_are_removed_and_a_second_packing_does_nothing(tmp_path):
    (tmp_path / "trace.rank0.0.json.part").write_text('{"trace')
    (tmp_path / "trace.rank1.0.json").write_text("{}")
    directory.pack_traces(tmp_path)
    directory.pack_traces(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.rank1.0.json.gz"]
