"""`perfdoctor run` where nobody planned to be: odd names, folders, environments and streams.

Each script is run as it is and watched: it sees, says and does the same, and there is a report of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.launching import WATCHED, Seen, bare, both, environment, record, runs, watched

pytestmark = pytest.mark.process

TELLS = """
import os, sys
words = [os.fsencode(word) for word in sys.argv]
print([word if len(word) < 1000 else len(word) for word in words], sys.flags, os.path.basename(__file__) in sys.argv[0])
raise SystemExit(3)
"""


def perfdoctor(cwd: Path, *words: str, **variables: str) -> Seen:
    """The whole command, with the report at its end."""
    env = environment(**{"XDG_STATE_HOME": str(cwd / "state"), "COLUMNS": "100"} | variables)
    return bare(cwd, sys.executable, "-m", "perfdoctor", "run", "--no-stacks", *words, env=env)


def assert_reported(plain: Seen, ours: Seen) -> None:
    """The script was as it is alone, and what was said behind it can steer no terminal."""
    assert (ours.status, ours.stdout) == (plain.status, plain.stdout)
    assert ours.stderr.startswith(plain.stderr)
    said = ours.stderr[len(plain.stderr) :]
    assert "Kept in" in said, said
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", said)
    assert "Traceback" not in said


# ---------------------------------------------------------------- names

NAMES = {
    "no UTF-8": b"caf\xe9.py",
    "blanks and quotes": b'it\'s "one" file.py',
    "markup": b"[bold red]x `a` <b> | *.py",
    "control characters": b"a\x1b[2J\nb.py",
    "an emoji": "🙂 größe.py".encode(),
    "as long as names may be": b"n" * 252 + b".py",
}


@pytest.mark.shows("odd-names", "terminal-text")
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_a_script_of_any_name_is_run_and_reported(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).write_text(TELLS)
    words = (os.fsdecode(name), os.fsdecode(b"\xff\xfe"), "", "[/bold]")
    plain = bare(tmp_path, sys.executable, *words)
    assert_reported(plain, perfdoctor(tmp_path, *words))
    assert plain.status == 3
    kept = json.loads((runs(tmp_path)[0] / "report.json").read_text())
    assert kept["run"]["command"][2] == r"\udcff\udcfe"


@pytest.mark.shows("odd-names")
def test_a_very_long_command_line_reaches_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TELLS)
    words = ("train.py", "x" * 100_000, *["--word"] * 5_000)
    plain = bare(tmp_path, sys.executable, *words)
    ours = perfdoctor(tmp_path, *words)
    assert_reported(plain, ours)
    assert len(ours.stderr) < 10_000  # a page is no place for it


@pytest.mark.shows("odd-names", "surroundings")
@pytest.mark.parametrize("name", [b"with blanks", b"with:colon", b"caf\xe9"])
def test_a_folder_of_any_name_can_be_worked_in(tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    (folder / "train.py").write_text(TELLS + "# in ./")
    (folder / "a b").mkdir()
    (folder / "a b" / "of_the_users_own.py").write_text("print('found')")
    (folder / "train.py").write_text(f"import of_the_users_own\n{TELLS}")
    path = f"a b:{tmp_path}/no such:"
    plain = bare(folder, sys.executable, "train.py", env=environment(PYTHONPATH=path))
    assert_reported(plain, perfdoctor(folder, "train.py", PYTHONPATH=path))
    assert plain.stdout.startswith("found")
    assert (runs(folder)[0] / "started.jsonl").exists()  # it was reached


@pytest.mark.shows("odd-names", "plain-terminal")
def test_under_the_locale_of_the_system_itself_everything_is_ascii(tmp_path: Path) -> None:
    (tmp_path / "größe.py").write_text(TELLS)
    plainest = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    name = os.fsdecode("größe.py".encode())
    plain = bare(tmp_path, sys.executable, name, env=environment(**plainest))
    ours = perfdoctor(tmp_path, name, **plainest)
    assert_reported(plain, ours)
    assert ours.stderr.isascii()


# ---------------------------------------------------------------- folders


@pytest.mark.shows("nowhere-to-write")
def test_a_working_folder_that_is_gone_keeps_no_script_from_running(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TELLS)
    gone = ("bash", "-c", 'mkdir gone && cd gone && rmdir ../gone && "$@"', "bash")
    state = environment(XDG_STATE_HOME=str(tmp_path / "state"))
    script = str(tmp_path / "train.py")
    plain = bare(tmp_path, *gone, sys.executable, script)
    words = (sys.executable, "-m", "perfdoctor", "run", "--no-stacks", script)
    ours = bare(tmp_path, *gone, *words, env=state)
    assert_reported(plain, ours)
    assert f"the run is kept in {tmp_path / 'state'}" in ours.stderr


@pytest.mark.shows("nowhere-to-write")
def test_a_read_only_working_folder_keeps_no_script_from_running(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    mounted = ("mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(tmp_path / "work"))
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        (tmp_path / "train.py").write_text(TELLS)
        plain = bare(tmp_path / "work", sys.executable, "../train.py")
        ours = perfdoctor(tmp_path / "work", "../train.py", XDG_STATE_HOME=str(tmp_path / "state"))
    finally:
        subprocess.run(("umount", "-l", str(tmp_path / "work")), check=True)
    assert_reported(plain, ours)
    assert f"the run is kept in {tmp_path / 'state'}" in ours.stderr


@pytest.mark.shows("private-files")
def test_a_link_of_the_users_own_leads_runs_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / ".perfdoctor").symlink_to("scratch")
    (tmp_path / "train.py").write_text("")
    assert watched(tmp_path, "train.py") == Seen(0, "", "")
    assert len(list((tmp_path / "scratch" / "runs").iterdir())) == 1


@pytest.mark.slow
@pytest.mark.shows("no-other-writes")
def test_nothing_is_written_but_runs_and_a_small_file_of_the_users(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(TRAINS)
    written = {}
    for name, words in {"bare": (), "ours": ("-m", "perfdoctor", "run")}.items():
        homes = {"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "TMPDIR": "tmp"}
        place = tmp_path / name
        folders = {variable: str(place / folder) for variable, folder in homes.items()}
        for folder in ("work", *homes.values()):
            (place / folder).mkdir(parents=True)
        env = environment(**folders, OMP_NUM_THREADS="1")
        done = bare(place / "work", sys.executable, *words, str(tmp_path / "train.py"), env=env)
        assert (done.status, done.stdout) == (0, "trained\n"), done.stderr
        written[name] = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    more = written["ours"] - written["bare"]
    assert any(path.endswith("steps.rank0.bin") for path in more)
    assert {path.split("/")[0:2][-1] for path in more} <= {".perfdoctor", "perfdoctor"}, more
    assert len([path for path in more if not path.startswith("work/.perfdoctor/runs/")]) <= 1


TRAINS = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(300):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
print("trained")
"""

# ---------------------------------------------------------------- environments and interpreters

VARIABLES = (
    {"PYTHONSAFEPATH": "1"},
    {"PYTHONOPTIMIZE": "2", "PYTHONHASHSEED": "7", "PYTHONUNBUFFERED": "1"},
    {"PYTHONWARNINGS": "error"},
    {"PYTHONDEVMODE": "1"},
    {"PYTHONFAULTHANDLER": "1", "PYTHONMALLOC": "debug"},
)


@pytest.mark.shows("surroundings", "kept-out")
@pytest.mark.parametrize("variables", VARIABLES, ids=lambda variables: next(iter(variables)))
def test_variables_that_change_the_interpreter_change_it_as_ever(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    (tmp_path / "train.py").write_text(TELLS)
    plain = bare(tmp_path, sys.executable, "train.py", env=environment(**variables))
    assert_reported(plain, perfdoctor(tmp_path, "train.py", **variables))
    assert (runs(tmp_path)[0] / "started.jsonl").exists()


@pytest.mark.shows("other-tools")
def test_a_list_of_imports_has_ours_in_it_and_nothing_else_more(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import json\nprint('trained')")
    plain, ours = both(tmp_path, "-X", "importtime", "train.py")
    assert (ours.status, ours.stdout) == (plain.status, plain.stdout)
    names = [set(re.findall(r"\| +([\w.]+)$", seen.stderr, re.MULTILINE)) for seen in (plain, ours)]
    assert "json" in names[0]
    assert names[1] - names[0] <= {"sitecustomize"}
    assert names[0] <= names[1]


@pytest.mark.shows("other-tools")
def test_the_interpreters_own_profiler_sees_the_scripts_calls_and_one_of_ours(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import json\nprint(json.dumps(list(range(9))))")
    plain, ours = both(tmp_path, "-m", "cProfile", "train.py")
    assert (ours.status, ours.stderr, ours.stdout.splitlines()[0]) == (0, "", plain.stdout.splitlines()[0])
    names = [set(re.findall(r"([\w.]+):\d+\((.+)\)$", seen.stdout, re.MULTILINE)) for seen in (plain, ours)]
    assert ("encoder.py", "encode") in names[0]
    assert names[0] <= names[1]
    assert names[1] - names[0] <= {
        ("sitecustomize.py", "find_spec")
    }  # asked for each module until torch comes


@pytest.mark.shows("subprocess", "kept-out")
def test_a_child_with_an_empty_environment_is_started_as_ever(tmp_path: Path) -> None:
    code = """
import subprocess, sys
child = "import os, sys; print(sorted(os.environ), sys.path[1:], [m for m in sys.modules if 'perfdoctor' in m])"
print(subprocess.run([sys.executable, "-c", child], env={}, capture_output=True, text=True))
"""
    (tmp_path / "train.py").write_text(code)
    plain, ours = both(tmp_path, "train.py")
    assert ours == plain
    assert "returncode=0" in plain.stdout


@pytest.mark.shows("other-interpreter")
def test_the_interpreter_of_a_conda_environment_is_the_scripts(tmp_path: Path) -> None:
    """conda keeps its interpreter and its packages where an environment of Python's own does, without pyvenv.cfg."""
    env, base = tmp_path / "env", Path(sys.base_prefix)
    (env / "bin").mkdir(parents=True)
    (env / "conda-meta").mkdir()
    torch = env / "lib" / f"python3.{sys.version_info[1]}" / "site-packages" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text("import sys\nprint('torch of', sys.executable)")
    python = env / "bin" / "python"
    site = torch.parent
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec -a {python} {base}/bin/python3 "$@"\n'
    )
    python.chmod(0o755)
    (tmp_path / "train.py").write_text("import torch")
    variables = environment(CONDA_PREFIX=str(env), CONDA_DEFAULT_ENV="env")
    ours = watched(tmp_path, "train.py", env=variables)
    assert ours == bare(tmp_path, str(python), "train.py", env=variables)
    assert record(tmp_path)["command"][0] == str(python)


# ---------------------------------------------------------------- streams, and runs beside each other


@pytest.mark.shows("closed-output", "exit-status")
@pytest.mark.parametrize(
    "closed", [">&-", "2>&-", ">&- 2>&- <&-", "2>/dev/full", ">/dev/full", "2>&1 | head -c 1"]
)
def test_without_anybody_to_tell_the_report_is_kept_and_the_status_is_the_scripts(
    tmp_path: Path, closed: str
) -> None:
    (tmp_path / "train.py").write_text("import os\nos._exit(3)")
    shell = f'"$@" {closed}; echo "${{PIPESTATUS[0]}}" >{tmp_path}/status'
    words = (sys.executable, "-m", "perfdoctor", "run", "--no-stacks", "train.py")
    bare(tmp_path, "bash", "-c", shell, "bash", *words)
    assert (tmp_path / "status").read_text() == "3\n"
    kept = json.loads((runs(tmp_path)[0] / "report.json").read_text())
    assert kept["run"]["exit_code"] == 3


@pytest.mark.shows("long-and-many")
def test_runs_that_start_at_the_same_moment_have_a_folder_each(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nsys.exit(int(sys.argv[1]))")
    started = [
        subprocess.Popen([*WATCHED, "train.py", str(status)], cwd=tmp_path, env=environment())
        for status in range(4)
    ]
    assert [process.wait(60) for process in started] == [0, 1, 2, 3]
    kept = [json.loads((path / "run.json").read_text()) for path in runs(tmp_path)]
    assert sorted(entry["exit_code"] for entry in kept) == [0, 1, 2, 3]
    assert all(str(entry["exit_code"]) == entry["command"][-1] for entry in kept)
