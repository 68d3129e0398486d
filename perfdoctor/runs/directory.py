"""The run directory: its names, where it is kept, and how it is made and found."""

from __future__ import annotations

import errno
import itertools
import os
import re
import shlex
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from perfdoctor.errors import NoSuchRun, NotARun
from perfdoctor.model import json_bytes
from perfdoctor.runs import json_text, regular_file
from perfdoctor.wire.names import DISK_FULL, rows_file
from perfdoctor.wire.rows import CONTROL_BYTE

SCHEMA = "perfdoctor.run/1"
FOLDER = ".perfdoctor"  # of a project, where its runs are kept
RUN = "run.json"  # what was run, when, and how it ended
REPORT = "report.json"  # what it was found to wait for, as the newest report has it
ANY_RANK = "rank*"  # in place of the tag of a process: a pattern for the files of all
HOST_SAMPLES = "host.jsonl"  # what it used of its machine while it ran
CLOCKS_S = 60.0  # two machines may differ by this much in the time of day; with NTP it is milliseconds
GZIP_LEVEL = 3  # traces shrink to a tenth at 100 MB/s; level 9 takes four times as long for little more
SHARING = "sharing.json"  # how the machine shares its cores, measured after the run
SOURCES = "sources.json"  # the code that its report read, for later ones
RANGES = "ranges.json"  # of predicted gains, as the machine's own trials asked for when the run ended
RESERVE, RESERVE_BYTES = "reserve", 32_768  # room for run.json and report.json on a disk that is full
LIST = "list the runs here with: perfdoctor runs"
WATCH_FIRST = "watch a script first: perfdoctor run train.py"
PROBE = "probe"  # a link to what is injected, while the command runs

Json = dict[str, Any]


def gpu_file(index: int | str) -> str:
    """The samples of a device, by its number among those that the run can see."""
    return f"gpu{index}.jsonl"


# ---------------------------------------------------------------- making


def home(out: str | None = None, kind: str = "runs") -> Path:
    """The folder that holds runs: `--out`, else `.perfdoctor/runs` here, else the user's state folder.

    What is no run of a training is of another kind, and has a folder beside that of the runs.
    """
    if out is not None:
        return Path(out)
    usual = places(kind=kind)
    # Asked again once it is there: somebody else may just have made it.
    good = (folder for folder in usual if _writable(folder) and folder in places(kind=kind))
    found = next(good, None) or next(iter(usual), None)
    if found is None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return found


def places(out: str | None = None, kind: str = "runs") -> list[Path]:
    """The folders where runs may be, in the order in which `home` tries them; none is made."""
    if out is not None:
        return [Path(out)]
    import tempfile  # here: only a verb that keeps or reads runs needs it

    usual = [here(kind)]
    with suppress(OSError):
        usual.append(state_home() / "perfdoctor" / kind)
    own = []
    with suppress(OSError):  # no temporary folder can be written to, as on a full disk
        shared = Path(tempfile.gettempdir()) / f"perfdoctor-{os.getuid()}"
        # Anybody may have made one of that name: what is in it would be shown, and tried, as the user's own.
        if not os.path.lexists(shared) or is_private(shared):
            own = [shared / kind]
    return [place for place in usual if place is not None and not _leads_elsewhere(place)] + own


def option(folder: Path, kind: str = "runs", file: str = RUN) -> str:
    """What verbs need to list what is kept beside this folder, with such a file each: ` --out DIR`.

    Nothing where they look there anyway, or where nothing is.
    """
    own = Path(os.path.realpath(folder))
    holder = own.parent
    is_usual = holder in (Path(os.path.realpath(place)) for place in places(kind=kind))
    any_beside = any(found.parent != own for found in holder.glob(f"*/{file}"))
    return f" --out {shlex.quote(str(holder))}" if any_beside and not is_usual else ""


def beside(run: str, kind: str) -> list[Path]:
    """The folders near a run directory where what belongs to it may be: its own, and that of a kind."""
    parent = Path(run).absolute().parent
    return [parent, parent.parent / kind]


def working_folder() -> str:
    """The current folder; empty where it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def here(kind: str = "runs") -> Path | None:
    """The folder for runs below the current one; None where that was removed."""
    folder = working_folder()
    return below(Path(folder), kind) if folder else None


def below(folder: Path, kind: str = "runs") -> Path:
    """Where runs of scripts that were started in a folder are kept."""
    return folder / FOLDER / kind


def create(parent: Path, name: str) -> Path:
    """Make a new run directory below `parent`, named by time and script; never an existing one."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "run"
    base = f"{time.strftime('%Y%m%d-%H%M%S')}-{stem[:60]}"
    make_private(parent)
    if parent.parent.name == FOLDER:
        _keep_from_git(parent.parent)
    for attempt in range(1000):
        path = parent / (base if attempt == 0 else f"{base}-{attempt + 1}")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path
    raise NotARun(f"cannot create a run directory in {parent}", "give another folder with --out")


def _keep_from_git(folder: Path) -> None:
    """Have git take in nothing of our folder in a project, as caches of other tools do."""
    with suppress(OSError), open(folder / ".gitignore", "x", opener=opened_private) as file:
        file.write("*\n")


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for the owner alone."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    with suppress(FileExistsError):  # made by another process just now
        folder.mkdir(mode=0o700)
    if not folder.is_dir():  # a link that leads nowhere, or a file
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def is_private(folder: Path) -> bool:
    """Whether a folder is the user's, no link, and nobody else may write to it."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def opened_private(path: str, flags: int) -> int:
    """An opener for `open`: a new file is for its owner alone, and a link in its place is not followed."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def write_json(path: Path, value: Any) -> None:
    """Write `value` so that a reader sees the old file or the new one, never half of it."""
    write_bytes(path, json_bytes.dumps(value, orjson.OPT_INDENT_2))


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` likewise. Raises OSError, and leaves the old file, where there is no room."""
    draft = path.with_name(path.name + ".part")
    try:
        draft.unlink(missing_ok=True)  # of a writer that was killed, or somebody's link in a folder of theirs
        with open(draft, "xb", opener=opened_private) as file:
            file.write(content)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def append_line(path: Path, value: Any) -> None:
    """Append one JSON line with a single write."""
    line = json_bytes.dumps(value) + b"\n"
    try:
        descriptor = opened_private(str(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:
        note_full(path.parent, error)
        raise


def note_full(path: Path, error: OSError) -> None:
    """Where `error` is that of a full disk, note that the run at `path` is incomplete from now on."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        with suppress(OSError):  # an empty file needs no room; the first one's time is kept
            os.close(os.open(path / DISK_FULL, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def full_since(path: Path) -> float | None:
    """The time of day at which there was no more room for the run at `path`; None where there was."""
    try:
        return (path / DISK_FULL).stat().st_mtime
    except OSError:
        return None


def reserve(path: Path) -> None:
    """Take room in the run directory at `path` for what is written at the end of the command."""
    with suppress(OSError):
        write_bytes(path / RESERVE, bytes(RESERVE_BYTES))


def free_reserve(path: Path) -> None:
    """Give that room back."""
    with suppress(OSError):
        (path / RESERVE).unlink(missing_ok=True)


def end_watch(path: Path) -> int:
    """Tell every rank of the run at `path` to stop recording, and return how many those are."""
    told = 0
    for rows in path.glob(rows_file("steps", ANY_RANK)):
        with open(rows, "r+b") as file:
            file.seek(CONTROL_BYTE)
            file.write(b"\x01")
        told += 1
    return told


def pack_traces(path: Path) -> None:
    """Compress the exported windows of the run at `path`; until one is done, its plain file stays.

    Drafts that a killed script left are removed. Raises OSError where the disk is full.
    """
    import gzip  # here: only a run with windows needs it
    import shutil

    for draft in path.glob("trace.rank*.part"):
        draft.unlink(missing_ok=True)
    for plain in sorted(path.glob("trace.rank*.json")):
        draft = plain.with_name(plain.name + ".gz.part")
        try:
            with open(plain, "rb") as source, gzip.open(draft, "wb", compresslevel=GZIP_LEVEL) as target:
                os.chmod(draft, 0o600)
                shutil.copyfileobj(source, target, 1 << 20)
        except OSError:
            draft.unlink(missing_ok=True)  # the report needs the room
            raise
        os.replace(draft, plain.with_name(plain.name + ".gz"))
        plain.unlink()


def state_home() -> Path:
    """The folder of the user's that programs keep their state in. Raises OSError as `user_folder` does."""
    return user_folder("XDG_STATE_HOME", ".local", "state")


def user_folder(variable: str, *usual: str) -> Path:
    """The folder that `variable` names, else the usual one below the user's home.

    Raises OSError where there is neither: in a container, a user may be a mere number.
    """
    told = os.environ.get(variable)
    if told:
        return Path(told)
    try:
        return Path.home().joinpath(*usual)
    except RuntimeError:  # neither HOME nor an entry for the user
        raise FileNotFoundError(errno.ENOENT, "the user has no home folder") from None


def _leads_elsewhere(place: Path) -> bool:
    """Whether one of perfdoctor's own folders on the way to a place is a link that somebody else made."""
    for folder in (place, place.parent):
        with suppress(OSError):
            status = os.lstat(folder)
            if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.getuid()):
                return True
    return False


def _writable(folder: Path) -> bool:
    try:
        make_private(folder)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


# ---------------------------------------------------------------- finding


def kept(*parents: Path) -> dict[Path, Json]:
    """Run directories below these folders with what their run.json says, newest first."""
    found = {}
    for path in itertools.chain.from_iterable(map(_folders, parents)):
        told = read_json(path / RUN)
        if told is not None or is_run(path):  # one that is damaged is a run, too
            found[path] = told or {}
    return dict(sorted(found.items(), key=lambda run: begun(*run), reverse=True))


def newest(parent: Path) -> Path | None:
    """The newest run below `parent`; of thousands, the files of the last few are read.

    A run's file is written when it starts and again when it ends: what was written long before another run
    started is of an older one.
    """
    written = []
    for path in _folders(parent):
        with suppress(OSError):
            written.append(((path / RUN).stat().st_mtime, path))
    best: tuple[float, str, Path] | None = None
    for written_s, path in sorted(written, reverse=True):
        if best is not None and written_s < best[0] - CLOCKS_S:
            break
        started = (*begun(path, read_json(path / RUN) or {}), path)
        best = started if best is None else max(best, started)
    return None if best is None else best[2]


def latest(parent: Path) -> Path:
    """The same; raises NoSuchRun where there is none."""
    found = newest(parent)
    if found is None:
        raise none_in(parent)
    return found


def none_in(parent: Path) -> NoSuchRun:
    """What is said where a folder holds no run."""
    return NoSuchRun(f"no runs in {parent}", f"{WATCH_FIRST} (what was kept elsewhere: --out DIR)")


def is_run(path: Path) -> bool:
    """Whether a folder is a run directory; False for one of somebody else's that may not be entered."""
    try:
        return (path / RUN).is_file() or any(path.glob(rows_file("steps", ANY_RANK)))
    except OSError:
        return False


def _folders(parent: Path) -> list[Path]:
    try:
        return list(parent.iterdir())
    except OSError:  # there is none, or it is somebody else's, made by root in a container as a rule
        return []


def begun(path: Path, told: Json) -> tuple[float, str]:
    """When a run began, with its name, by what its run.json says: later runs come after earlier ones."""
    started = told.get("started_epoch_s")
    return (started if isinstance(started, (int, float)) else 0.0, path.name)


def read_json(path: Path) -> Json | None:
    """The object that a JSON file holds, or None where it cannot be read or holds something else."""
    try:
        value = json_text.loads(regular_file.content(path))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
