"""Runs when a watched interpreter starts, and waits for torch.

Until torch is imported it costs a fraction of a millisecond, and the script can see nothing of it but an
entry of `sys.meta_path`, which stays. Hence only modules that every interpreter has loaded by now, and syntax
that older ones than ours can read: a shell script may start any of them.
"""

import os
import sys
import time
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` itself costs more than all of this
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from typing import Any

IMPORTLIB = "<frozen importlib._bootstrap>"  # the interpreter keeps frames of this file out of tracebacks
FOLDER = os.path.dirname(__file__)
OLDEST = (3, 8)  # interpreters before this one have no torch worth watching
LOAD_ERRORS = (ImportError, SyntaxError, OSError, AttributeError, NameError, TypeError, AssertionError)
UNPROTECTED = 125  # as env and docker tell that they, not the command, failed
STARTED_BYTES = 256 * 1024  # some 4000 interpreters; a job that starts more does not fill the disk with them


class ImportWatcher:
    """A finder that finds nothing itself and calls back once a module it waits for has run its own code."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[Any], object]]] = {}
        self._asking: set[tuple[int, str]] = set()

    def add(self, name: str, callback: "Callable[[Any], object]") -> None:
        """Call `callback(module)` right after the import of `name`."""
        self._waiting.setdefault(name, []).append(callback)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)  # in place: a script may hold the list

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "ModuleSpec | None":
        """What the other finders find; the loader of a module we wait for is made to tell when it is done."""
        question = (get_ident(), name)
        if name not in self._waiting or question in self._asking:
            return None
        self._asking.add(question)  # a finder that asks all others must not come back to us
        try:
            spec = self._ask_others(name, path, target)
        finally:
            self._asking.discard(question)
        if spec is not None and spec.loader is not None:
            self._listen(name, spec.loader)
        return spec

    def _ask_others(self, name: str, path: "Any", target: "Any") -> "ModuleSpec | None":
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def _listen(self, name: str, loader: "Any") -> None:
        """Shadow `exec_module` on this one loader until it has run; spec and loader stay the real ones."""
        execute = loader.exec_module

        def exec_module(module: "Any") -> None:
            execute(module)
            if module.__name__ == name:  # else it is a loader of several modules, and another one's turn
                vars(loader).pop("exec_module", None)
                self._done(name, module)

        exec_module.__code__ = exec_module.__code__.replace(co_filename=IMPORTLIB)
        try:
            loader.exec_module = exec_module
        except (AttributeError, TypeError):
            pass  # a loader that takes no attributes: this module goes unwatched

    def _done(self, name: str, module: "Any") -> None:
        # It stays in the list: another thread may be walking along it, and would skip the finder behind.
        for callback in self._waiting.pop(name, []):
            callback(module)


def _wait_for_torch(run: str) -> None:
    started_ns = time.perf_counter_ns()
    if any(type(finder).__name__ == ImportWatcher.__name__ for finder in sys.meta_path):
        return  # already waiting: this file was reached by two names
    _write_started(run, started_ns)
    if os.path.isdir(os.path.join(run, "diverted")):
        _redirect_writes(run)
    if "torch" in sys.modules:
        _begin(run, started_ns)
    else:
        ImportWatcher().add("torch", lambda torch: _begin(run, started_ns))


def _write_started(run: str, started_ns: int) -> None:
    """One line that says: an interpreter was reached here, whether or not it imports torch later."""
    line = '{"event":"started","pid":%d,"t_ns":%d,"python":"%d.%d.%d"}\n'
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = os.open(os.path.join(run, "started.jsonl"), flags, 0o600)
        if os.fstat(file).st_size < STARTED_BYTES:
            os.write(file, (line % (os.getpid(), started_ns, *sys.version_info[:3])).encode())
        os.close(file)
    except OSError:
        pass  # a full disk is not the script's business


def _begin(run: str, started_ns: int) -> None:
    """Start the probe, and with it the tweaks."""
    if not os.path.isdir(run):
        return
    try:
        start = _load("start")
        sys.modules["_perfdoctor"].started_ns = started_ns  # type: ignore[attr-defined]
        start.begin(run)
    except LOAD_ERRORS as error:  # what `start.begin` itself runs into, patch.py keeps from the script
        _log(run, f"the probe could not start: {type(error).__name__}: {error}")


def _redirect_writes(run: str) -> None:
    """Keep this process of a trial from changing files, or end it."""
    try:
        _load("trial.sandbox.write_redirection").begin(run)
    except (*LOAD_ERRORS, KeyError, ValueError) as error:
        os.write(2, f"perfdoctor: cannot protect files: {type(error).__name__}: {error}\n".encode())
        os._exit(UNPROTECTED)


def _load(name: str) -> "Any":
    """A module of what lives inside the user's process: from its own folder, past `sys.path`."""
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    if "_perfdoctor" not in sys.modules:
        folder = os.path.dirname(os.path.dirname(os.path.realpath(FOLDER)))
        init = os.path.join(folder, "__init__.py")
        spec = spec_from_file_location("_perfdoctor", init, submodule_search_locations=[folder])
        assert spec is not None
        assert spec.loader is not None
        sys.modules["_perfdoctor"] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules["_perfdoctor"])
    return import_module(f"_perfdoctor.probe.{name}")


def _log(run: str, line: str) -> None:
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = os.open(os.path.join(run, "probe.log"), flags, 0o600)
        line = f"pid {os.getpid()} {' '.join(line.split())}\n"
        os.write(file, line.encode("utf-8", "backslashreplace"))
        os.close(file)
    except OSError:
        pass


def _arm() -> None:
    sys.path[:] = [entry for entry in sys.path if entry != FOLDER]
    sys.path_importer_cache.pop(FOLDER, None)
    run = os.environ.get("PERFDOCTOR_RUN")
    if run is None and os.path.islink(FOLDER):
        run = os.path.dirname(FOLDER)  # a launcher dropped the variable: the link lies in the run directory
    if run and sys.version_info >= OLDEST and os.path.isdir(run):
        _wait_for_torch(run)


if __name__ == "sitecustomize":
    _arm()
    # Make room for the environment's own. Where there is none, this very import tells `site` so, and leaves
    # `sys.modules` as it is in an interpreter that nobody watches.
    del sys.modules["sitecustomize"]
    __import__("sitecustomize")
