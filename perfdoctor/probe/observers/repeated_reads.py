"""Files that the training thread reads again, with the same function and arguments, and unchanged.

The functions are watched by which scripts read whole files. What a loader reads for its items is left to
others (`item_repeats`, `item_work`).
"""

from __future__ import annotations

import io
import os
from _thread import get_ident
from functools import partial
from pathlib import PurePath
from sys import modules
from types import FunctionType
from typing import Any, Dict, List, Optional, Tuple

from ...wire.events.repeated_reads import RepeatedReadEvent
from ...wire.step_rows import DATA_WAIT
from .. import patch
from ..checksum import UNREADABLE, checksum
from ..looks.user_calls import READS
from ..observer import Watch, observer
from ..recorder import clock
from ..user_frames import user_lines
from ..wrapping import Args, Kwargs

# Functions in Python: one in C, such as pickle's, becomes no method where a class of the script's holds it.
READERS = {
    "json": ("load",),
    "torch": ("load",),
    "numpy": ("load", "loadtxt", "genfromtxt"),
    "pandas": ("read_csv", "read_table", "read_json", "read_parquet", "read_feather", "read_pickle"),
    "yaml": ("load", "safe_load"),
    "joblib": ("load",),
    "scipy.io": ("loadmat",),
    "safetensors.torch": ("load_file",),
}
FILES_MAX = 256  # that are told apart: who reads more of them reads the items of a data set

Key = Tuple[str, str, int]  # path, function, checksum of the other arguments
Version = Tuple[int, ...]  # of a file: another one where it was written in between


class File:
    """What is known of a file that is read in one way."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.version: Version = ()
        self.reads = 1
        self.again_ns = 0
        self.lines: List[Dict[str, Any]] = []
        self.told = 1


class FileReads:
    """The files of one process."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.session = watch.session
        self.paths: Dict[str, bool] = {}
        self.files: Dict[Key, File] = {}
        self.reading = False  # one such function calls others

    def before(self, function: str, args: Args, kwargs: Kwargs) -> Optional[Tuple[File, Version, int]]:
        """A file is about to be read."""
        if self.reading or not args or self.session.in_worker() or not self._may_wait():
            return None
        path = _path(args[0])
        if path is None or (path not in self.paths and len(self.paths) >= FILES_MAX):
            return None
        others = checksum((args[1:], kwargs))
        try:
            status = os.stat(path)
        except (OSError, ValueError):  # a URL, or no file
            return None
        if others is UNREADABLE:
            return None
        self.paths[path] = True
        file = self.files.get((path, function, others))
        if file is None:
            file = self.files[path, function, others] = File(len(self.files) + 1)
        self.reading = True
        return file, (status.st_ino, status.st_size, status.st_mtime_ns), clock()

    def _may_wait(self) -> bool:
        """Whether this thread may be the one that trains, and makes no batch."""
        recorder = self.session.recorder
        return recorder is None or (
            not recorder.off and recorder.owner == get_ident() and recorder.current != DATA_WAIT
        )

    def after(self, token: Tuple[File, Version, int], args: Args, result: Any) -> None:
        """It was read."""
        file, version, begin = token
        self.reading = False
        recorder = self.session.recorder
        if result is None:
            file.version = ()
        elif file.version != version:
            file.version = version
        elif recorder is not None and recorder.written:  # before the first step nobody waits for it again
            file.reads += 1
            file.again_ns += clock() - begin
            file.lines = file.lines or user_lines()

    def tell(self) -> None:
        """Write down what was read again since that was done last."""
        for file in list(self.files.values()):
            if file.reads > file.told:
                file.told = file.reads
                event = RepeatedReadEvent(
                    file=file.number, lines=file.lines, reads=file.reads, again_ns=file.again_ns
                )
                self.watch.write(event)


def _path(source: Any) -> Optional[str]:
    """The path of a file, or of an open one of which nothing was read yet."""
    kind = type(source)
    if kind is str:
        return str(source)
    if issubclass(kind, PurePath):
        return str(source)
    raw = source.buffer if kind is io.TextIOWrapper else source
    if type(raw) is not io.BufferedReader or raw.closed or not raw.seekable() or raw.tell():
        return None
    name = getattr(raw, "name", None)
    return name if type(name) is str else None


def _the_same(wrapped: Any, original: Any) -> Any:
    return wrapped


@observer
def repeated_reads(watch: Watch) -> None:
    """Watch functions that read files, once the script has imported them."""
    reads = FileReads(watch)

    def watch_readers(names: Tuple[str, ...], module: Any) -> None:
        for name in names:
            original = getattr(module, name, None)
            if not isinstance(original, FunctionType):
                continue
            function = f"{module.__name__}.{name}"
            watch.wrap(module, name, partial(reads.before, function), reads.after, READS)
            # By its module and name: so `pickle` looks for what is handed to another process.
            home = modules.get(original.__module__)
            if getattr(home, name, None) is original:
                patch.replace(home, name, partial(_the_same, getattr(module, name)))

    for module, names in READERS.items():
        watch.on_import(module, READS, partial(watch_readers, names))
    watch.each_second(READS, reads.tell)
