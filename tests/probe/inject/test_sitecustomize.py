"""What happens in an interpreter up to the import of torch: with a tiny torch and a stub probe."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

import perfdoctor
from tests.support.launching import Seen, bare, environment

pytestmark = pytest.mark.process

PROBE = Path(perfdoctor.__file__).parent / "probe"
TORCH = "import sys\nalready = '_perfdoctor' in sys.modules\ndone = True\n"
START = """
import json, os, sys

def begin(run_dir):
    torch = sys.modules["torch"]
    facts = {"done": torch.done, "already": torch.already, "started_ns": sys.modules["_perfdoctor"].started_ns}
    with open(os.path.join(run_dir, "begun.jsonl"), "a") as file:
        file.write(json.dumps(facts) + "\\n")
"""

AFTER_TORCH = """
import sys
finders = sys.meta_path
import torch
spec, loader = torch.__spec__, torch.__loader__
print(dir(torch), spec.name, spec.origin, spec.cached, spec.submodule_search_locations)
print(type(loader), vars(loader), loader is spec.loader, loader.exec_module.__qualname__)
names = [type(finder).__name__ for finder in finders]
print(finders is sys.meta_path, [name for name in names if name != "ImportWatcher"])
"""


class Place:
    """A folder with a probe whose start is a stub, a run directory, and a torch of three lines."""

    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "work"
        self.run = folder / "run"
        self.probe = folder / "perfdoctor" / "probe"
        self.inject = self.probe / "inject"
        for made in (self.cwd, self.run, self.probe):
            made.mkdir(parents=True)
        (self.probe.parent / "__init__.py").touch()
        shutil.copytree(PROBE / "inject", self.inject, ignore=shutil.ignore_patterns("__pycache__"))
        (self.probe / "__init__.py").touch()
        (self.probe / "start.py").write_text(START)
        (self.cwd / "torch").mkdir()
        (self.cwd / "torch" / "__init__.py").write_text(TORCH)

    def environment(self, **more: str) -> dict[str, str]:
        path = str(self.inject) + (":" + more.pop("PYTHONPATH") if "PYTHONPATH" in more else "")
        return environment(PYTHONPATH=path, **{"PERFDOCTOR_RUN": str(self.run), **more})

    def python(self, code: str, **more: str) -> Seen:
        """Run `code` as a script in an interpreter that the probe reaches."""
        (self.cwd / "script.py").write_text(code)
        return bare(self.cwd, sys.executable, "script.py", env=self.environment(**more))

    def plain(self, code: str, **more: str) -> Seen:
        """The same without us."""
        (self.cwd / "script.py").write_text(code)
        return bare(self.cwd, sys.executable, "script.py", env=environment(**more))

    def begun(self) -> list[dict[str, object]]:
        """What the stub wrote each time it was called."""
        file = self.run / "begun.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def log(self) -> str:
        file = self.run / "probe.log"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_probe_begins_once_after_torch_has_run_its_own_code(place: Place) -> None:
    seen = place.python("import torch, importlib\nimportlib.reload(torch)\nimport torch\n")
    assert seen == Seen(0, "", "")
    (begun,) = place.begun()
    assert begun["done"] is True
    assert begun["already"] is False
    assert begun["started_ns"]


@pytest.mark.shows("surroundings")
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            "import sys\nprint(sorted(sys.modules), sys.path, sys.path_importer_cache.keys())", id="state"
        ),
        pytest.param(
            "try:\n    import sitecustomize\nexcept ImportError as e:\n    print(repr(e))", id="sitecustomize"
        ),
        pytest.param(AFTER_TORCH, id="torch"),
    ],
)
def test_the_script_sees_what_it_sees_without_us(place: Place, code: str) -> None:
    assert place.python(code) == place.plain(code)


@pytest.mark.shows("guest", "surroundings")
def test_no_module_is_loaded_before_torch_that_a_bare_interpreter_does_not_load(place: Place) -> None:
    code = "import sys\nprint('\\n'.join(sorted(sys.modules)))"
    assert place.python(code).stdout == place.plain(code).stdout
    assert (place.run / "started.jsonl").exists()


def test_looking_for_torch_without_importing_it_begins_nothing(place: Place) -> None:
    place.python("import importlib.util\nassert importlib.util.find_spec('torch')")
    assert place.begun() == []
    place.python("import importlib.util\nassert importlib.util.find_spec('torch')\nimport torch")
    assert len(place.begun()) == 1


@pytest.mark.shows("fails-early")
@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="older interpreters put our frame back when re-raising"
)
@pytest.mark.parametrize("error", ["ImportError('no libcudart')", "KeyError('x')", "KeyboardInterrupt"])
def test_a_torch_that_cannot_be_imported_fails_as_without_us(place: Place, error: str) -> None:
    (place.cwd / "torch" / "__init__.py").write_text(f"def load():\n    raise {error}\nload()\n")
    seen = place.python("import torch")
    assert seen == place.plain("import torch")
    assert "Traceback" in seen.stderr
    assert place.begun() == []


def test_a_second_try_after_a_failed_import_is_watched(place: Place) -> None:
    once = "import sys\nif not hasattr(sys, 'again'):\n    sys.again = 1\n    raise ImportError\n"
    (place.cwd / "torch" / "__init__.py").write_text(once + TORCH)
    place.python("try:\n    import torch\nexcept ImportError:\n    import torch")
    assert len(place.begun()) == 1


def test_without_torch_the_import_error_is_the_interpreters_own(place: Place) -> None:
    shutil.rmtree(place.cwd / "torch")
    code = "import sys\nsys.path = [p for p in sys.path if 'site-packages' not in p]\nimport torch"
    seen = place.python(code)
    assert seen == place.plain(code)
    assert "No module named 'torch'" in seen.stderr


@pytest.mark.shows("own-failure")
@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("raise ImportError('two\\nlines')", id="raises"),
        pytest.param("def begin(:", id="syntax"),
        pytest.param("", id="empty"),
    ],
)
def test_a_probe_that_cannot_start_is_silent_and_leaves_one_line(place: Place, broken: str) -> None:
    (place.probe / "start.py").write_text(broken)
    assert place.python("import torch\nprint(torch.done)") == Seen(0, "True\n", "")
    assert place.log().count("\n") == 1
    assert "the probe could not start" in place.log()
    assert (place.run / "probe.log").stat().st_mode & 0o777 == 0o600


def test_without_a_run_directory_nothing_happens(place: Place) -> None:
    assert place.python("import torch", PERFDOCTOR_RUN="") == Seen(0, "", "")
    assert place.python("import torch", PERFDOCTOR_RUN=str(place.run / "gone")) == Seen(0, "", "")
    assert list(place.run.iterdir()) == []


def test_without_the_variable_the_run_is_found_by_the_link_that_lies_in_it(place: Place) -> None:
    (place.run / "probe").symlink_to(place.inject)
    (place.cwd / "script.py").write_text("import sys, torch\nprint([p for p in sys.path if 'probe' in p])")
    seen = bare(place.cwd, sys.executable, "script.py", env=environment(PYTHONPATH=str(place.run / "probe")))
    assert seen == Seen(0, "[]\n", "")
    assert len(place.begun()) == 1
    assert (place.run / "started.jsonl").exists()


def test_a_link_to_nowhere_is_passed_over(place: Place) -> None:
    (place.run / "probe").symlink_to(place.run / "gone")
    (place.cwd / "script.py").write_text("import torch")
    seen = bare(place.cwd, sys.executable, "script.py", env=environment(PYTHONPATH=str(place.run / "probe")))
    assert seen == Seen(0, "", "")
    assert place.begun() == []


def test_of_two_runs_one_inside_the_other_the_inner_one_watches(place: Place) -> None:
    outer = place.run.with_name("outer")
    outer.mkdir()
    for run in (place.run, outer):
        (run / "probe").symlink_to(place.inject)
    (place.cwd / "script.py").write_text("import sys, torch\nprint([p for p in sys.path if 'probe' in p])")
    path = f"{place.run / 'probe'}:{outer / 'probe'}"
    seen = bare(place.cwd, sys.executable, "script.py", env=environment(PYTHONPATH=path))
    assert seen == Seen(0, "[]\n", "")
    assert len(place.begun()) == 1
    assert list(outer.iterdir()) == [outer / "probe"]


def test_a_run_directory_that_goes_away_before_torch_comes_is_not_made_again(place: Place) -> None:
    code = f"import shutil\nshutil.rmtree({str(place.run)!r})\nimport torch"
    assert place.python(code) == Seen(0, "", "")
    assert not place.run.exists()


def test_a_run_directory_that_takes_no_line_is_not_the_scripts_business(place: Place) -> None:
    (place.run / "started.jsonl").mkdir()
    (place.run / "probe.log").mkdir()
    (place.probe / "start.py").write_text("raise ImportError")
    assert place.python("import torch") == Seen(0, "", "")


@pytest.mark.shows("surroundings")
def test_the_environments_own_sitecustomize_runs_and_may_import_torch(place: Place) -> None:
    own = place.cwd / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text(
        f"import sys\nsys.path.insert(0, {str(place.cwd)!r})\nimport torch\n"
    )
    code = "import sys, sitecustomize\nprint(sitecustomize.__file__, 'torch' in sys.modules)"
    seen = place.python(code, PYTHONPATH=str(own))
    assert seen == place.plain(code, PYTHONPATH=str(own))
    assert "own/sitecustomize.py" in seen.stdout
    assert len(place.begun()) == 1


@pytest.mark.parametrize("own", ["raise KeyError('mine')", "import no_such_module"])
def test_a_failing_sitecustomize_of_the_environment_says_what_it_says_without_us(
    place: Place, own: str
) -> None:
    (place.cwd / "own").mkdir()
    (place.cwd / "own" / "sitecustomize.py").write_text(own)
    path = str(place.cwd / "own")
    assert place.python("print(1)", PYTHONPATH=path) == place.plain("print(1)", PYTHONPATH=path)


def test_a_finder_that_asks_all_the_others_does_not_go_in_circles(place: Place) -> None:
    code = """
import importlib.util, sys

class Asking:
    asking = False
    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.asking:
            return None
        self.asking = True
        try:
            return importlib.util.find_spec(name)
        finally:
            self.asking = False

sys.meta_path.insert(POSITION, Asking())
import torch
"""
    for position in ("0", "1"):
        assert place.python(code.replace("POSITION", position)) == Seen(0, "", "")
    assert len(place.begun()) == 2


@pytest.mark.shows("long-and-many")
def test_a_user_who_mocks_the_clock_changes_nothing(place: Place) -> None:
    mocked = "mock.patch('time.perf_counter_ns', side_effect=OSError)"
    code = f"from unittest import mock\nwith {mocked}:\n    import torch"
    assert place.python(code) == Seen(0, "", "")
    assert len(place.begun()) == 1


def test_threads_that_import_torch_at_the_same_time_begin_it_once(place: Place) -> None:
    code = """
import threading
threads = [threading.Thread(target=__import__, args=("torch",)) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    assert place.python(code) == Seen(0, "", "")
    assert len(place.begun()) == 1


@pytest.mark.shows("subprocess")
def test_every_interpreter_writes_one_line_until_there_are_too_many(place: Place) -> None:
    place.python("import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])\nprint(1)")
    started = place.run / "started.jsonl"
    lines = [json.loads(line) for line in started.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["started", "started"]
    assert len({line["pid"] for line in lines}) == 2
    started.write_text("x" * 300_000)
    place.python("print(1)")
    assert started.stat().st_size == 300_000


@pytest.mark.shows("spawn", "fork")
def test_spawned_and_forkserver_children_are_reached(place: Place) -> None:
    code = """
import multiprocessing

class Mine:
    pass

def child(value):
    import torch

if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        process = multiprocessing.get_context(method).Process(target=child, args=(Mine(),))
        process.start()
        process.join()
        print(method, process.exitcode)
"""
    seen = place.python(code)
    assert seen == Seen(0, "spawn 0\nforkserver 0\nfork 0\n", "")
    assert len(place.begun()) == 3


@pytest.mark.shows("other-interpreter")
def test_the_file_reads_in_python_3_6() -> None:
    import ast

    source = (PROBE / "inject" / "sitecustomize.py").read_text()
    ast.parse(source, feature_version=(3, 6))


@pytest.mark.shows("other-interpreter")
def test_an_interpreter_of_another_environment_is_reached_without_installing_anything(place: Place) -> None:
    names = (f"python3.{minor}" for minor in range(9, 16) if minor != sys.version_info[1])
    found = [
        path for name in names if (path := shutil.which(name)) and bare(place.cwd, path, "-c", "").status == 0
    ]
    if not found:
        pytest.skip("there is no other interpreter here")
    for other in found:
        assert bare(place.cwd, other, "-c", "import torch", env=place.environment()) == Seen(0, "", "")
    assert len(place.begun()) == len(found)
