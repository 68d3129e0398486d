"""Keeps a trial from changing the user's files: chooses how, prepares each execution, and clears up."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from perfdoctor.model.dataclass import dataclass
from perfdoctor.runs.directory import make_private
from perfdoctor.trials.sandbox.overlay import inside, real_folders
from perfdoctor.wire.names import WRITE_OVERLAY

PROGRAM = str(Path(__file__).with_name("overlay.py"))
START = (sys.executable, "-I", "-S", PROGRAM)  # without `site` and the user's variables: it starts sooner
CHECK_S = 60.0  # for a check that takes a tenth of a second on an idle machine
RUNNING = ".perfdoctor-running"  # locked by the process whose trial the folder is
# Of what is free, for changes that can be kept in memory only: the command needs the rest.
MEMORY_SHARE = 0.25
NAMED = 3  # folders that a sentence names
# Entries of the current folder that are tried: enough to meet the groups and owners in it.
SAMPLE, SAMPLE_BYTES = 20, 1_000_000  # the largest file: trying it copies it

# Runs in an overlay, on files of our own: a folder is removed and made anew, and a file made.
CHECK_OVERLAY = """
import os, sys
old, new = sys.argv[1:]
os.unlink(os.path.join(old, "file"))
os.rmdir(old)
os.mkdir(old)
os.mkdir(os.path.join(old, "folder"))
open(new, "w").close()
"""
# Runs in an overlay that has been found to be one: what the user owns is opened for writing.
CHECK_ENTRIES = """
import os, sys
for path in sys.argv[1:]:
    if os.path.isdir(path):
        os.mkdir(os.path.join(path, ".perfdoctor-check"))
    else:
        open(path, "ab").close()
"""
# Runs under Landlock: nothing of that may work.
CHECK_LANDLOCK = """
import os, sys
old, new = sys.argv[1:3]
for change in (os.unlink, os.path.join(old, "file")), (os.rmdir, old), (os.mkdir, new):
    try:
        change[0](change[1])
    except PermissionError:
        continue
    sys.exit(1)
"""

# Trackers keep what they track on disk and send nothing, by the documentation of each: docs.wandb.ai and
# docs.neptune.ai (environment variables), clear.ml/docs (storing task data offline), huggingface.co/docs
# (transformers, CometCallback), docs.swanlab.cn (environment variables), dvc.org/doc/user-guide/env.
OFFLINE = {
    "WANDB_MODE": "offline",
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "COMET_START_ONLINE": "0",
    "SWANLAB_MODE": "offline",
    "DVC_STUDIO_OFFLINE": "true",
    "DVC_EXP_AUTO_PUSH": "false",
}
OFF = ("disabled", "dryrun", "debug", "offline", "local")  # values under which nothing is sent either
# Folders of what programs other than Python write, where only Python's writes can be redirected: temporary
# files, inductor's cache among them, Triton's cache, and what trackers keep.
FOLDERS = (
    "TMPDIR",
    "TRITON_CACHE_DIR",
    "WANDB_DIR",
    "WANDB_CACHE_DIR",
    "WANDB_DATA_DIR",
    "NEPTUNE_DATA_DIRECTORY",
    "COMET_OFFLINE_DIRECTORY",
    "SWANLAB_LOG_DIR",
)
MLFLOW = "MLFLOW_TRACKING_URI"
LOCAL_STORES = ("file:", "sqlite:", "/", ".")


@dataclass(frozen=True)
class PreparedExecution:
    """What starts one execution: words before the command, variables, and what the probe is told."""

    before: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Protection:
    """How the files are kept as they are: a copy-on-write overlay, redirected writes, or not at all."""

    how: Literal["overlay", "redirected", "none"]
    sentence: str  # for the user
    memory_bytes: int = 0  # of an overlay whose changes are kept in memory; 0: on disk
    landlocked: bool = False  # redirected, and the kernel refuses what is not

    def prepare(self, execution: Path) -> PreparedExecution:
        """What starts an execution whose run directory will be `execution`; it begins like all others."""
        self.clear(execution)
        path = execution.parent.resolve() / execution.name  # it is not there yet
        if self.how == "overlay":
            before = (*START, "overlay", str(path), str(self.memory_bytes))
            return PreparedExecution(before, offline(os.environ), {"how": self.how})
        if self.how == "none":
            return PreparedExecution((), offline(os.environ), {"how": self.how})
        temporary = _temporary(path)
        before = (*START, "landlock" if self.landlocked else "redirect", str(path), temporary)
        folders = dict.fromkeys(FOLDERS, temporary)
        real = [str(path), temporary, *real_folders()]
        options = {"how": self.how, "real": real, "fenced": self.landlocked}
        return PreparedExecution(before, {**offline(os.environ), **folders}, options)

    def clear(self, execution: Path) -> int:
        """Remove what the execution changed, however it ended; returns how many bytes that took."""
        return _clear(execution)


def choose(folder: Path, cwd: Path, python: bool = True) -> Protection:
    """How executions kept in `folder` of a command that runs in `cwd` can be kept from changing files.

    Each way is tried for real, once. `python` tells that the command is Python's: what others do, only an
    overlay or the kernel can hold back.
    """
    folder = folder.resolve()
    make_private(folder)
    _sweep(folder)
    check = _Check(folder, cwd.resolve())
    for on_disk in (True, False):
        memory_bytes = 0 if on_disk else _memory_bytes()
        if (frozen := check.overlay(memory_bytes)) is not None:
            return Protection("overlay", _overlay_sentence(memory_bytes, frozen), memory_bytes)
    if any(inside(str(cwd.resolve()), real) for real in real_folders()):
        return _unprotected(f"{cwd} is on a file system that running programs share")
    sentence = "overlays are not permitted here, so changes by Python code were redirected"
    if check.landlock():
        return Protection("redirected", f"{sentence}, and the kernel refused all others", landlocked=True)
    if not python:
        return _unprotected("the system permits no overlay, and the command is not a Python script")
    return Protection("redirected", f"{sentence} or refused; compiled code could still write")


def offline(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables under which known trackers send nothing; what is off stays off."""
    variables = {name: word for name, word in OFFLINE.items() if environ.get(name) not in OFF}
    store = environ.get(MLFLOW, "")
    if store and not store.startswith(LOCAL_STORES):
        variables[MLFLOW] = f"file:{os.getcwd()}/mlruns"
    return variables


@dataclass(frozen=True)
class _Check:
    """Tries ways of protection on a folder of our own in the trial's, and on what lies in the current one."""

    folder: Path
    cwd: Path

    def overlay(self, memory_bytes: int) -> tuple[str, ...] | None:
        """What is read-only in an overlay, or None where an overlay does not work."""
        execution = self.folder / "check"
        how = ("overlay", execution, memory_bytes)
        with self._files(execution) as (old, new):
            if (
                not self._ends_well(CHECK_OVERLAY, how, (old, new))
                or not (old / "file").is_file()
                or new.exists()
            ):
                return None
            _remove(str(execution / "view"))
            if not self._ends_well(CHECK_ENTRIES, how, _owned_in(self.cwd)):
                return None
            text = (execution / "view" / "read-only").read_text("utf-8", "surrogateescape")
            return tuple(text.splitlines())

    def landlock(self) -> bool:
        """Whether the kernel refuses to change files."""
        execution = self.folder / "check"
        with self._files(execution) as (old, new):
            how = ("landlock", execution, execution / "temporary")
            return self._ends_well(CHECK_LANDLOCK, how, (old, new)) and (old / "file").is_file()

    def _ends_well(self, program: str, how: Sequence[object], words: Sequence[object]) -> bool:
        argv = [*START, *map(str, how), sys.executable, "-I", "-S", "-c", program, *map(str, words)]
        null = subprocess.DEVNULL
        try:
            done = subprocess.run(argv, cwd=self.cwd, stdin=null, stdout=null, stderr=null, timeout=CHECK_S)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    @contextmanager
    def _files(self, execution: Path) -> Iterator[tuple[Path, Path]]:
        """A folder with a file, the path of a file that is not there, and room for an execution."""
        old = self.folder / "untouched"
        new = (self.cwd if os.access(self.cwd, os.W_OK) else self.folder) / f".perfdoctor-{os.getpid()}"
        execution.mkdir()
        old.mkdir()
        (old / "file").touch()
        try:
            yield old, new
        finally:
            _remove(str(execution))
            _remove(str(old))
            with suppress(OSError):
                new.unlink()  # what only an overlay that is none would have left


def _owned_in(cwd: Path) -> list[str]:
    """A sample of what the user may write to in a folder."""
    paths = []
    with suppress(OSError):
        for entry in sorted(os.scandir(cwd), key=lambda entry: entry.name):
            is_folder = entry.is_dir(follow_symlinks=False)
            is_file = entry.is_file(follow_symlinks=False) and entry.stat().st_size <= SAMPLE_BYTES
            if (is_folder or is_file) and os.access(entry.path, os.W_OK | (os.X_OK if is_folder else 0)):
                paths.append(entry.path)
    return paths[:SAMPLE]


def _memory_bytes() -> int:
    """How much an overlay in memory may hold, where the trial's folder cannot hold one."""
    from perfdoctor.trials.sandbox import memory  # here: most overlays are on disk

    return int(memory.free_bytes() * MEMORY_SHARE) + 1


def _sweep(folder: Path) -> None:
    """Clear up after trials beside this one that were killed: one that runs has a file of its own locked."""
    _lock(folder / RUNNING, os.O_CREAT)
    (folder / RUNNING).write_text(secrets.token_hex(8), encoding="ascii")
    for other in folder.parent.iterdir():
        if other != folder and _lock(other / RUNNING):
            for execution in filter(Path.is_dir, other.iterdir()):
                _clear(execution)
            (other / RUNNING).unlink()


def _lock(path: Path, more_flags: int = 0) -> bool:
    """Lock a file until this process ends, if no other has; False where it is not there, or cannot be."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | more_flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return True
    return False


def _clear(execution: Path) -> int:
    temporary = _temporary(execution.parent.resolve() / execution.name)
    return sum(map(_remove, (str(execution / "view"), str(execution / WRITE_OVERLAY), temporary)))


def _temporary(execution: Path) -> str:
    """An execution's folder for temporary files: its path is short, since sockets are made in it.

    Nobody else can tell its name in advance: what it is made of is in a file that the owner alone can read.
    """
    known = ""
    with suppress(OSError):  # where no trial of this version has begun
        known = (execution.parent / RUNNING).read_text("ascii", "replace")
    whole = f"{os.getuid()}:{execution}{known}"
    name = hashlib.sha1(whole.encode(errors="surrogateescape")).hexdigest()[:12]
    return os.path.join(os.path.realpath(tempfile.gettempdir()), f"perfdoctor-{name}")


def _remove(path: str) -> int:
    """Remove a folder of ours with whatever is in it; returns the bytes on disk that its files took."""
    if os.path.islink(path) or not os.path.isdir(path) or os.lstat(path).st_uid != os.getuid():
        return 0
    freed = 0
    for folder, folders, files in os.walk(path):
        for name in folders:
            inner = os.path.join(folder, name)
            if not os.path.islink(inner):
                with suppress(OSError):
                    os.chmod(inner, 0o700)  # overlays have folders that nobody may enter
        for name in files:
            with suppress(OSError):
                freed += os.lstat(os.path.join(folder, name)).st_blocks * 512
    shutil.rmtree(path, ignore_errors=True)
    return freed


def _overlay_sentence(memory_bytes: int, frozen: Sequence[str]) -> str:
    sentence = "each execution ran on a copy-on-write overlay of the files: its changes are gone"
    if memory_bytes:
        sentence += f", and it could write {memory_bytes / 1e9:.1f} GB, in memory"
    if frozen:
        sentence += f"; it could not write to {', '.join(frozen[:NAMED])}{' ...' if frozen[NAMED:] else ''}"
    return sentence


def _unprotected(why: str) -> Protection:
    return Protection(
        "none", f"files cannot be protected: {why}; the script would change and delete real files"
    )
