"""Scripts in processes of their own: what is replaced there stays so, and an audit hook cannot be removed."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from tests.support.paths import PACKAGE

pytestmark = pytest.mark.process

INJECT = PACKAGE / "probe" / "inject"
TIMEOUT_S = 120


def tree(folder):
    """All that lies below a folder: {path: (mode, time, content)}."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
    return found


class Trial:
    """A folder with a user's files, and a run directory that tells the probe to redirect writes."""

    def __init__(self, base):
        self.work, self.run = base / "work", base / "run"
        (self.work / "out").mkdir(parents=True)
        (self.work / "out" / "old").write_text("old")
        (self.work / "log.csv").write_text("step,loss\n")
        (self.run / "diverted").mkdir(parents=True)
        (self.run / "temporary").mkdir()
        self.tell(fenced=False)

    def tell(self, **protect):
        real = [str(self.run), "/dev", "/proc"]
        (self.run / "config.json").write_text(
            json.dumps({"protect": {"how": "diverted", "real": real, **protect}})
        )

    def script(self, code, *options):
        """What a script printed; its files must be as they were."""
        (self.work / "train.py").write_text(code)
        before = tree(self.work)
        done = subprocess.run(
            [sys.executable, *options, "train.py"],
            cwd=self.work,
            env={**os.environ, "PYTHONPATH": str(INJECT), "PERFDOCTOR_RUN": str(self.run)}
            | {"TMPDIR": str(self.run / "temporary"), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert tree(self.work) == before, done.stderr
        return done


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path)


def said(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_script_reads_back_what_it_wrote_and_nothing_else_does(trial):
    code = """
import csv, glob, os, pathlib, shutil, tempfile, zipfile
shutil.rmtree("out")
os.makedirs("out/deep")
with open("log.csv", "a") as file:
    csv.writer(file).writerow([1, 2])
for number in range(4):
    (pathlib.Path("out") / f"{number}.pt").write_text(str(number))
    for path in sorted(glob.glob("out/*.pt"))[:-2]:
        os.remove(path)
shutil.copytree("out", "copy")
shutil.move("copy", "moved")
with tempfile.NamedTemporaryFile(dir="out") as file, zipfile.ZipFile("out/z.zip", "w") as archive:
    assert os.path.exists(file.name)
    archive.writestr("name", "x")
print(open("log.csv").read().split(), sorted(sorted(names) for _, _, names in os.walk(".")))
print(sorted(path.name for path in pathlib.Path("moved").iterdir()))
"""
    assert said(trial.script(code)).splitlines() == [
        "['step,loss', '1,2'] [[], [], ['2.pt', '3.pt'], ['2.pt', '3.pt', 'z.zip'], ['log.csv', 'train.py']]",
        "['2.pt', '3.pt', 'deep']",
    ]


def test_modules_that_took_functions_along_before_get_ours(trial):
    code = f"""
import glob, os, pathlib, shutil, sys, tempfile
from os import remove
sys.path.insert(0, {str(INJECT.parents[2])!r})
from perfdoctor.probe.trial.sandbox import write_redirection
write_redirection.begin({str(trial.run)!r})
remove("log.csv")
shutil.rmtree("out")
with tempfile.NamedTemporaryFile(dir=".") as file:
    print(os.path.exists(file.name), len(list(pathlib.Path(".").glob("tmp*"))))
print(os.path.exists("log.csv"), pathlib.Path("out").exists(), glob.glob("o*"))
"""
    assert said(trial.script(code, "-S")).splitlines() == ["True 1", "False False []"]


def test_what_bypasses_the_functions_is_stopped_by_name(trial):
    code = """
import io, os, posix
for name, change in {
    "remove": lambda: posix.remove("log.csv"),
    "rename": lambda: posix.rename("log.csv", "other"),
    "truncate": lambda: posix.truncate("log.csv", 0),
    "chmod": lambda: posix.chmod("log.csv", 0o777),
    "utime": lambda: posix.utime("log.csv", (1, 1)),
    "mkdir": lambda: posix.mkdir("new"),
    "rmdir": lambda: posix.rmdir("out"),
    "link": lambda: posix.link("log.csv", "new"),
    "symlink": lambda: posix.symlink("log.csv", "new"),
    "open": lambda: io.FileIO("log.csv", "a"),
    "posix.open": lambda: posix.open("log.csv", os.O_WRONLY),
    "system": lambda: os.system("cd out && rm -rf ../out"),
}.items():
    try:
        change()
    except PermissionError as error:
        assert "perfdoctor" in str(error), error
        assert type(error).__module__ == "perfdoctor"
    else:
        print("not stopped:", name)
assert io.FileIO("log.csv").read() == b"step,loss\\n"
assert os.system("true") == 0
"""
    assert said(trial.script(code)) == ""


def test_behind_a_fence_other_programs_are_left_to_the_kernel(trial):
    trial.tell(fenced=True)
    assert said(trial.script("import os; print(os.system('rm --version > /dev/null'))")) == "0\n"


def test_processes_started_from_python_share_the_changes(trial):
    code = """
import os, subprocess, sys
open("log.csv", "w").write("parent")
child = "open('out/child', 'w').write(open('log.csv').read())"
subprocess.run([sys.executable, "-c", child], check=True)
if not os.fork():
    os.remove("out/old")
    os._exit(0)
os.wait()
print(os.listdir("out"), open("out/child").read())
"""
    assert said(trial.script(code)) == "['child'] parent\n"


def test_databases_are_copied_before_they_are_written_to(trial):
    import sqlite3

    base = sqlite3.connect(trial.work / "runs.db")
    base.execute("create table runs (name)")
    base.commit()
    base.close()
    code = """
import sqlite3
base = sqlite3.connect("runs.db")
base.execute("insert into runs values ('trial')")
base.commit()
print(sqlite3.connect("runs.db").execute("select * from runs").fetchall())
sqlite3.connect(":memory:").execute("create table runs (name)")
"""
    assert said(trial.script(code)) == "[('trial',)]\n"


def test_a_process_that_cannot_be_protected_does_not_run(trial):
    (trial.run / "config.json").write_text("{}")
    done = trial.script("print('ran')")
    assert done.returncode == 125
    assert done.stdout == ""
    assert done.stderr.startswith("perfdoctor: cannot protect files: KeyError")


def test_errors_show_no_frame_of_ours(trial):
    done = trial.script("open('none/file', 'w')")
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'none/file'" in done.stderr
    if sys.version_info >= (3, 11):
        assert "probe" not in done.stderr


def test_a_scripted_models_own_save_is_redirected(trial):
    pytest.importorskip("torch")
    code = """
import torch
model = torch.jit.script(torch.nn.Linear(2, 2))
model.save("log.csv")
model.save(f="out/new.pt")
print([type(torch.jit.load(path)).__name__ for path in ("log.csv", "out/new.pt")])
"""
    assert said(trial.script(code)) == "['RecursiveScriptModule', 'RecursiveScriptModule']\n"


def test_checkpoints_of_torch_and_safetensors_are_redirected(trial):
    pytest.importorskip("torch")
    code = """
import os
import torch
from safetensors.torch import load_file, save_file
torch.save({"a": 1}, "log.csv")
torch.save({"a": 2}, f="out/new.pt")
save_file({"a": torch.ones(2)}, "out/old")
print(torch.load("log.csv"), torch.load("out/new.pt"), load_file("out/old")["a"].tolist(), sorted(os.listdir("out")))
try:
    torch.save({}, "none/new.pt")
except RuntimeError as error:
    print("Parent directory" in str(error))
"""
    pytest.importorskip("safetensors")
    assert said(trial.script(code)).splitlines() == ["{'a': 1} {'a': 2} [1.0, 1.0] ['new.pt', 'old']", "True"]
    assert not (trial.run / "probe.log").exists()
