from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from perfdoctor.model.trial import Setting, Variant
from perfdoctor.probe.trial.tweak import PATH
from perfdoctor.render.documents import trial as trial_document
from perfdoctor.trials import trial_file
from tests.support import old_runs, trial_results
from tests.support.jobs import write_job
from tests.support.paths import ROOT

pytestmark = pytest.mark.process


def test_the_newest_run_is_shown_without_a_name(saved, perfdoctor):
    saved("20260102-030405-old", started_epoch_s=1.0)
    saved("20260103-030405-new", started_epoch_s=2.0)
    shown = perfdoctor("report")
    assert shown.returncode == 0
    assert "20260103-030405-new" in shown.stdout


def test_a_run_is_found_by_id_by_path_and_in_another_folder(saved, perfdoctor):
    path = saved("20260102-030405-a")
    saved("20260102-030405-b", parent="elsewhere")
    assert "030405-a" in perfdoctor("report", "20260102-030405-a").stdout
    assert "030405-a" in perfdoctor("report", str(path)).stdout
    assert "030405-b" in perfdoctor("report", "--out", "elsewhere").stdout
    assert "030405-b" in perfdoctor("report", "--out", "elsewhere", "20260102-030405-b").stdout


def test_json_is_the_public_document_and_kept_beside_the_run(saved, perfdoctor):
    path = saved()
    printed = json.loads(perfdoctor("report", "--json").stdout)
    assert printed["schema"] == "perfdoctor.report/1"
    assert printed == json.loads((path / "report.json").read_text())


def test_markdown_is_the_same_report_for_an_issue(saved, perfdoctor):
    saved()
    shown = perfdoctor("report", "--markdown")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("## perfdoctor  `")
    assert "### No verdict" in shown.stdout
    assert "- no watched process imported torch" in shown.stdout


def test_torch_is_not_imported(saved, folder):
    saved()
    code = (
        "import sys\n"
        "from perfdoctor.cli import app\n"
        "try: app.start(['report'])\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": root},
    )
    assert shown.stderr == "False\n"


def alien(folder):
    (folder / "alien").mkdir()
    (folder / "alien" / "notes.txt").write_text("nothing of ours")
    return "alien"


def empty(folder):
    (folder / "empty").mkdir()
    return "empty"


def truncated(folder):
    (folder / "truncated").mkdir()
    (folder / "truncated" / "run.json").write_text('{"schema": "perfdoctor.run/1", "comm')
    return "truncated"


def of_another_tool(folder):
    (folder / "other").mkdir()
    (folder / "other" / "run.json").write_text('{"schema": "tracker/3"}')
    return "other"


def a_file(folder):
    (folder / "file").write_text("x")
    return "file"


def missing(folder):
    return "missing"


@pytest.mark.shows("damaged-run")
@pytest.mark.parametrize(
    "make", [alien, empty, truncated, of_another_tool, a_file, missing], ids=lambda make: make.__name__
)
def test_what_is_no_run_gets_one_sentence_and_what_to_type_next(folder, perfdoctor, make):
    shown = perfdoctor("report", make(folder))
    assert shown.returncode == 2
    assert shown.stdout == ""
    sentence, hint = shown.stderr.splitlines()
    assert sentence.startswith("perfdoctor: ")
    assert hint.strip().endswith("perfdoctor runs")


def test_no_runs_at_all_names_the_command_that_makes_one_and_makes_no_folder(folder, perfdoctor):
    shown = perfdoctor("report")
    assert shown.returncode == 2
    assert "perfdoctor run train.py" in shown.stderr
    assert not list(folder.iterdir())


@pytest.mark.shows("closed-output")
def test_a_reader_that_goes_away_is_no_error(saved, folder, perfdoctor):
    saved()
    read, write = os.pipe()
    os.close(read)
    try:
        shown = perfdoctor("report", capture_output=False, stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert shown.returncode == 0
    assert shown.stderr == ""


@pytest.mark.shows("plain-terminal", "odd-names")
def test_an_output_that_knows_ascii_only_gets_ascii(saved, perfdoctor):
    saved(command=["python", "größe.py"])
    shown = perfdoctor("report", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert shown.returncode == 0
    assert shown.stdout.isascii()
    assert "gr\\xf6" in shown.stdout


def test_the_page_keeps_to_the_width_asked_for(saved, perfdoctor):
    saved(command=["python", "train.py", "--name", "x" * 300])
    narrow = perfdoctor("report", env=os.environ | {"COLUMNS": "60"}).stdout
    assert max(map(len, narrow.splitlines()[:-2])) <= 60


@pytest.fixture
def tried(folder):
    """Keeps a trial."""

    def keep(name: str, *verdicts, parent: str = ".perfdoctor/trials"):
        path = folder / parent / name
        path.mkdir(parents=True)
        trial = trial_results.trial(*verdicts, path=str(path))
        trial_file.keep(trial, trial_document.document(trial))
        return path

    return keep


def test_trials_shows_the_newest_trial_and_lists_those_before(tried, perfdoctor):
    tried("20260102-030405-train", trial_results.FASTER)
    broken = tried("20260103-030405-train", trial_results.SLOWER)
    (broken / trial_file.FILE).write_text("{")
    tried("20260104-030405-train", trial_results.UNCLEAR)
    shown = perfdoctor("report", "--trials")
    assert shown.returncode == 0, shown.stderr
    page, earlier = shown.stdout.split("Earlier ones: perfdoctor report --trials ID")
    assert "No difference seen" in page
    assert ".perfdoctor/trials/20260104-030405-train" in page
    assert "20260102-030405-train" in earlier
    assert "--workers 4: faster: 1.9×" in earlier
    assert "20260103" not in shown.stdout
    assert "1 trial left out: trial.json cannot be read" in earlier


def retyped(path, change):
    """Damages what is kept of a trial, without making it another kind of file."""
    document = json.loads((path / trial_file.FILE).read_text())
    change(document)
    (path / trial_file.FILE).write_text(json.dumps(document))


def test_a_damaged_trial_keeps_no_other_and_no_report_from_being_shown(tried, saved, perfdoctor):
    saved()
    tried("20260102-030405-train", trial_results.FASTER)
    broken = tried("20260104-030405-train", trial_results.UNCLEAR)
    retyped(broken, lambda document: document["original"]["executions"][0].update(step_s="x", losses=[[]]))
    shown = perfdoctor("report", "--trials")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Faster" in shown.stdout
    assert "1 trial left out" in shown.stdout
    assert perfdoctor("report").returncode == 0


def test_a_trial_is_found_by_id_by_path_and_in_another_folder(tried, perfdoctor):
    path = tried("20260102-030405-a", trial_results.FASTER)
    tried("20260103-030405-b", trial_results.SLOWER)
    tried("20260104-030405-c", trial_results.FAILED, parent="kept")
    assert "Faster" in perfdoctor("report", "--trials", path.name).stdout
    assert "Faster" in perfdoctor("report", "--trials", str(path)).stdout
    assert "Failed" in perfdoctor("report", "--trials", "--out", "kept").stdout


def test_a_trial_as_json_is_the_document_that_was_kept(tried, perfdoctor):
    path = tried("20260102-030405-a", trial_results.FASTER)
    printed = json.loads(perfdoctor("report", "--trials", "--json").stdout)
    assert printed == json.loads((path / trial_file.FILE).read_text())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "no trials yet"),
        (("missing",), "no trial called missing"),
        (("alien",), "no readable trial in alien"),
    ],
)
def test_what_is_no_trial_gets_one_sentence_and_what_to_type_next(folder, perfdoctor, words, sentence):
    alien(folder)
    shown = perfdoctor("report", "--trials", *words)
    assert shown.returncode == 2
    assert shown.stderr.splitlines()[0] == f"perfdoctor: {sentence}"
    assert "perfdoctor" in shown.stderr.splitlines()[1]


def test_the_folders_of_a_jobs_nodes_are_joined_in_any_order(folder, perfdoctor):
    planted = write_job(folder / "copied", ranks=4, nodes=2, steps=60, late=3, late_ms=5.0)
    for node in planted.folders:  # copied to places of their own: nothing lies beside them
        (folder / node.name).mkdir()
        node.rename(folder / node.name / "run")
    shown = perfdoctor("report", "--json", "node1/run", "node0/run")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["run"]["path"] == "node0/run"
    assert document["ranks"]["nodes"] == ["node0", "node1"]
    assert document["ranks"]["notes"] == []
    assert json.loads((folder / "node0" / "run" / "report.json").read_text()) == document


def test_nodes_that_cannot_be_read_are_named_in_the_report_of_the_others(folder, perfdoctor):
    write_job(folder / ".perfdoctor" / "runs", ranks=4, nodes=2, steps=60)
    shown = perfdoctor("report", "--json", "node0", "node7")
    assert shown.returncode == 0, shown.stderr
    notes = json.loads(shown.stdout)["ranks"]["notes"]
    assert "no run at node7: its ranks are missing here" in notes
    assert any("the folder of node 1 is not here (ranks 2–3)" in note for note in notes)


def test_without_a_single_node_that_can_be_read_there_is_no_report(folder, perfdoctor):
    shown = perfdoctor("report", "node8", "node9")
    assert shown.returncode == 2
    assert shown.stderr.splitlines()[0] == "perfdoctor: no run at node8"


def test_parts_that_lie_side_by_side_are_one_report_whichever_is_named(folder, perfdoctor):
    planted = write_job(folder / ".perfdoctor" / "runs", ranks=3, steps=60, per_task=True, job_id="slurm 7.0")
    for task in ("task2", "task0"):
        shown = perfdoctor("report", "--json", task)
        assert json.loads(shown.stdout)["run"]["path"] == str(planted.folders[0])


def test_what_a_trial_measured_on_kept_batches_is_shown_with_the_verdict(tried, saved, perfdoctor):
    replays = Setting("replay-batches", ("--replay-batches",), {}, PATH)
    tried("20260103-030405-train", replace(trial_results.FASTER, variant=Variant((replays,))))
    tried("20260104-030405-train", trial_results.FASTER)
    saved(command=list(trial_results.trial().command), cwd=trial_results.trial().cwd)
    measured = "Measured with batches kept in memory: 1.9× as fast (1.8× to 2.0×)."
    assert measured in perfdoctor("report").stdout
    saved("20260105-030405-other", command=["python", "other.py"])
    assert measured not in perfdoctor("report", "20260105-030405-other").stdout


def test_a_trial_of_the_same_command_is_in_the_html_report_however_its_interpreter_was_typed(
    tried, saved, folder, perfdoctor
):
    tried("20260104-030405-train", trial_results.FASTER)
    saved(command=["/usr/bin/python3.11", *trial_results.trial().command[1:]], cwd=trial_results.trial().cwd)
    assert perfdoctor("report", "--html", "report.html").returncode == 0
    page = (folder / "report.html").read_text()
    assert 'id="trials"' in page
    assert "faster: 1.9× (1.8–2.0×)" in page


def test_trials_kept_beside_the_folder_of_the_run_are_found_from_elsewhere(tried, saved, folder, perfdoctor):
    replays = Setting("replay-batches", ("--replay-batches",), {}, PATH)
    tried("20260104-030405-train", replace(trial_results.FASTER, variant=Variant((replays,))))
    trial = trial_results.trial()
    run = saved(command=list(trial.command), cwd=trial.cwd)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    assert "Measured with batches kept in memory" in perfdoctor("report", str(run), cwd=elsewhere).stdout


def test_a_trial_is_an_html_file_too(tried, folder, perfdoctor):
    tried("20260104-030405-train", trial_results.FASTER)
    shown = perfdoctor("report", "--trials", "--html", "trial.html")
    assert (shown.returncode, shown.stdout) == (0, ""), shown.stderr
    page = (folder / "trial.html").read_text()
    assert "Faster: 1.9× (1.8–2.0×)" in page
    assert "<script" not in page


def test_what_to_try_names_the_run_where_it_is_not_the_newest(saved, folder, perfdoctor):
    run = old_runs.unpacked("loader", folder / ".perfdoctor" / "runs")
    wide = os.environ | {"COLUMNS": "200"}
    named = f"perfdoctor try --workers 2 --run {run.name}"
    told = perfdoctor("report", "--html", "r.html")
    assert told.returncode == 0, told.stderr
    assert named in (folder / "r.html").read_text()
    newest = perfdoctor("report", env=wide).stdout
    assert "perfdoctor try --workers 2" in newest
    assert named not in newest
    saved("29990101-000000-other", started_epoch_s=4e9)
    assert named in perfdoctor("report", run.name, env=wide).stdout
    assert named in perfdoctor("report", run.name, "--markdown").stdout


def test_two_trials_at_a_time_are_not_shown(folder, perfdoctor):
    shown = perfdoctor("report", "--trials", "one", "other")
    assert shown.returncode == 2
    assert shown.stderr.splitlines()[0] == "perfdoctor: only one trial can be shown at a time"


def test_html_is_written_whole_and_says_what_half_a_run_lacks(saved, folder, perfdoctor):
    path = saved()
    (path / "host.jsonl").write_text('{"t_ns": 1500000000, "procs": [{"pi')
    shown = perfdoctor("report", "--html", "report.html")
    assert (shown.returncode, shown.stdout) == (0, "")
    assert shown.stderr == "perfdoctor: the report is in report.html\n"
    page = (folder / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>")
    assert "No step was seen" in page
    assert "host.jsonl" in page
    assert [entry.name for entry in folder.iterdir() if entry.name.startswith("report")] == ["report.html"]


@pytest.mark.parametrize("place", ["missing/report.html", ".", "run.json/report.html", "pipe"])
def test_html_that_cannot_be_written_is_one_sentence_and_leaves_nothing(saved, folder, perfdoctor, place):
    saved()
    (folder / "run.json").write_text("a file")
    os.mkfifo(folder / "pipe")  # as a device: never to be replaced by a file
    before = sorted(folder.rglob("*"))
    shown = perfdoctor("report", "--html", place)
    assert shown.returncode == 2
    sentence, hint = shown.stderr.splitlines()
    assert sentence.startswith(f"perfdoctor: {place} ")
    assert "--html report.html" in hint
    assert sorted(folder.rglob("*")) == before
    assert (folder / "pipe").is_fifo()


def test_a_full_disk_leaves_the_html_report_that_was_there(saved, folder, perfdoctor):
    saved()
    (folder / "report.html").write_text("of yesterday")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
    limit += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    root = str(ROOT)
    code = f"import sys; sys.path.insert(0, {root!r}); {limit} from perfdoctor.cli import main; main()"
    shown = subprocess.run(
        [sys.executable, "-c", code, "report", "--html", "report.html"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert shown.returncode == 2, shown.stderr
    assert "report.html cannot be written" in shown.stderr
    assert (folder / "report.html").read_text() == "of yesterday"
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize(
    "words",
    [
        ("--open",),
        ("--html", "a.html", "--json"),
        ("--html", "a.html", "--markdown"),
        ("--html", "a.html", "--all"),
        ("--html", "a.html", "--lines", "7"),
        ("--json", "--markdown"),
        ("--json", "--price", "3.20"),
        ("--trials", "--price", "3.20"),
        ("--trials", "--all"),
        ("--trials", "--lines", "7"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_said_before_anything_is_read(folder, perfdoctor, words):
    shown = perfdoctor("report", *words)
    assert shown.returncode == 2
    assert len(shown.stderr.splitlines()) == 2
    assert not list(folder.iterdir())


def test_the_page_alone_costs_no_template_engine(saved, folder):
    saved()
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from perfdoctor.cli import app\n"
        "try: app.start(['report'])\n"
        "except SystemExit: pass\n"
        "print({'jinja2', 'webbrowser'} & set(sys.modules), file=sys.stderr)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert shown.stderr == "set()\n"


@pytest.mark.parametrize("typed", ["3.20", "3.20/h"])
def test_a_price_says_what_the_run_cost(saved, perfdoctor, typed):
    saved()
    assert "At 3.20 an hour: this run " in perfdoctor("report", "--price", typed).stdout


@pytest.mark.parametrize("typed", ["much", "-1", "inf", "nan", ""])
def test_what_is_no_price_is_refused(saved, perfdoctor, typed):
    saved()
    done = perfdoctor("report", "--price", typed)
    assert done.returncode == 2
    assert "--price 3.20/h" in done.stderr


def test_two_runs_stand_beside_each_other_in_the_html_report(folder, perfdoctor):
    for name, steps in (("a", 20), ("b", 40)):
        write_job(folder / name, ranks=1, steps=steps, phases={"data_wait": 2.0 if name == "a" else 8.0})
        stacks = folder / name / "node0" / "stacks.rank0.txt"
        stacks.write_text("# source=py-spy rate_hz=20 idle=1\nmain;main (/home/ada/train.py:7) 50\n")
    told = perfdoctor("report", "b/node0", "--html", "r.html", "--against", "a/node0")
    assert told.returncode == 0, told.stderr
    page = (folder / "r.html").read_text()
    assert 'id="difference"' in page
    assert "50 stack samples before and 50 in this run" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--against", "RUN"], "--against shows what --html writes"),
        (["--html", "r.html", "--against", "RUN"], "no run called RUN"),
        (["--html", "r.html", "--trials", "--against", "RUN"], "--against compares runs"),
    ],
)
def test_another_run_is_named_where_it_can_be_drawn(saved, folder, perfdoctor, words, said):
    saved()
    told = perfdoctor("report", *words)
    assert (told.returncode, told.stdout) == (2, "")
    assert said in told.stderr
    assert not (folder / "r.html").exists()
