"""What lies in a run folder in place of a file is said, and is neither waited for nor read without end."""

from __future__ import annotations

import os

import pytest

from perfdoctor.runs import job, records
from perfdoctor.runs.regular_file import content
from tests.support.jobs import write_job


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def loop(path):
    path.symlink_to(path.name)


def folder(path):
    path.mkdir()


@pytest.mark.parametrize("make", [pipe, device, loop, folder], ids=lambda make: make.__name__)
def test_what_is_no_file_is_an_error_of_reading(tmp_path, make):
    make(tmp_path / "file")
    with pytest.raises(OSError, match=r"regular file|symbolic links"):
        content(tmp_path / "file")


@pytest.mark.shows("hostile-files", "damaged-run")
@pytest.mark.parametrize("make", [pipe, device, loop, folder], ids=lambda make: make.__name__)
def test_a_run_is_read_without_what_is_no_file(tmp_path, make):
    (run,) = write_job(tmp_path, ranks=2, steps=5).folders
    known = {file.name for file in run.iterdir()} | {"run.json", "stacks.rank0.txt", "agent.jsonl"}
    known |= {"gpu0.jsonl", "sharing.json", "stalled.jsonl", "loader.rank0.bin"}
    for name in known - {"boot.jsonl"}:
        (run / name).unlink(missing_ok=True)
        make(run / name)
    slugs = {problem.slug for problem in records.read(run).problems}
    assert slugs == {"no-run-json", "unread-file"}
    assert job.of(run).read(lambda rank: None).world == 2
