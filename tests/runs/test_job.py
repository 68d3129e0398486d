from __future__ import annotations

import json
import random
import shutil
import weakref

import numpy as np
import pytest

from perfdoctor.errors import NoSuchRun, PerfdoctorError
from perfdoctor.model.note import Note
from perfdoctor.runs import job as jobs
from perfdoctor.runs import records as recorded
from perfdoctor.runs.directory import read_json
from tests.support.jobs import BEGIN_NS, MS, write_job


def ranks_of(job):
    """All that the ranks recorded, which few tests need at once."""
    ranks = []
    job.read(ranks.append)
    return ranks


def read_through(job):
    return job.read(lambda records: None)


def test_each_rank_comes_with_what_it_recorded_and_where_it_ran(tmp_path):
    planted = write_job(tmp_path, ranks=4, nodes=2, steps=20, late=1, late_ms=5.0)
    job = jobs.join(planted.folders)
    assert (job.world, job.ranks, job.missing, job.node_size) == (4, (0, 1, 2, 3), (), 2)
    ranks = []
    together = job.read(ranks.append)
    for own in ranks:
        assert np.array_equal(own.collectives["wait_ns"], planted.exposed_ns[own.rank])
        assert len(own.steps) == 20
        assert own.node == f"node{own.rank // 2}"
        assert own.job["local_rank"] == own.rank % 2
        assert own.boot["pid"] == own.pid
        assert own.run["id"] == own.node
        assert {proc["rank"] for proc in own.host[0]["procs"]} == {own.rank // 2 * 2, own.rank // 2 * 2 + 1}
        assert [event["event"] for event in own.events] == ["cost", "optimizer", "end"]
    assert (together.world, together.notes) == (4, ())


def test_a_lone_process_is_a_job_of_one_rank(tmp_path):
    (folder,) = write_job(tmp_path, ranks=1, steps=5, job_id=None).folders
    job = jobs.of(folder)
    assert (job.world, job.ranks, job.notes) == (1, (0,), ())
    assert list(job.shown().ranks) == [0]


def test_a_folder_in_which_nothing_trained_is_a_job_without_ranks(tmp_path):
    (tmp_path / "run.json").write_text('{"schema": "perfdoctor.run/1"}')
    job = jobs.of(tmp_path)
    assert (job.world, job.ranks, list(ranks_of(job)), job.notes) == (1, (), [], ())
    assert job.shown().ranks == {}


def test_ranks_are_read_once_in_order_and_only_one_is_kept_in_memory(tmp_path, monkeypatch):
    planted = write_job(tmp_path, ranks=4, nodes=2, steps=5)
    job = jobs.join(planted.folders)
    opened, earlier = [], []
    lines = recorded.read_lines
    monkeypatch.setattr(
        recorded, "read_lines", lambda path, problems: opened.append(path.name) or lines(path, problems)
    )

    def take(records):
        assert [rank for rank, reference in earlier if reference() is not None] == []
        earlier.append((records.rank, weakref.ref(records)))

    job.read(take)
    assert [rank for rank, _ in earlier] == [0, 1, 2, 3]
    events = [f"events.rank{rank}.jsonl" for rank in range(4)]
    assert opened == ["host.jsonl", *events[:2], "host.jsonl", *events[2:]]


@pytest.mark.parametrize(("most", "seen"), [(2, 1), (1, 0)])
def test_the_ranks_of_a_small_job_come_with_their_stacks(most, seen, tmp_path, monkeypatch):
    (folder,) = write_job(tmp_path, ranks=2, steps=5).folders
    (folder / "stacks.rank1.txt").write_text("# source=py-spy rate_hz=10\nmain;train 3\n")
    monkeypatch.setattr(jobs, "SAMPLED_MAX", most)
    assert [len(own.stacks) for own in ranks_of(jobs.of(folder))] == [0, seen]


def test_nothing_is_read_any_more_once_the_notes_are_there(tmp_path):
    planted = write_job(tmp_path, ranks=3, steps=5)
    (planted.folders[0] / "events.rank1.jsonl").write_text("{broken\n")
    ranks = []
    notes = jobs.join(planted.folders).read(ranks.append).notes
    shutil.rmtree(planted.folders[0])
    assert notes == (Note("broken-lines", {"file": "events.rank1.jsonl", "count": 1}),)
    assert [len(own.events) for own in ranks] == [3, 0, 3]
    assert all(own.host for own in ranks)


def test_of_the_others_only_the_names_are_with_the_shown_rank(tmp_path):
    planted = write_job(tmp_path, ranks=3, steps=5)
    (planted.folders[0] / "stacks.rank0.txt").write_text("main;train 3\n")
    records = jobs.join(planted.folders).shown()
    assert records.ranks[0].stacks == ((("main", "train"), 3),)
    assert [own.steps is None for own in records.ranks.values()] == [False, True, True]


def test_the_shown_rank_is_the_lowest_that_trained(tmp_path):
    planted = write_job(tmp_path, ranks=4, nodes=2, steps=5, stopped={0: 1, 1: 1})
    for rank in (0, 1):
        (planted.folders[0] / f"steps.rank{rank}.bin").write_bytes(b"")
    records = jobs.join(planted.folders).shown()
    assert records.path == planted.folders[1]
    assert records.ranks[2].steps is not None


# ---------------------------------------------------------------- side by side


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_folders_of_one_job_side_by_side_are_found_from_each_of_them(tmp_path, asked):
    planted = write_job(tmp_path, ranks=6, nodes=3, steps=5)
    job = jobs.of(planted.folders[asked])
    assert job.ranks == tuple(range(6))
    assert job.shown().path == planted.folders[0]


@pytest.mark.shows("several-nodes")
def test_tasks_with_a_folder_each_are_joined(tmp_path):
    planted = write_job(tmp_path, ranks=5, steps=5, per_task=True, job_id="slurm 17.0")
    assert len(planted.folders) == 5
    assert jobs.of(planted.folders[3]).ranks == (0, 1, 2, 3, 4)


def test_other_jobs_and_the_same_job_at_another_time_are_left_apart(tmp_path):
    planted = write_job(tmp_path, ranks=4, nodes=2, steps=5)
    alien = write_job(tmp_path / "x", ranks=4, nodes=2, steps=5, job_id="none at other:29500")
    later = write_job(tmp_path / "y", ranks=4, nodes=2, steps=5, clock_errors_s=(3600.0,))
    for number, folder in enumerate((*alien.folders, *later.folders)):
        shutil.move(folder, tmp_path / f"beside{number}")
    assert jobs.siblings(planted.folders[0]) == [planted.folders[1]]


def test_of_two_starts_for_the_same_ranks_the_nearest_in_time_is_a_part(tmp_path):
    planted = write_job(tmp_path, ranks=4, nodes=2, steps=5)
    sooner = write_job(tmp_path / "x", ranks=4, nodes=2, steps=5, clock_errors_s=(-20.0,))
    shutil.move(sooner.folders[1], tmp_path / "a-sooner")
    assert jobs.siblings(planted.folders[0]) == [planted.folders[1]]


def test_a_run_that_holds_all_its_ranks_has_no_other_parts(tmp_path):
    first = write_job(tmp_path / "a", ranks=2, steps=5)
    second = write_job(tmp_path / "b", ranks=2, steps=5)
    shutil.move(second.folders[0], tmp_path / "a" / "another")
    assert jobs.siblings(first.folders[0]) == []


def test_a_lost_run_lasts_until_its_last_sample(tmp_path):
    planted = write_job(tmp_path, ranks=4, nodes=2, steps=5, exit_code=None)
    for folder in planted.folders:
        run = json.loads((folder / "run.json").read_text()) | {"end_ns": None}
        (folder / "run.json").write_text(json.dumps(run))
    job = jobs.of(planted.folders[1])
    assert job.ranks == (0, 1, 2, 3)
    assert read_through(job).notes == (Note("unended-runs", {"names": ["node1", "node0"]}),)


def test_runs_are_listed_by_job_lowest_rank_first(tmp_path):
    tasks = write_job(tmp_path / "a", ranks=3, steps=5, per_task=True, job_id="slurm 17.0").folders
    (alone,) = write_job(tmp_path / "b", ranks=1, steps=5, job_id=None).folders
    (both,) = write_job(tmp_path / "c", ranks=2, steps=5).folders
    broken = tmp_path / "broken"
    listed = [tasks[2], alone, broken, tasks[0], both, tasks[1]]
    runs = {path: read_json(path / "run.json") or {} for path in listed}
    assert jobs.grouped(runs) == [[*tasks], [alone], [broken], [both]]


def test_of_runs_that_ran_alone_only_the_times_are_looked_at(tmp_path, monkeypatch):
    folders = [write_job(tmp_path / name, ranks=2, steps=5).folders[0] for name in "abcd"]
    times = [(1000.0, 10), (1200.0, 10), (1250.0, 10), (5000.0, 10)]
    runs = {
        path: {"started_epoch_s": began_s, "begin_ns": 0, "end_ns": int(lasted_s * 1e9)}
        for path, (began_s, lasted_s) in zip(folders, times, strict=True)
    }
    looked = []
    monkeypatch.setattr(jobs, "_names_a_job", lambda path: looked.append(path) or False)
    assert jobs.grouped(runs) == [[path] for path in folders]
    assert sorted(looked) == folders[1:3]


def test_a_task_that_has_ended_is_taken_alone_and_the_first_one_tells_of_all(tmp_path):
    tasks = write_job(tmp_path, ranks=3, steps=5, per_task=True, job_id="slurm 17.0").folders
    assert jobs.of(tasks[0], leading=True).ranks == (0, 1, 2)
    part = jobs.of(tasks[2], leading=True)
    assert (part.ranks, part.missing, part.part) == ((2,), (), True)
    assert part.notes == (Note("part-of-job", {"ranks": (2,), "world": 3, "folder": str(tasks[2])}),)


def test_a_node_that_has_ended_tells_of_all_unless_another_leads(tmp_path):
    nodes = write_job(tmp_path, ranks=4, nodes=2, steps=5).folders
    assert jobs.of(nodes[1], leading=True).part
    shutil.rmtree(nodes[0])
    alone = jobs.of(nodes[1], leading=True)
    assert (alone.part, alone.ranks, alone.missing) == (False, (2, 3), (0, 1))


# ---------------------------------------------------------------- broken or missing


def test_a_folder_that_is_not_there_is_said_and_the_others_are_joined(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planted = write_job(tmp_path, ranks=4, nodes=2, steps=5)
    job = jobs.join([planted.folders[0], tmp_path / "gone"])
    assert (job.ranks, job.missing) == ((0, 1), (2, 3))
    assert read_through(job).notes == (
        Note("unread-folder", {"error": f"no run at {tmp_path / 'gone'}"}),
        Note(
            "nodes-not-here",
            {"nodes": [1], "ranks": [2, 3], "join": "perfdoctor report node0 ITS_FOLDER"},
        ),
    )


def test_without_any_folder_the_first_error_is_raised(tmp_path):
    with pytest.raises(NoSuchRun, match="no run at"):
        jobs.join([tmp_path / "gone", tmp_path / "lost"])


def test_ranks_that_recorded_nothing_are_told_from_those_whose_folder_is_elsewhere(tmp_path):
    planted = write_job(tmp_path, ranks=4, steps=5, per_task=True, mute=(1,), missing=(3,))
    run = json.loads((planted.folders[1] / "run.json").read_text()) | {"exit_code": 7, "outcome": "failed"}
    (planted.folders[1] / "run.json").write_text(json.dumps(run))
    job = jobs.of(planted.folders[0])
    first, second = planted.folders[:2]
    assert job.missing == (1, 3)
    assert [failure["rank"] for failure in job.failures] == [1]
    assert read_through(job).notes == (
        "rank 1 failed, with exit code 7",
        Note("recorded-nothing", {"ranks": [1]}),
        Note("ranks-elsewhere", {"ranks": [3], "join": f"perfdoctor report {first} {second} ... ITS_FOLDER"}),
    )


def test_who_failed_is_known_by_rank_from_what_the_launcher_saw(tmp_path):
    (folder,) = write_job(tmp_path, ranks=2, steps=5, exit_code=1).folders
    line = {"event": "rank_failed", "pid": 100_001, "local_rank": 1, "exitcode": -9, "signal": 9}
    (folder / "agent.jsonl").write_text(json.dumps(line) + "\n{broken\n")
    job = jobs.of(folder)
    assert job.failures == ({"rank": 1, "attempt": 0, "host": "node0", **line},)
    assert read_through(job).exits == {1: "killed by signal 9"}
    assert job.shown().failures == job.failures


def test_tasks_that_failed_are_in_the_order_in_which_they_did(tmp_path):
    tasks = write_job(tmp_path, ranks=3, steps=5, per_task=True, exit_code=1).folders
    for folder, seconds in zip(tasks, (3, 1, 2), strict=True):
        run = json.loads((folder / "run.json").read_text())
        more = {"end_ns": run["begin_ns"] + seconds * 10**9, "exit_code": -seconds}
        (folder / "run.json").write_text(json.dumps(run | more))
    failures = jobs.of(tasks[0]).failures
    assert [(failure["rank"], failure["exitcode"]) for failure in failures] == [(1, -1), (2, -2), (0, -3)]


def test_unequal_step_counts_are_said_but_not_one_step_more(tmp_path):
    near = write_job(tmp_path / "a", ranks=4, steps=30, stopped={2: 29})
    far = write_job(tmp_path / "b", ranks=4, steps=30, stopped={2: 11, 3: 12})
    assert read_through(jobs.of(near.folders[0])).notes == ()
    assert read_through(jobs.of(far.folders[0])).notes == (
        Note("unequal-steps", {"low": 11, "high": 30, "ranks": [2, 3]}),
    )


def test_a_file_cut_short_is_used_as_far_as_it_goes_and_said(tmp_path):
    planted = write_job(tmp_path, ranks=4, nodes=2, steps=30)
    cut = planted.folders[1] / "steps.rank3.bin"
    cut.write_bytes(cut.read_bytes()[: 4096 + 10 * 133 + 40])
    assert read_through(jobs.join(planted.folders)).notes == (
        Note("unequal-steps", {"low": 10, "high": 30, "ranks": [3]}),
        Note("of-folder", {"folder": "node1", "problem": Note("cut-short", {"file": "steps.rank3.bin"})}),
    )


def test_a_file_without_a_header_costs_its_rank_only(tmp_path):
    planted = write_job(tmp_path, ranks=3, steps=5)
    (planted.folders[0] / "steps.rank1.bin").write_bytes(b"\x00" * 5000)
    ranks = []
    notes = jobs.of(planted.folders[0]).read(ranks.append).notes
    assert [own.steps is None for own in ranks] == [False, True, False]
    assert Note("file-left-out", {"file": "steps.rank1.bin", "why": "has no readable header"}) in notes


def test_many_problems_of_one_folder_are_counted(tmp_path):
    planted = write_job(tmp_path, ranks=20, steps=5)
    for rank in range(20):
        (planted.folders[0] / f"collectives.rank{rank}.bin").write_bytes(b"")
    notes = read_through(jobs.of(planted.folders[0])).notes
    assert len(notes) == jobs.PROBLEMS + 1
    assert notes[-1] == Note("more-problems", {"count": 14})


def test_different_versions_are_said_with_their_ranks(tmp_path):
    planted = write_job(tmp_path, ranks=4, nodes=2, steps=5, versions=("0.1.0", "0.2.0"))
    assert read_through(jobs.join(planted.folders)).notes == (
        Note("different-versions", {"what": "perfdoctor", "versions": {"0.1.0": [0, 1], "0.2.0": [2, 3]}}),
    )


def test_records_that_are_not_what_they_should_be_do_not_stop_the_others(tmp_path):
    planted = write_job(tmp_path, ranks=2, steps=5)
    odd = [
        {"pid": 100_000, "job": 7},
        {"pid": "x", "job": {"rank": "no"}},
        5,
        {"job": {"world": -3, "id": 4}},
    ]
    boots = (planted.folders[0] / "boot.jsonl").read_text()
    (planted.folders[0] / "boot.jsonl").write_text("\n".join(map(json.dumps, odd)) + "\n" + boots)
    (planted.folders[0] / "run.json").write_text('{"schema": "perfdoctor.run/1", "versions": 3, "host": []}')
    assert [own.rank for own in ranks_of(jobs.of(planted.folders[0]))] == [0, 1]


def test_a_job_that_recorded_nothing_at_all_is_told_by_who_started(tmp_path):
    (folder,) = write_job(tmp_path, ranks=2, steps=5, mute=(0, 1)).folders
    job = jobs.of(folder)
    assert (job.world, job.ranks, job.missing) == (2, (), (0, 1))
    assert job.notes == (Note("recorded-nothing", {"ranks": [0, 1]}),)


@pytest.mark.parametrize("world", [1637778490087, 2**63])
@pytest.mark.parametrize("trained", [True, False])
def test_a_job_of_more_ranks_than_can_be_counted_is_one_whose_size_was_not_told(tmp_path, trained, world):
    (folder,) = write_job(tmp_path, ranks=2, steps=5).folders
    boots = [json.loads(line) for line in (folder / "boot.jsonl").read_text().splitlines()]
    for boot in boots:
        boot["job"]["world"] = world
    (folder / "boot.jsonl").write_text("".join(json.dumps(boot) + "\n" for boot in boots))
    if not trained:
        for file in folder.glob("*.rank*"):
            file.unlink()
    job = jobs.of(folder)
    assert (job.world, job.missing) == ((2, ()) if trained else (1, ()))


def test_a_million_ranks_that_are_elsewhere_are_told_in_seconds(tmp_path):
    (folder,) = write_job(tmp_path, ranks=2, steps=5).folders
    text = (folder / "boot.jsonl").read_text().replace('"world": 2', f'"world": {recorded.MOST_RANKS}')
    (folder / "boot.jsonl").write_text(text)
    (note,) = jobs.of(folder).notes
    assert note.slug == "nodes-not-here"
    assert len(note.values["ranks"]) == recorded.MOST_RANKS - 2


def test_a_folder_that_may_not_be_read_is_an_error_with_a_hint(tmp_path, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(recorded, "look", refused)
    with pytest.raises(PerfdoctorError, match="may not be read: Permission denied") as caught:
        jobs.of(tmp_path)
    assert caught.value.hint == "check the folder's owner"


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_broken_the_rest_is_read(tmp_path, seed):
    chosen = random.Random(seed)
    planted = write_job(tmp_path, ranks=4, nodes=2, steps=10, inside=(2,))
    files = sorted(file for folder in planted.folders for file in folder.iterdir())
    for file in chosen.sample(files, 5):
        data = bytearray(file.read_bytes()[: chosen.randrange(1, 9000)])
        for _ in range(20):
            data[chosen.randrange(len(data))] = chosen.choice(b'0,:<>[]{}"iufOS\n\xff')
        file.write_bytes(data)
    whole = [folder for folder in planted.folders if json_of(folder / "run.json") is not None]
    job = jobs.join(planted.folders)
    ranks = []
    notes = job.read(ranks.append).notes
    assert {own.rank for own in ranks} == set(job.ranks) <= set(range(4))
    assert len(job.folders) >= len(whole)
    assert job.shown().problems or notes


def json_of(path):
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        return None


# ---------------------------------------------------------------- several starts


def test_the_last_attempt_that_trained_is_shown_and_the_others_named(tmp_path):
    write_job(tmp_path, ranks=4, nodes=2, steps=30)
    later = write_job(tmp_path, ranks=4, nodes=2, steps=12, attempt=1, begin_ns=BEGIN_NS + 60_000 * MS)
    job = jobs.join(later.folders)
    assert job.attempt == 1
    assert {len(own.steps) for own in ranks_of(job)} == {12}
    assert job.notes == (Note("started-again", {"times": 2, "shown": 1, "others": {0: 30}}),)
    assert recorded.read(later.folders[0]).problems == job.notes


def test_an_attempt_that_never_trained_is_not_shown(tmp_path):
    write_job(tmp_path, ranks=2, steps=30)
    (folder,) = write_job(tmp_path, ranks=2, attempt=1, mute=(0, 1)).folders
    job = jobs.of(folder)
    assert job.attempt == 0
    assert {len(own.steps) for own in ranks_of(job)} == {30}
    assert job.notes[0].values["others"] == {1: 0}


def test_a_rank_that_went_to_another_node_is_where_it_was_started_last(tmp_path):
    first = write_job(tmp_path / "a", ranks=4, nodes=2, steps=30)
    again = write_job(tmp_path / "b", ranks=4, nodes=2, steps=12, begin_ns=BEGIN_NS + 60_000 * MS)
    job = jobs.join([*first.folders[1:], *again.folders])
    assert {len(own.steps) for own in ranks_of(job)} == {12}
    assert Note("earlier-start", {"folder": "node1", "ranks": [2, 3]}) in job.notes


def test_ranks_beyond_those_of_the_last_start_are_left_out(tmp_path):
    first = write_job(tmp_path / "a", ranks=4, nodes=2, steps=30)
    again = write_job(tmp_path / "b", ranks=2, steps=12, begin_ns=BEGIN_NS + 60_000 * MS)
    job = jobs.join([again.folders[0], first.folders[1]])
    assert (job.world, job.ranks, job.missing) == (2, (0, 1), ())


def test_two_folders_with_the_same_ranks_of_the_same_time_are_refused(tmp_path):
    one = write_job(tmp_path / "a", ranks=2, steps=5)
    other = write_job(tmp_path / "b", ranks=2, steps=5)
    with pytest.raises(PerfdoctorError, match="both hold ranks 0–1: they are not two parts of one job"):
        jobs.join([*one.folders, *other.folders])


def test_a_folder_given_twice_is_one(tmp_path):
    (folder,) = write_job(tmp_path, ranks=2, steps=5).folders
    assert jobs.join([folder, folder / ".." / folder.name]).ranks == (0, 1)
