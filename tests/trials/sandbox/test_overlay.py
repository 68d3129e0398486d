"""Commands in an overlay and under Landlock, in processes of their own; and what the list of mounts says."""

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from perfdoctor.trials.sandbox import overlay
from perfdoctor.trials.sandbox.protect import START, _Check

pytestmark = pytest.mark.process

TIMEOUT_S = 60
AS_ROOT = os.name == "posix" and os.geteuid() == 0
PLAIN = [sys.executable, "-I", "-S", "-c"]


class Place:
    """A folder with a user's files, and room for an execution."""

    def __init__(self, base):
        self.base = base
        self.work, self.execution = base / "work", base / "trial" / "execution"
        (self.work / "out").mkdir(parents=True)
        (self.work / "out" / "old").write_text("old")
        self.execution.mkdir(parents=True)

    def run(self, how, words, command, **options):
        self.clear()
        argv = [*START, how, str(self.execution), *map(str, words), *map(str, command)]
        given = {"cwd": self.work, "stdin": subprocess.DEVNULL} | options
        return subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, **given)

    def clear(self):
        subprocess.run(["chmod", "-R", "u+rwx", self.execution], check=True)
        shutil.rmtree(self.execution)
        self.execution.mkdir()

    def overlay(self, command, memory_bytes=0, **options):
        return self.run("overlay", [memory_bytes], command, **options)

    def python(self, code, memory_bytes=0, **options):
        return said(self.overlay([*PLAIN, code], memory_bytes, **options))

    def landlock(self, code):
        return self.run("landlock", [self.execution / "temporary"], [*PLAIN, code])


def said(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def permitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("permitted")
    check = _Check(folder, folder)
    return {"overlay": check.overlay(0) is not None, "landlock": check.landlock()}


@pytest.fixture
def place(tmp_path, permitted):
    if not permitted["overlay"]:
        pytest.skip("the system permits no overlay")
    return Place(tmp_path)


@pytest.fixture
def landlocked(tmp_path, permitted):
    if not permitted["landlock"]:
        pytest.skip("the kernel has no Landlock")
    return Place(tmp_path)


# ---------------------------------------------------------------- the overlay


@pytest.mark.shows("trial-leaves-files")
def test_changes_are_seen_inside_and_nowhere_else(place):
    code = """
import os, shutil
shutil.rmtree("out")
os.mkdir("out")
open("out/new", "w").write("new")
open("/tmp/perfdoctor-test-of-an-overlay", "w").close()
os.rename("out", "moved")
print(os.listdir("moved"), os.listdir("."), os.getcwd())
"""
    assert place.python(code) == f"['new'] ['moved'] {place.work}\n"
    assert os.listdir(place.work) == ["out"]
    assert (place.work / "out" / "old").read_text() == "old"
    assert not os.path.exists("/tmp/perfdoctor-test-of-an-overlay")


@pytest.mark.skipif(not AS_ROOT, reason="overlays of a user namespace cannot rename what they cover")
def test_a_folder_of_the_users_can_be_renamed(place):
    assert place.python("import os; os.rename('out', 'moved'); print(os.listdir('moved'))") == "['old']\n"
    assert os.listdir(place.work) == ["out"]


def test_the_executions_folder_is_the_real_one(place):
    place.python(f"open({str(place.execution / 'record')!r}, 'w').write('kept')")
    assert (place.execution / "record").read_text() == "kept"


def test_the_rest_of_the_trials_folder_is_covered(place):
    place.python(f"open({str(place.base / 'trial' / 'record')!r}, 'w').write('lost')")
    assert os.listdir(place.base / "trial") == ["execution"]


def test_each_execution_begins_with_the_users_files(place):
    code = "import os; print(os.listdir('.')); open('new', 'w').close()"
    assert [place.python(code) for _ in range(2)] == ["['out']\n"] * 2


def test_the_command_is_the_same_process_with_the_same_environment(place):
    code = (
        "import os, sys; print([os.getpid(), os.getppid(), dict(os.environ), sys.stdin.read(), os.getuid()])"
    )
    environ = {"PATH": os.environ["PATH"], "ODD": "a=b\udcff", "EMPTY": ""}  # no locale: Python would set one
    argv = [
        *START,
        "overlay",
        str(place.execution),
        "0",
        *PLAIN,
        "print(open('/proc/self/environ', 'rb').read())",
    ]
    plain = subprocess.run(argv[-5:], env=environ, capture_output=True, check=True, cwd=place.work).stdout
    seen = subprocess.run(argv, env=environ, capture_output=True, check=True, cwd=place.work).stdout
    assert sorted(eval(seen).split(b"\0")) == sorted(eval(plain).split(b"\0"))
    place.clear()
    argv[-1] = code
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place.work) as child:
        printed, _ = child.communicate(b"typed")
        assert eval(printed)[0] == child.pid
        assert eval(printed)[1] == os.getpid()
        assert eval(printed)[3:] == ["typed", os.getuid()]


def test_the_command_ends_as_it_would_without(place):
    assert place.overlay(["sh", "-c", "exit 7"]).returncode == 7
    assert place.overlay(["sh", "-c", "kill -TERM $$"]).returncode == -signal.SIGTERM
    missing = place.overlay(["no-such-program"])
    assert (missing.returncode, missing.stderr) == (
        127,
        "perfdoctor: no-such-program: No such file or directory\n",
    )
    assert place.overlay([place.work / "out" / "old"]).returncode == 126


def test_a_broken_pipe_ends_the_command_as_it_would_without(place):
    argv = [*START, "overlay", str(place.execution), "0", "yes"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=place.work) as child:
        child.stdout.read(1)
        child.stdout.close()
        assert child.wait(TIMEOUT_S) == -signal.SIGPIPE


def test_sockets_of_processes_outside_are_reached(place):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place.work / "socket"))
        server.listen()
        code = "import socket; socket.socket(socket.AF_UNIX).connect('socket'); print('reached')"
        assert place.python(code) == "reached\n"


def test_devices_and_shared_memory_are_the_real_ones(place):
    name = f"/dev/shm/perfdoctor-test-{os.getpid()}"
    try:
        place.python(f"open('/dev/null', 'w').write('x'); open({name!r}, 'w').write('shared')")
        with open(name, encoding="utf-8") as file:
            assert file.read() == "shared"
    finally:
        os.unlink(name)


def test_a_current_folder_in_shared_memory_is_covered_all_the_same(place):
    folder = f"/dev/shm/perfdoctor-test-{os.getpid()}"
    os.mkdir(folder)
    try:
        assert (
            place.python("import os; open('new', 'w').close(); print(os.listdir())", cwd=folder)
            == "['new']\n"
        )
        assert os.listdir(folder) == []
    finally:
        shutil.rmtree(folder)


def test_an_overlay_in_memory_that_is_full_leaves_the_users_files(place):
    code = """
try:
    with open("out/old", "wb") as file:
        for _ in range(100):
            file.write(bytes(1_000_000))
except OSError as error:
    print(error.errno)
"""
    assert place.python(code, 10_000_000) == f"{errno.ENOSPC}\n"
    assert (place.work / "out" / "old").read_text() == "old"
    assert os.listdir(place.execution / "view" / "layers") == []


def test_paths_with_odd_letters_are_covered(place):
    odd = place.work / "a,b:c\\d e"
    odd.mkdir()
    assert place.python("open('new', 'w').close(); import os; print(os.listdir())", cwd=odd) == "['new']\n"
    assert os.listdir(odd) == []


@pytest.mark.skipif(not AS_ROOT, reason="only root may mount")
def test_what_is_mounted_below_is_covered_too(place):
    """In a namespace of its own: two file systems below the folder, one of them read-only."""
    for name in ("rw", "ro"):
        (place.work / name).mkdir()
    code = f"""
import json, os, subprocess, sys
sys.path.insert(0, {str(os.path.dirname(overlay.__file__))!r})
import overlay
overlay.apart()
overlay._mount("tmpfs", "rw", "tmpfs", 0)
overlay._mount("tmpfs", "ro", "tmpfs", 0)
open("rw/file", "w").write("kept")
overlay._mount("tmpfs", "ro", "tmpfs", overlay.MS_REMOUNT | overlay.MS_RDONLY)
inner = '''
import os
open("rw/file", "w").write("new")
try:
    open("ro/file", "w")
except OSError as error:
    print(error.errno, open("rw/file").read())
'''
argv = {[*START, "overlay", str(place.execution), "0", *PLAIN]!r}
print(subprocess.run([*argv, inner], capture_output=True, text=True, check=True).stdout.split(), open("rw/file").read())
"""
    done = subprocess.run([*PLAIN, code], cwd=place.work, capture_output=True, text=True, check=False)
    assert said(done) == f"['{errno.EROFS}', 'new'] kept\n"


@pytest.mark.skipif(not AS_ROOT, reason="only root may mount")
@pytest.mark.parametrize("how", ["overlay", "landlock"])
def test_a_disk_in_run_is_the_users_and_what_lies_beside_it_is_shared(how, place, permitted):
    """In a namespace of its own, with a `/run` as desktops have it: a file system in memory, a disk in that."""
    if not permitted[how]:
        pytest.skip(f"no {how} here")
    words = ["overlay", str(place.execution), "0"]
    if how == "landlock":
        words = ["landlock", str(place.execution), str(place.execution / "temporary")]
    code = f"""
import os, subprocess, sys
sys.path.insert(0, {str(os.path.dirname(overlay.__file__))!r})
import overlay
overlay.apart()
overlay._mount("tmpfs", "/run", "tmpfs", 0)
disk = "/run/media/user/disk"
os.makedirs(disk)
os.mkdir("/run/lock")
overlay._mount({str(place.work)!r}, disk, "", overlay.MS_BIND)
inner = '''
for path in "/run/media/user/disk/out/old", "/run/lock/new":
    try:
        open(path, "w").write("new")
    except OSError as error:
        print(error.errno)
'''
argv = {[*START, *words, *PLAIN]!r}
print(subprocess.run([*argv, inner], capture_output=True, text=True, check=True).stdout.split())
print(os.listdir(disk), open(disk + "/out/old").read(), os.listdir("/run/lock"))
"""
    done = subprocess.run([*PLAIN, code], cwd=place.work, capture_output=True, text=True, check=False)
    refused = [str(errno.EACCES)] if how == "landlock" else []
    assert said(done) == f"{refused}\n['out'] old ['new']\n"


def test_where_an_overlay_fails_the_command_does_not_run(place):
    place.execution.rmdir()
    argv = [*START, "overlay", str(place.execution), "0", "touch", "ran"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=place.work)
    assert done.returncode == overlay.FAILED
    assert done.stderr.startswith("perfdoctor: cannot protect files: [Errno 2]")
    assert os.listdir(place.work) == ["out"]


@pytest.fixture
def open_folder():
    """A folder that other users may enter, below one that is not theirs."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.skipif(not AS_ROOT, reason="only root may become another user")
def test_an_ordinary_user_gets_an_overlay_too(open_folder):
    nobody, python = 65533, "/usr/bin/python3"
    place = Place(open_folder)
    subprocess.run(["chown", "-R", f"{nobody}:{nobody}", place.work, place.base / "trial"], check=True)
    argv = [python, *START[1:], "overlay", str(place.execution), "0", python, "-I", "-S", "-c"]
    code = """
import json, os, shutil
shutil.rmtree("out")
os.makedirs("out/deep")
open("out/new", "w").write("new")
open("/tmp/perfdoctor-test-of-an-overlay", "w").close()
status = open("/proc/self/status").read()
print(json.dumps([sorted(os.listdir("out")), os.getuid(), "CapEff:\\t0000000000000000" in status]))
"""
    try:
        done = subprocess.run(
            [*argv, code],
            cwd=place.work,
            user=nobody,
            group=nobody,
            extra_groups=[],
            capture_output=True,
            check=False,
        )
    except PermissionError:
        pytest.skip(f"{python} is not there for other users")
    if done.returncode == overlay.FAILED:
        pytest.skip(f"no overlay for ordinary users: {done.stderr.decode()}")
    assert json.loads(said(done)) == [["deep", "new"], nobody, True]
    assert os.listdir(place.work / "out") == ["old"]
    assert not os.path.exists("/tmp/perfdoctor-test-of-an-overlay")


# ---------------------------------------------------------------- Landlock


def test_under_landlock_nothing_but_the_executions_own_can_be_changed(landlocked):
    code = f"""
import os, subprocess
for change in (
    lambda: open("new", "w"),
    lambda: open("out/old", "a"),
    lambda: os.unlink("out/old"),
    lambda: os.rename("out", "moved"),
    lambda: os.mkdir("new"),
    lambda: os.symlink("out", "new"),
):
    try:
        change()
    except OSError as error:
        print(error.errno, end=" ")
print(subprocess.run(["rm", "-r", "out"], stderr=subprocess.DEVNULL).returncode != 0, open("out/old").read())
open({str(landlocked.execution / "record")!r}, "w").close()
open({str(landlocked.execution / "temporary" / "file")!r}, "w").close()
open("/dev/null", "w").write("x")
"""
    refused = [int(word) for word in said(landlocked.landlock(code)).split()[:-2]]
    assert len(refused) == 6
    assert set(refused) <= {errno.EACCES, errno.EXDEV}
    assert (landlocked.work / "out" / "old").exists()
    assert (landlocked.execution / "record").exists()
    assert (landlocked.execution / "diverted").is_dir()


def test_without_landlock_writes_are_redirected_all_the_same(tmp_path):
    place = Place(tmp_path)
    assert said(place.run("redirect", [tmp_path / "temporary"], ["echo", "ran"])) == "ran\n"
    assert (place.execution / "diverted").is_dir()
    assert (tmp_path / "temporary").is_dir()


# ---------------------------------------------------------------- the list of mounts

ROOT = "20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"


@pytest.mark.parametrize(
    ("lines", "points"),
    [
        pytest.param([ROOT], ["/"], id="a-root-alone"),
        pytest.param(["1 1 0:2 / / rw - rootfs rootfs rw", ROOT], ["/"], id="a-root-over-the-first-one"),
        pytest.param(
            [ROOT, "22 21 8:2 / /a/b rw - ext4 /dev/sdb rw", "21 20 8:3 / /a rw - ext4 /dev/sdc rw"],
            ["/", "/a", "/a/b"],
            id="parents-first",
        ),
        pytest.param(
            [ROOT, "21 20 8:2 / /a/b rw - ext4 /dev/sdb rw", "22 20 8:3 / /a rw - ext4 /dev/sdc rw"],
            ["/", "/a"],
            id="one-hides-what-was-mounted-below-it",
        ),
        pytest.param(
            [ROOT, "21 20 8:2 / /a rw - ext4 /dev/sdb rw", "22 21 0:5 / /a rw - tmpfs tmpfs rw"],
            ["/", "/a"],
            id="one-on-top-of-another",
        ),
        pytest.param(
            [ROOT, "21 20 8:2 / /a\\040b\\134c rw - ext4 /dev/sdb rw"], ["/", "/a b\\c"], id="odd-letters"
        ),
    ],
)
def test_mounts_are_those_that_a_path_reaches(lines, points):
    assert [mount.point for mount in overlay.mounts("\n".join(lines))] == points


def test_of_two_stacked_mounts_the_upper_counts():
    lines = [ROOT, "21 20 8:2 / /a ro - ext4 /dev/sdb rw", "22 21 0:5 / /a rw - tmpfs tmpfs rw"]
    upper = overlay.mounts("\n".join(lines))[-1]
    assert (upper.kind, upper.writable) == ("tmpfs", True)


@pytest.mark.parametrize(
    ("options", "of_it_all", "writable"), [("rw", "rw", True), ("ro", "rw", False), ("rw", "ro", False)]
)
def test_a_mount_is_writable_if_neither_it_nor_its_file_system_is_read_only(options, of_it_all, writable):
    mount = overlay.MountInfo(f"21 20 8:2 / /a {options},nosuid - ext4 /dev/sdb {of_it_all},errors=continue")
    assert mount.writable is writable


def test_a_root_that_is_no_mount_is_an_error():
    with pytest.raises(OSError, match="no mount point"):
        overlay.mounts("21 20 8:2 / /a rw - ext4 /dev/sdb rw")
