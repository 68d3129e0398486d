from __future__ import annotations

import shutil

import pytest

from perfdoctor import reporting
from perfdoctor.model.concluded import Verdict
from perfdoctor.render.documents import report as document
from perfdoctor.render.notes import all_worded
from perfdoctor.watch.machine import contention, history
from tests.support import nets
from tests.support.histories import tried
from tests.support.jobs import write_job
from tests.support.old_runs import unpacked


def notes(report):
    """What is said of the shown rank and of the job."""
    return all_worded([*report.notes, *(report.job.notes if report.job is not None else ())])


def test_damage_to_the_shown_rank_is_told_once(tmp_path):
    (folder,) = write_job(tmp_path, ranks=2, steps=60).folders
    cut = folder / "steps.rank0.bin"
    cut.write_bytes(cut.read_bytes()[: 4096 + 50 * 133 + 7])
    told = [note for note in notes(reporting.judge(folder)) if "cut short" in note]
    assert told == ["steps.rank0.bin is cut short: its end is missing"]


@pytest.mark.parametrize("lost", ["events.rank0.jsonl", "boot.jsonl"])
def test_without_what_a_rank_told_of_itself_nothing_is_judged(tmp_path, lost):
    (folder,) = write_job(tmp_path, ranks=1, steps=400).folders
    assert reporting.judge(folder).diagnosis.verdict is not Verdict.INCONCLUSIVE
    (folder / lost).write_text("{cut\n")
    found = reporting.judge(folder)
    assert found.diagnosis.verdict is Verdict.INCONCLUSIVE
    assert found.diagnosis.because[0] == "a part of what was recorded is lost"
    assert f"{lost} holds nothing usable, so rank 0 cannot be judged" in notes(found)
    assert found.findings == ()


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


@pytest.fixture
def just_ended(tmp_path, monkeypatch):
    """A run that waits for data, and the report that it gets on the machine where it has just ended."""
    monkeypatch.setenv(history.VARIABLE, str(tmp_path / "history"))
    monkeypatch.setattr(contention, "note", lambda records, tell: None)
    (tmp_path / "runs").mkdir()
    path = unpacked("loader", tmp_path / "runs")
    return path, lambda: reporting.judge(path, before_measuring=lambda sentence: None)


def ranges(report):
    return {finding.id: (finding.gain.low, finding.gain.high) for finding in report.findings}


def test_ten_trials_of_a_kind_change_its_ranges_and_the_note_says_so(just_ended):
    path, judge = just_ended
    before = reporting.judge(path)
    history.add([tried(number, measured=1.5) for number in range(10)])  # each within what the model said
    after = judge()
    told = (
        "ranges of tweaks that act on data come from 10 trials on the machine of this run: perfdoctor history"
    )
    assert told in all_worded(after.notes)
    assert {finding.id: finding.gain.likely for finding in after.findings} == {
        finding.id: finding.gain.likely for finding in before.findings
    }
    (before_low, before_high), (low, high) = (ranges(each)["too-few-workers"] for each in (before, after))
    assert before_low < low < high < before_high
    assert ranges(before)["slow-dataset-code"] == ranges(after)["slow-dataset-code"]  # code is not tried


def test_nine_change_nothing(just_ended):
    path, judge = just_ended
    before = reporting.judge(path)
    history.add([tried(number, measured=1.5) for number in range(9)])
    assert judge() == before
    assert not (path / "ranges.json").exists()


def test_the_report_of_a_run_stays_as_it_was_whatever_is_tried_later_and_wherever_it_is_read(just_ended):
    path, judge = just_ended
    history.add([tried(number, measured=1.5) for number in range(10)])
    first = document.dumps(judge())
    history.add([tried(number, measured=9.0) for number in range(10, 20)])
    assert document.dumps(judge()) == document.dumps(reporting.judge(path)) == first
    history.clear()
    assert document.dumps(reporting.judge(path)) == first


def test_a_run_that_ended_before_there_were_ten_is_judged_as_on_any_machine(just_ended):
    path, _ = just_ended
    before = document.dumps(reporting.judge(path))
    history.add([tried(number, measured=1.5) for number in range(10)])
    assert document.dumps(reporting.judge(path)) == before


@pytest.mark.parametrize("damaged", ["history", "run"])
def test_where_ranges_cannot_be_read_or_kept_the_report_is_that_of_any_machine(
    just_ended, monkeypatch, damaged
):
    path, judge = just_ended
    before = reporting.judge(path)
    history.add([tried(number, measured=1.5) for number in range(10)])
    if damaged == "run":
        (path / "ranges.json.part").mkdir()  # a draft that nobody can write
    else:
        monkeypatch.setenv(history.VARIABLE, str(path / "run.json"))
    assert judge() == before
