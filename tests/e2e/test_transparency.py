"""A watched command and a bare one are the same to the last byte: what it sees, what it says, how it ends."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.launching import WATCHED, Seen, bare, both, environment, record, runs, watched

CHECKOUT = str(Path(__file__).parents[2])

pytestmark = pytest.mark.process

# Everything that a script could find out about how it was started.
LOOK_AROUND = '''
"""A docstring."""
import gc, json, os, random, signal, sys, threading

OURS = ("PYTHONPATH", "PERFDOCTOR_RUN", "PWD", "OLDPWD", "_")
main = sys.modules["__main__"]
spec = main.__spec__
umask = os.umask(0o22)

def inodes():
    for number in range(20):
        try:
            yield number, os.get_inheritable(number), os.fstat(number).st_mode
        except OSError:
            pass

print(json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "flags": list(sys.flags),
    "executable": sys.executable, "prefix": sys.prefix, "cwd": os.getcwd(), "umask": umask,
    "main": {name: repr(value).split(" at 0x")[0] for name, value in vars(main).items() if name != "inodes"},
    "spec": spec and [spec.name, spec.origin, spec.cached, type(spec.loader).__name__, spec.parent],
    "modules": sorted(sys.modules), "importers": sorted(sys.path_importer_cache),
    "builtins": dir(__builtins__),
    "finders": [type(f).__name__ for f in sys.meta_path if type(f).__name__ != "ImportWatcher"],
    "signals": [str(signal.getsignal(n)) for n in signal.valid_signals()],
    "mask": [str(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
    "files": list(inodes()), "threads": threading.active_count(), "depth": sys._getframe().f_back is None,
    "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
    "trace": [sys.gettrace(), sys.getprofile()], "limits": [sys.getrecursionlimit(), gc.get_threshold()],
    "terminal": [os.isatty(0), os.isatty(1), os.isatty(2)], "group": os.getpgrp() == os.getpgid(os.getppid()),
    "session": os.getsid(0) == os.getsid(os.getppid()), "nice": os.nice(0), "stdin": sys.stdin.read(3),
    "encodings": [sys.stdin.encoding, sys.stdout.encoding, sys.stderr.errors, sys.getfilesystemencoding()],
    "environment": {name: value for name, value in os.environ.items() if name not in OURS},
    "random": random.Random(0).random(),
}, indent=1, default=str))
raise SystemExit(7)
'''


@pytest.fixture(autouse=True)
def no_core_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


def assert_same(cwd: Path, *words: str, **options: object) -> Seen:
    """Both ways of running give the same, and the watched one was watched."""
    plain, ours = both(cwd, *words, **options)  # type: ignore[arg-type]
    assert ours == plain
    return plain


def layouts(folder: Path) -> dict[str, tuple[str, ...]]:
    """Every way to hand code to an interpreter."""
    (folder / "far" / "away").mkdir(parents=True)
    (folder / "package" / "inner").mkdir(parents=True)
    places = ("script.py", "far/away/script.py", "package/__main__.py", "package/inner/train.py", "plain.txt")
    for place in places:
        (folder / place).write_text(LOOK_AROUND)
    for package in ("package", "package/inner"):
        (folder / package / "__init__.py").touch()
    with zipfile.ZipFile(folder / "app.zip", "w") as archive:
        archive.writestr("__main__.py", LOOK_AROUND)
    (folder / "link.py").symlink_to("far/away/script.py")
    return {
        "script": ("script.py", "a b", "--flag=1", "", "ü"),
        "absolute": (str(folder / "script.py"),),
        "far away": ("far/away/script.py", "-m", "x"),
        "symlink": ("link.py",),
        "module": ("-m", "package.inner.train", "a", "--b"),
        "package": ("-m", "package"),
        "folder": ("package",),
        "zip": ("app.zip", "a"),
        "options": ("-u", "-O", "-W", "ignore", "-X", "utf8", "script.py", "a"),
        "isolated path": ("-P", "script.py"),
        "string": ("-c", LOOK_AROUND, "a"),
    }


LAYOUTS = (
    "script", "absolute", "far away", "symlink", "module", "package", "folder", "zip", "options", "string",
)  # fmt: skip


@pytest.mark.shows("surroundings", "job-control", "terminal", "kept-out")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_script_sees_the_same_world(tmp_path: Path, layout: str) -> None:
    seen = assert_same(tmp_path, *layouts(tmp_path)[layout], input=b"abc")
    assert seen.status == 7
    assert seen.stderr == ""
    assert len(runs(tmp_path)) == 1


@pytest.mark.shows("surroundings")
def test_a_script_from_stdin_sees_the_same_world(tmp_path: Path) -> None:
    seen = assert_same(tmp_path, "-", "a", input=LOOK_AROUND.replace("sys.stdin.read(3)", "0").encode())
    assert seen.status == 7
    assert runs(tmp_path)[0].name.endswith("-stdin")


@pytest.mark.shows("surroundings", "exec", "no-torch")
def test_a_command_as_typed_sees_the_same_world(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(LOOK_AROUND)
    (tmp_path / "train.sh").write_text('export EXTRA=1\nexec python script.py "$@"\n')
    env = environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for words in (("python", "script.py", "a"), ("bash", "train.sh", "a b")):
        assert watched(tmp_path, *words, env=env) == bare(tmp_path, *words, env=env)
        assert record(tmp_path)["notes"] == ["the command ended before it imported torch"]


@pytest.mark.shows("surroundings")
def test_the_users_own_python_path_keeps_its_entries(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(LOOK_AROUND)
    for path in ("src:/somewhere", "", "trailing:", ":"):
        assert_same(tmp_path, "script.py", env=environment(PYTHONPATH=path))


def test_no_empty_entry_is_added_to_the_python_path(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import os\nprint(os.environ['PYTHONPATH'])")
    path = watched(tmp_path, "script.py").stdout.strip()
    assert path.endswith("/probe")
    assert ":" not in path


@pytest.mark.shows("surroundings")
def test_files_that_the_shell_opened_stay_open(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import os\nos.write(3, b'kept')")
    bare(tmp_path, "bash", "-c", '"$@" 3>kept', "bash", *WATCHED, "script.py")
    assert (tmp_path / "kept").read_text() == "kept"


ENDS = {
    "raises": "def inner():\n    raise ValueError('a\\nb')\ninner()",
    "raises in a chain": "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise RuntimeError from e",
    "exits with 3": "import sys\nprint('out')\nsys.exit(3)",
    "exits with words": "import sys\nsys.exit('message')",
    "exits with None": "import sys\nsys.exit(None)",
    "exits with -1": "import sys\nsys.exit(-1)",
    "os._exit": "import os\nprint('lost')\nos._exit(5)",
    "abort": "import os\nos.abort()",
    "kills itself": "import os\nos.kill(os.getpid(), 9)",
    "segfault": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
    "keyboard interrupt": "raise KeyboardInterrupt",
    "terminated": "import os\nos.kill(os.getpid(), 15)",
    "syntax error": "def f(:\n",
    "no such module": "import no_such_module_anywhere",
    "excepthook": "import sys\nsys.excepthook = lambda *e: print('mine', e[0])\n1/0",
    "atexit": "import atexit, sys\natexit.register(print, 'bye')\nsys.exit(2)",
    "closes stdout": "import os\nos.close(1)\nprint('x')",
    "becomes another program": "import os\nos.execlp('sh', 'sh', '-c', 'echo new; exit 6')",
    "thread raises": "import threading\nt = threading.Thread(target=lambda: 1/0)\nt.start()\nt.join()",
    "own mocks": "from unittest import mock\nwith mock.patch('time.time'):\n    print(1)",
}


@pytest.mark.shows("exit-status", "streams", "raises", "exits", "os-exit", "exec", "killed", "fails-early")
@pytest.mark.parametrize("end", ENDS)
def test_a_script_ends_as_it_ends_by_itself(tmp_path: Path, end: str) -> None:
    (tmp_path / "script.py").write_text(ENDS[end])
    assert_same(tmp_path, "script.py")
    assert record(tmp_path)["outcome"] in ("ok", "failed", "signalled")


@pytest.mark.shows("terminal")
def test_standard_input_reaches_the_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nfor line in sys.stdin:\n    print(line.upper(), end='')")
    assert assert_same(tmp_path, "script.py", input=b"one\ntwo\n").stdout == "ONE\nTWO\n"


@pytest.mark.shows("closed-output")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-", ">/dev/full", "| head -c 1"])
def test_closed_and_broken_streams_are_the_scripts_own_affair(tmp_path: Path, closed: str) -> None:
    (tmp_path / "script.py").write_text("print('x' * 100000)\nimport sys\nprint('e', file=sys.stderr)")
    shell = ("bash", "-c", f'"$@" {closed}; echo "status $? ${{PIPESTATUS[0]}}" >{tmp_path}/status', "bash")
    seen = []
    for python in ((sys.executable,), WATCHED):
        ended = bare(tmp_path, *shell, *python, "script.py")
        seen.append((ended, (tmp_path / "status").read_text()))
    assert seen[0] == seen[1]


@pytest.mark.shows("no-script")
def test_a_missing_script_gets_the_interpreters_answer_and_leaves_nothing(tmp_path: Path) -> None:
    for words in (("missing.py", "a"), ("-u", "missing.py"), ("no/such/folder/train.py",)):
        assert assert_same(tmp_path, *words).status == 2
    assert list(tmp_path.iterdir()) == []


def test_a_broken_site_folder_of_ours_is_silent(tmp_path: Path) -> None:
    """The package may be read-only, or gone by the time a late child starts."""
    (tmp_path / "script.py").write_text("print(1)")
    assert watched(tmp_path, "script.py", env=environment(PYTHONDONTWRITEBYTECODE="1")) == Seen(0, "1\n", "")


TRAINS = """
import os, sys
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 2)

    def forward(self, x, fail=False):
        if fail:
            raise ValueError("in forward")
        return self.inner(x)

torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
dataset = torch.utils.data.TensorDataset(torch.randn(32, 4))
data = torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True)
for (x,) in data:
    optimizer.zero_grad()
    loss = net(x).square().sum()
    loss.backward()
    optimizer.step()
    print(loss.item())

spec, loader = torch.__spec__, torch.__loader__
print(spec.name, spec.origin, type(loader), vars(loader), loader is spec.loader, torch.initial_seed())
print(torch.rand(3), sys.path, sys.argv, [name for name in sys.modules if name.startswith("perfdoctor")])
print([name for name in os.environ if not name.startswith("PERFDOCTOR_") and name not in ("PYTHONPATH", "_")])

import multiprocessing, signal, threading
multiprocessing.set_start_method("spawn")
print(multiprocessing.get_start_method(), [signal.getsignal(number) for number in (2, 15, 17)])
print(threading.active_count(), sys.gettrace(), sys.getprofile())

class Bad(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        raise KeyError(index)

reads_bad = "next(iter(torch.utils.data.DataLoader(Bad())))"
for attempt in (reads_bad, "loss.backward()", "net.inner(torch.ones(3))"):
    import traceback
    try:
        exec(attempt)
    except Exception:
        traceback.print_exc()

def closure():
    raise RuntimeError("in closure")

try:
    optimizer.step(closure)
except RuntimeError:
    traceback.print_exc()
net(x, fail=True)
"""


@pytest.mark.shows("randomness", "surroundings", "guest", "raises", "dataset-raises")
@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="older interpreters put a frame back when re-raising")
def test_a_training_script_prints_the_same_losses_and_the_same_tracebacks(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(TRAINS)
    seen = assert_same(tmp_path, "script.py")
    assert seen.status == 1
    assert seen.stderr.count("Traceback") == 5
    assert "in forward" in seen.stderr
    assert record(tmp_path)["notes"] == []
    assert (runs(tmp_path)[0] / "steps.rank0.bin").exists()


LOSES_A_WORKER = """
import os, signal, time
import torch

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        if index == 40:
            time.sleep(0.5)  # by now the loop waits for this very item
            END
        return torch.ones(4)

if __name__ == "__main__":
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=1):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.shows("worker-crash", "dataset-raises")
@pytest.mark.parametrize(
    "end", ["os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 7)", "raise KeyError('gone')"]
)
def test_a_loader_worker_that_ends_fails_the_script_as_without_us(tmp_path: Path, end: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(LOSES_A_WORKER.replace("END", end))
    plain, ours = both(tmp_path, "script.py")
    assert (ours.status, ours.stdout) == (plain.status, plain.stdout) == (1, "")
    # Where the loop was when it learned of it is chance; what torch says of it is not.
    last = [re.sub(r"\d+", "#", seen.stderr.splitlines()[-1]) for seen in (plain, ours)]
    assert last[0] == last[1]
    assert "worker" in plain.stderr
    assert "perfdoctor" not in ours.stderr.replace(CHECKOUT, "")  # which may be called so
    assert record(tmp_path)["exit_code"] == 1
    assert (runs(tmp_path)[0] / "steps.rank0.bin").exists()


RANKS = """
import os, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
pids = [None, None]
dist.all_gather_object(pids, os.getpid())
os.write(1, f"rank {dist.get_rank()} {sys.argv[1:]}\\n".encode())
dist.destroy_process_group()
time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
if os.environ["RANK"] == "1":
    try:  # fail only once the other rank is gone: who ends first is told in the launcher's table
        while True:
            os.kill(pids[0], 0)
            time.sleep(0.05)
    except ProcessLookupError:
        sys.exit(int(sys.argv[1]))
"""


@pytest.mark.shows("rank-dies")
@pytest.mark.slow
@pytest.mark.parametrize("status", ["0", "7"])
def test_torchrun_prints_and_ends_the_same(tmp_path: Path, status: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(RANKS)
    env = environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}", OMP_NUM_THREADS="1")
    if shutil.which("torchrun", path=env["PATH"]) is None:
        pytest.skip("torchrun is not installed beside torch")
    words = ("torchrun", "--standalone", "--nproc-per-node", "2", "script.py", status)
    plain, ours = (_settled(run(tmp_path, *words, env=env)) for run in (bare, watched))
    assert ours == plain
    assert plain.status == (0 if status == "0" else 1)
    assert len((runs(tmp_path)[0] / "boot.jsonl").read_text().splitlines()) == 3


def _settled(seen: Seen) -> Seen:
    """Lines in any order, and without times, process ids and ports."""
    lines = sorted(re.sub(r"\d+|0x[0-9a-f]+", "#", line) for line in seen.stderr.splitlines())
    return Seen(seen.status, "\n".join(sorted(seen.stdout.splitlines())), "\n".join(lines))
