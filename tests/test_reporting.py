from __future__ import annotations

import shutil

import pytest

from perfdoctor import reporting
from perfdoctor.render.notes import all_worded
from tests.support import nets
from tests.support.jobs import write_job


def notes(report):
    """What is said of the shown rank and of the job."""
    return all_worded([*report.notes, *(report.job.notes if report.job is not None else ())])


def test_damage_to_the_shown_rank_is_told_once(tmp_path):
    (folder,) = write_job(tmp_path, ranks=2, steps=60).folders
    cut = folder / "steps.rank0.bin"
    cut.write_bytes(cut.read_bytes()[: 4096 + 50 * 133 + 7])
    told = [note for note in notes(reporting.judge(folder)) if "cut short" in note]
    assert told == ["steps.rank0.bin is cut short: its end is missing"]


def test_a_rank_that_left_no_record_is_told_where_the_others_are_too_few_to_be_compared(tmp_path):
    (folder,) = write_job(tmp_path, ranks=2, steps=60, mute=(1,)).folders
    assert "rank 1 started but recorded nothing" in notes(reporting.judge(folder))


def test_a_task_tells_of_itself_when_it_ends_and_of_all_when_it_is_asked(tmp_path):
    tasks = write_job(tmp_path, ranks=3, steps=60, per_task=True, job_id="slurm 7.0").folders
    alone = reporting.judge(tasks[1], leading_only=True)
    assert alone.path == str(tasks[1])
    assert any(f"perfdoctor report {tasks[1]}" in note for note in notes(alone))
    assert reporting.judge(tasks[1]).path == str(tasks[0])


def test_the_report_of_a_node_alone_names_the_other(tmp_path):
    nodes = write_job(tmp_path, ranks=4, nodes=2, steps=60).folders
    shutil.rmtree(nodes[0])
    found = reporting.judge(nodes[1])
    assert found.path == str(nodes[1])
    assert any("the folder of node 0 is not here (ranks 0–1)" in note for note in notes(found))


def test_what_was_measured_of_the_link_stands_beside_the_exchange(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder,) = write_job(tmp_path, ranks=2, steps=60).folders
    assert reporting.judge(folder).job.gradient_sync.link_bytes_per_s is None
    lines = [nets.size(4, 1e-4), nets.size(1024, 1e-4), nets.size(2**20, 2e-3)]
    nets.kept(tmp_path / ".perfdoctor" / "nets" / "1", *lines, {"event": "end", "cut": None})
    assert reporting.judge(folder).job.gradient_sync.link_bytes_per_s == pytest.approx(
        2**20 / 1.9e-3, rel=0.1
    )
