"""What an execution leaves behind: nothing; and how protection is chosen where the system permits less."""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfdoctor.trials.sandbox import protect
from perfdoctor.trials.sandbox.protect import Protection, _Check
from perfdoctor.watch import launch

pytestmark = pytest.mark.process

TIMEOUT_S = 60
WAYS = {
    "overlay": Protection("overlay", ""),
    "overlay-in-memory": Protection("overlay", "", memory_bytes=50_000_000),
    "landlock": Protection("redirected", "", landlocked=True),
    "redirected": Protection("redirected", ""),
}
ROTATES_CHECKPOINTS = """
import pathlib
for step in range(10, 15):
    pathlib.Path(f"ckpt/step{step}.pt").write_text(f"weights {step}")
    saved = sorted(pathlib.Path("ckpt").glob("step*.pt"), key=lambda path: int(path.stem[4:]))
    for old in saved[:-2]:
        old.unlink()
print(sorted(path.name for path in pathlib.Path("ckpt").glob("step*")), open("ckpt/step14.pt").read())
"""
APPENDS_TO_A_LOG = """
import csv
for step in range(3):
    with open("log.csv", "a", newline="") as file:
        csv.writer(file).writerow([step, 0.5])
print(open("log.csv").read().split())
"""
CLEARS_ITS_OUTPUT = """
import os, shutil
shutil.rmtree("ckpt", ignore_errors=True)
os.makedirs("ckpt")
print(os.listdir("ckpt"))
open("ckpt/new.pt", "w").write("new")
print(os.listdir("ckpt"), open("ckpt/new.pt").read())
"""
REPLACES_IN_PLACE = """
import os, tempfile
with tempfile.NamedTemporaryFile("w", dir="ckpt", delete=False) as file:
    file.write("best")
os.replace(file.name, "ckpt/step1.pt")
os.symlink("step1.pt", "ckpt/latest.pt.new")
os.rename("ckpt/latest.pt.new", "ckpt/latest.pt")
print(open("ckpt/latest.pt").read(), sorted(os.listdir("ckpt")))
"""
SCRIPTS = {
    "rotates-checkpoints": (ROTATES_CHECKPOINTS, "['step13.pt', 'step14.pt'] weights 14\n"),
    "appends-to-a-log": (APPENDS_TO_A_LOG, "['step,loss', '0,0.5', '1,0.5', '2,0.5']\n"),
    "clears-its-output": (CLEARS_ITS_OUTPUT, "[]\n['new.pt'] new\n"),
    "replaces-in-place": (REPLACES_IN_PLACE, "best ['latest.pt', 'step0.pt', 'step1.pt', 'step2.pt']\n"),
}


@pytest.fixture(scope="module")
def permitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("permitted")
    check = _Check(folder, folder)
    overlay = check.overlay(0) is not None
    return {
        "overlay": overlay,
        "overlay-in-memory": overlay,
        "landlock": check.landlock(),
        "redirected": True,
    }


@pytest.fixture
def work(tmp_path):
    work = tmp_path / "work"
    (work / "ckpt").mkdir(parents=True)
    for step in range(3):
        (work / "ckpt" / f"step{step}.pt").write_text(f"weights {step}")
    (work / "ckpt" / "latest.pt").symlink_to("step2.pt")
    (work / "log.csv").write_text("step,loss\n")
    os.utime(work / "log.csv", (1, 1))
    return work


def tree(folder):
    """All that lies below a folder: {path: (kind and mode, time, content)}."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        found[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_ino, content)
    return found


def execute(protection, work, code):
    """Run a script as a trial does; returns what it printed."""
    execution = work.parent / "trial" / "execution"
    prepared = protection.prepare(execution)
    execution.mkdir(parents=True, exist_ok=True)
    (execution / "config.json").write_text(json.dumps({"protect": dict(prepared.options)}))
    (work / "train.py").write_text(code)
    before = tree(work)
    done = subprocess.run(
        [*prepared.before, sys.executable, "train.py"],
        cwd=work,
        env={**launch.environment(os.environ, execution), **prepared.environ},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert tree(work) == before
    assert protection.clear(execution) >= 0
    assert sorted(os.listdir(execution)) == ["config.json", "started.jsonl"]
    assert tree(work) == before
    return done.stdout


@pytest.mark.shows("trial-leaves-files")
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("way", WAYS)
def test_an_execution_changes_nothing_and_sees_its_own_changes(way, script, work, permitted):
    if not permitted[way]:
        pytest.skip(f"{way} is not permitted here")
    code, printed = SCRIPTS[script]
    assert execute(WAYS[way], work, code) == printed
    assert execute(WAYS[way], work, code) == printed, "the second one begins like the first"


def test_the_bytes_that_an_execution_wrote_are_told(work, permitted):
    if not permitted["overlay"]:
        pytest.skip("the system permits no overlay")
    execution = work.parent / "trial" / "execution"
    execution.mkdir(parents=True)
    words = [
        *WAYS["overlay"].prepare(execution).before,
        "dd",
        "if=/dev/zero",
        "of=new",
        "bs=1000000",
        "count=3",
    ]
    subprocess.run(words, cwd=work, check=True, stderr=subprocess.DEVNULL)
    assert 3_000_000 <= WAYS["overlay"].clear(execution) < 3_200_000


def test_what_a_killed_execution_left_is_removed_before_the_next(work, permitted):
    if not permitted["overlay"]:
        pytest.skip("the system permits no overlay")
    execution = work.parent / "trial" / "execution"
    execution.mkdir(parents=True)
    words = [*WAYS["overlay"].prepare(execution).before, "sh", "-c", "rm log.csv; echo > new; kill -9 $$"]
    assert subprocess.run(words, cwd=work, check=False).returncode == -9
    assert (execution / "view" / "layers").is_dir()
    WAYS["overlay"].prepare(execution)
    assert os.listdir(execution) == []
    assert (work / "log.csv").exists()


def test_tidying_goes_into_closed_folders_and_follows_no_links(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    closed = tmp_path / "execution" / "diverted" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").write_bytes(b"x" * 5000)
    (closed / "link").symlink_to(outside)
    closed.chmod(0)
    assert WAYS["redirected"].clear(tmp_path / "execution") >= 5000
    assert os.listdir(tmp_path / "execution") == []
    assert outside.stat().st_mode & 0o777 == 0o500


def test_temporary_files_have_a_short_path_of_their_own_that_is_removed(tmp_path):
    """Sockets are made there: their paths may take 108 bytes (unix(7)), 31 of them multiprocessing's."""
    execution = tmp_path / ("a long name " * 5) / "execution"
    execution.parent.mkdir()
    prepared = WAYS["redirected"].prepare(execution)
    temporary = prepared.environ["TMPDIR"]
    assert len(Path(temporary).name) < 30
    assert prepared.environ["WANDB_DIR"] == temporary
    assert temporary in prepared.options["real"]
    os.makedirs(os.path.join(temporary, "left"))
    WAYS["redirected"].clear(execution)
    assert not os.path.exists(temporary)


# ---------------------------------------------------------------- choosing


@pytest.fixture
def allow(monkeypatch):
    """Have the system permit some ways only."""

    def allow(disk=False, memory=False, landlock=False):
        monkeypatch.setattr(
            _Check, "overlay", lambda self, size: ("/ro",) if (memory if size else disk) else None
        )
        monkeypatch.setattr(_Check, "landlock", lambda self: landlock)

    return allow


def test_here_the_best_way_that_works_is_chosen(tmp_path, permitted):
    chosen = protect.choose(tmp_path / "trial", tmp_path)
    assert (chosen.how == "overlay") == permitted["overlay"]
    assert os.listdir(tmp_path / "trial") == [protect.RUNNING]
    assert os.listdir(tmp_path) == ["trial"]


def test_an_overlay_on_disk_comes_first(tmp_path, allow):
    allow(disk=True, memory=True, landlock=True)
    chosen = protect.choose(tmp_path, tmp_path)
    assert (chosen.how, chosen.memory_bytes) == ("overlay", 0)
    assert chosen.sentence.endswith("are gone; it could not write to /ro")


def test_a_folder_that_cannot_hold_an_overlay_has_it_in_memory(tmp_path, allow):
    allow(memory=True, landlock=True)
    chosen = protect.choose(tmp_path, tmp_path)
    assert chosen.memory_bytes > 0
    assert "GB, in memory" in chosen.sentence
    assert chosen.prepare(tmp_path / "execution").before[-1] == str(chosen.memory_bytes)


def test_without_an_overlay_writes_are_redirected_under_landlock(tmp_path, allow):
    allow(landlock=True)
    chosen = protect.choose(tmp_path, tmp_path, python=False)
    assert (chosen.how, chosen.landlocked) == ("redirected", True)
    assert "the kernel refused all others" in chosen.sentence
    prepared = chosen.prepare(tmp_path / "execution")
    assert "landlock" in prepared.before
    assert prepared.options["fenced"]


def test_without_landlock_writes_of_python_are_redirected(tmp_path, allow):
    allow()
    chosen = protect.choose(tmp_path, tmp_path)
    assert (chosen.how, chosen.landlocked) == ("redirected", False)
    assert "compiled code could still write" in chosen.sentence
    assert "redirect" in chosen.prepare(tmp_path / "execution").before


def test_a_command_that_is_not_pythons_is_then_unprotected(tmp_path, allow):
    allow()
    chosen = protect.choose(tmp_path, tmp_path, python=False)
    assert chosen.how == "none"
    assert chosen.sentence.startswith("files cannot be protected")
    prepared = chosen.prepare(tmp_path / "execution")
    assert prepared.before == ()
    assert prepared.environ["WANDB_MODE"] == "offline"


def test_a_folder_on_a_shared_file_system_needs_an_overlay(tmp_path, allow):
    allow(landlock=True)
    assert protect.choose(tmp_path, Path("/dev/shm")).how == "none"


def test_an_overlay_that_lets_changes_out_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(protect, "START", ("sh", "-c", 'shift 3; exec "$@"', "sh"))  # no overlay at all
    monkeypatch.setattr(protect, "MEMORY_SHARE", 0)
    chosen = protect.choose(tmp_path / "trial", tmp_path)
    assert (chosen.how, chosen.landlocked) == ("redirected", False)
    assert os.listdir(tmp_path / "trial") == [protect.RUNNING]
    assert os.listdir(tmp_path) == ["trial"]


@pytest.mark.parametrize("running", [True, False])
def test_a_trial_clears_up_after_those_that_were_killed_and_no_others(tmp_path, allow, running):
    allow(disk=True)
    left = tmp_path / "trials" / "killed" / "1-base" / "view"
    (left / "layers").mkdir(parents=True)
    (tmp_path / "trials" / "killed" / "1-base" / "run.json").touch()
    with open(tmp_path / "trials" / "killed" / protect.RUNNING, "wb") as lock:
        if running:
            fcntl.flock(lock, fcntl.LOCK_EX)
        protect.choose(tmp_path / "trials" / "this", tmp_path)
    assert left.exists() is running
    assert (left.parent / "run.json").exists()


def test_entries_that_an_overlay_is_tried_on_are_the_users_small_ones(tmp_path):
    (tmp_path / "small").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("small")
    with open(tmp_path / "large", "wb") as file:
        file.truncate(protect.SAMPLE_BYTES + 1)
    assert [os.path.basename(path) for path in protect._owned_in(tmp_path)] == ["folder", "small"]
    for number in range(30):
        (tmp_path / f"more{number}").touch()
    assert len(protect._owned_in(tmp_path)) == protect.SAMPLE


# ---------------------------------------------------------------- trackers


def test_trackers_are_offline_and_what_is_off_stays_off():
    chosen = protect.offline({"WANDB_MODE": "disabled", "NEPTUNE_MODE": "async"})
    assert "WANDB_MODE" not in chosen
    assert chosen["NEPTUNE_MODE"] == "offline"
    assert chosen["CLEARML_OFFLINE_MODE"] == "1"
    assert chosen["COMET_START_ONLINE"] == "0"
    assert "HF_HUB_OFFLINE" not in chosen  # what is read from the hub must come


@pytest.mark.parametrize(
    ("store", "led_away"),
    [
        ("https://mlflow.example.org", True),
        ("databricks", True),
        ("postgresql://host/runs", True),
        ("file:///data/mlruns", False),
        ("sqlite:///runs.db", False),
        ("./mlruns", False),
        ("", False),
    ],
)
def test_only_a_remote_store_of_mlflow_is_led_to_the_disk(store, led_away):
    chosen = protect.offline({"MLFLOW_TRACKING_URI": store})
    assert ("MLFLOW_TRACKING_URI" in chosen) is led_away
    assert chosen.get("MLFLOW_TRACKING_URI", "file:").startswith("file:")
