"""The run directory: its names, where it is kept, and how it is made and found."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import orjson

from perfdoctor.errors import NoSuchRun, NotARun
from perfdoctor.wire.rows import CONTROL_BYTE

SCHEMA = "perfdoctor.run/1"
GZIP_LEVEL = 3  # traces shrink to a tenth at 100 MB/s; level 9 takes four times as long for little more
SHARING = "sharing.json"  # how the machine shares its cores, measured after the run
PROBE = "probe"  # a link to what is injected, while the command runs

Json = dict[str, Any]


# ---------------------------------------------------------------- making


def home(out: str | None = None, kind: str = "runs") -> Path:
    """The folder that holds runs: `--out`, else `.perfdoctor/runs` here, else the user's state folder.

    What is no run of a training is of another kind, and has a folder beside that of the runs.
    """
    if out is not None:
        return Path(out)
    *usual, last = places(kind=kind)
    return next((folder for folder in usual if _writable(folder)), last)


def places(out: str | None = None, kind: str = "runs") -> list[Path]:
    """The folders where runs may be, in the order in which `home` tries them; none is made."""
    if out is not None:
        return [Path(out)]
    import tempfile  # here: only a verb that keeps or reads runs needs it

    here, state = Path.cwd() / ".perfdoctor" / kind, _state_home() / "perfdoctor" / kind
    return [here, state, Path(tempfile.gettempdir()) / f"perfdoctor-{os.getuid()}" / kind]


def create(parent: Path, name: str) -> Path:
    """Make a new run directory below `parent`, named by time and script; never an existing one."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "run"
    base = f"{time.strftime('%Y%m%d-%H%M%S')}-{stem[:60]}"
    parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1000):
        path = parent / (base if attempt == 0 else f"{base}-{attempt + 1}")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path
    raise NotARun(f"cannot create a run directory in {parent}", "give another folder with --out")


def write_json(path: Path, value: Any) -> None:
    """Write `value` so that a reader sees the old file or the new one, never half of it."""
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))
        os.chmod(draft, 0o600)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def append_line(path: Path, value: Any) -> None:
    """Append one JSON line with a single write."""
    line = orjson.dumps(value) + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def end_watch(path: Path) -> None:
    """Tell every rank of the run at `path` to stop recording; the scripts go on."""
    for rows in path.glob("steps.rank*.bin"):
        with open(rows, "r+b") as file:
            file.seek(CONTROL_BYTE)
            file.write(b"\x01")


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
        with open(plain, "rb") as source, gzip.open(draft, "wb", compresslevel=GZIP_LEVEL) as target:
            os.chmod(draft, 0o600)
            shutil.copyfileobj(source, target, 1 << 20)
        os.replace(draft, plain.with_name(plain.name + ".gz"))
        plain.unlink()


def _state_home() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


# ---------------------------------------------------------------- finding


def runs(parent: Path) -> list[Path]:
    """Run directories below `parent`, newest first."""
    if not parent.is_dir():
        return []
    found = [entry for entry in parent.iterdir() if (entry / "run.json").is_file()]
    return sorted(found, key=_started, reverse=True)


def latest(parent: Path) -> Path:
    """The newest run below `parent`."""
    found = runs(parent)
    if not found:
        raise NoSuchRun(f"no runs in {parent}", "watch a script first: perfdoctor run train.py")
    return found[0]


def _started(path: Path) -> tuple[float, str]:
    started = (read_json(path / "run.json") or {}).get("started_epoch_s")
    return (started if isinstance(started, (int, float)) else 0.0, path.name)


def read_json(path: Path) -> Json | None:
    """The object that a JSON file holds, or None where it cannot be read or holds something else."""
    try:
        value = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
