from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.support.jobs import write_job

pytestmark = pytest.mark.process
STACKS = "# source=py-spy rate_hz=20 idle=1\nmain;main (/home/ada/train.py:7) 12\n"


@pytest.fixture
def run(folder):
    """A run of one rank with 20 steps and a stack."""
    write_job(folder, ranks=1, steps=20)
    (folder / "node0" / "stacks.rank0.txt").write_text(STACKS)
    return folder / "node0"


def test_texts_go_to_stdout_or_whole_into_a_file(run, perfdoctor, folder):
    shown = perfdoctor("export", str(run), "--format", "folded")
    assert shown.stdout == "main;other;main (/home/ada/train.py:7) 12\n"
    told = perfdoctor("export", str(run), "--format", "speedscope", "--to", "s.json")
    assert (told.returncode, told.stdout) == (0, "")
    assert json.loads((folder / "s.json").read_text())["profiles"][0]["weights"] == [pytest.approx(0.6)]
    assert len(perfdoctor("export", str(run), "--format", "csv").stdout.splitlines()) > 10
    assert perfdoctor("export", str(run), "--format", "openmetrics").stdout.endswith("# EOF\n")
    same = perfdoctor("report", str(run), "--markdown").stdout
    assert perfdoctor("export", str(run), "--format", "markdown").stdout == same
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize("what", ["steps", "samples", "stacks", "findings"])
def test_parquet_holds_the_rows_of_csv(run, perfdoctor, folder, what):
    reader = pytest.importorskip("pyarrow.parquet")
    assert perfdoctor("export", str(run), "--format", "parquet", "--what", what, "--to", "t").returncode == 0
    header, *rows = perfdoctor("export", str(run), "--format", "csv", "--what", what).stdout.splitlines()
    table = reader.read_table(folder / "t")
    assert (",".join(table.schema.names), table.num_rows) == (header, len(rows))


def test_a_run_given_as_the_folder_here_has_its_name(run, saved, perfdoctor):
    told = perfdoctor("export", ".", "--format", "openmetrics", cwd=run).stdout
    assert 'run="node0"' in told
    assert told == perfdoctor("export", str(run), "--format", "openmetrics").stdout
    empty = saved("an empty one")
    told = perfdoctor("export", ".", "--format", "tensorboard", "--to", "tb", cwd=empty).stderr
    assert "an empty one has no steps to write" in told
    assert f"perfdoctor report '{empty}'" in told


def test_stacks_of_two_runs_are_counted_beside_each_other(run, perfdoctor):
    told = perfdoctor("export", str(run), "--format", "folded", "--against", str(run))
    assert told.stdout == "main;other;main (/home/ada/train.py:7) 12 12\n"


def test_tensorboard_gets_one_file_of_each_run_in_a_folder_of_its_own(run, perfdoctor, folder):
    shutil.copytree(run, folder / "began in the same second")
    for name in ("node0", "began in the same second", "node0"):
        assert perfdoctor("export", name, "--format", "tensorboard", "--to", "tb").returncode == 0
    first, second = sorted((folder / "tb").rglob("*tfevents*"))
    assert (first.parent.name, second.parent.name) == ("began in the same second", "node0")
    assert b"brain.Event:2" in second.read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["node7", "--format", "csv"], "no run called node7"),
        (["node0", "--format", "tensorboard"], "perfdoctor export node0 --format tensorboard --to"),
        (["node0", "--format", "parquet"], "is no text for a terminal"),
        (
            ["node0", "--format", "csv", "--against", "node0"],
            "see two runs drawn: perfdoctor report node0 --html FILE --against node0",
        ),
        (["node0", "--format", "folded", "--against", "node7"], "no run called node7"),
        (["node0", "--format", "folded", "--what", "findings"], "export node0 --format csv --what findings"),
        (["node0", "--format", "csv", "--to", "nowhere/x.csv"], "there is no folder"),
        (["node0", "--format", "csv", "--to", "node0"], "is not a file"),
        (["node0", "--format", "perfetto", "--to", "t.json"], "trace"),
        (["node0", "--format", "xml"], "xml"),
    ],
)
def test_what_cannot_be_written_is_said_with_what_to_type(run, perfdoctor, folder, words, said):
    before = sorted(os.listdir(folder))
    told = perfdoctor("export", *words)
    assert (told.returncode, told.stdout) == (2, "")
    assert said in told.stderr
    assert "Traceback" not in told.stderr
    assert sorted(os.listdir(folder)) == before


def test_a_run_without_stacks_or_steps_says_so(saved, perfdoctor):
    saved("20260102-030405-a")
    for form, said in (("folded", "no stack samples"), ("speedscope", "no stack samples")):
        told = perfdoctor("export", "--format", form)
        assert (told.returncode, told.stdout) == (2, "")
        assert said in told.stderr
    assert "no steps" in perfdoctor("export", "--format", "tensorboard", "--to", "tb").stderr
    assert perfdoctor("export", "--format", "csv").stdout.count("\n") == 1
