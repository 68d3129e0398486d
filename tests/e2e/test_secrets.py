"""Sixty planted words, one real run and one real trial: what SECURITY.md promises to keep nobody can find.

Two things are kept on purpose, and the tests name them: the names that the user gave to files, modules and
functions, and, in the logs of a trial's executions, what the script printed.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.launching import environment

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(600)]

# The number of a canary stands where the braces are: short enough not to be found by its look alone.
CANARY = "Cq7x{:02}Lw"
ARGUMENTS = """
    -p {}|-p{}|--password {}|--password={}|--db-passwd {}|--api-key {}|--api_key={}|--apiKey {}|--clientSecret {}
    --hf-token {}|wandb.api_key={}|++logger.token={}|--login alice:{}|-u alice:{}|--creds={}|--pat {}|--jwt {}
    --cookie {}|--cookie sid={}|--session-id {}|--session {}|--auth {}|--signing-key {}|--aws-access-key-id {}
    MY_SECRET={}|-H=Authorization: Bearer {}|-H=X-Api-Key: {}|--json={{"password": "{}"}}|--cfg={{'token': '{}'}}
    https://h/x?key={}|--sas=?sv=1&sig={}|https://u:{}@h/x|--url=s3://{}@bucket/x|https://h/x?a=1&access_token={}
    hf_{}{}{}{}|--x={}k3J9Q2mZ7tPw4Lb
"""
ENVIRONMENT = {
    "WANDB_API_KEY": "{}",
    "HF_TOKEN": "{}",
    "AWS_SECRET_ACCESS_KEY": "{}",
    "DB_PASSWORD": "{}",
    "SESSION_COOKIE": "{}",
    "MY_WORD": "{}",
    "NCCL_AUTH": "{}",
    "NCCL_KEY": "{}",
    "TORCH_SECRET": "{}",
    "TORCH_HOME": "https://alice:{}@h/cache",
    "TORCH_MIRROR": "https://h/x?sig={}",
    "PYTORCH_LOGIN": "hf_{0}{0}{0}",
}
SOURCE_URL, SOURCE_QUERY, SOURCE_TOKEN = 48, 49, 50
STDOUT, STDERR, LOGGED = 51, 52, 53
ERROR_URL, ERROR_NAMED, ERROR_TOKEN = 54, 55, 56
FILE, MODULE, FUNCTION = 57, 58, 59
PRINTED = {STDOUT, STDERR, LOGGED, ERROR_URL, ERROR_NAMED, ERROR_TOKEN}
NAMES = {FILE, MODULE, FUNCTION}
# Parquet apart, which packs the tables that CSV shows.
FORMATS = ("folded", "speedscope", "csv", "markdown", "openmetrics", "perfetto", "tensorboard")
WRITTEN = (
    ("report", "--html"),
    ("trace", "--html"),
    ("trace", "--perfetto"),
    *(("export", "--format", name, "--to") for name in FORMATS),
    *(("export", "--format", "csv", "--what", what, "--to") for what in ("samples", "stacks", "findings")),
)
PASSWORD = 2  # of the arguments: repeated in an error's text, without a name

SCRIPT = """
import logging, sys, time
import torch
import MODULE

def connect(url, token):
    time.sleep(0.01)

def FUNCTION(model, optimizer):
    connect("https://alice:SOURCE_URL@h/x", token="SOURCE_TOKEN")
    connect("https://h/x?sig=SOURCE_QUERY", token="SOURCE_TOKEN")
    optimizer.zero_grad()
    MODULE.loss(model).backward()
    optimizer.step()

def fail():
    given = sys.argv[sys.argv.index("--password") + 1]
    raise RuntimeError(f"{given} refused: https://bob:ERROR_URL@h, password=ERROR_NAMED, hf_ERROR_TOKENERROR_TOKEN")

class Net(torch.nn.Linear):
    def forward(self, batch):
        time.sleep(0.005)  # for stack samples to meet the model
        return super().forward(batch)

print("token STDOUT")
print("token STDERR", file=sys.stderr)
logging.warning("password=%s", "LOGGED")
model = Net(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(int(sys.argv[-1])):
    FUNCTION(model, optimizer)
    if torch.get_num_threads() == 3 and step > 2:
        fail()
if sys.argv[-1] == "240":
    fail()
"""
MODULE_SOURCE = """
import torch

def loss(model):
    return model(torch.ones(4, 8)).square().mean()
"""


@dataclass(frozen=True)
class Output:
    """What a command of perfdoctor wrote."""

    status: int
    stdout: str
    stderr: str


def canary(number: int) -> str:
    return CANARY.format(number)


def arguments() -> list[str]:
    """The words of the command line, with a canary in each that has one; four lie in a row in a long one."""
    words = [part for row in ARGUMENTS.strip().split("\n") for part in row.strip().split("|")]
    typed: list[str] = []
    for number, word in enumerate(words):
        filled = word.format(*[canary(number)] * word.count("{}"))
        option, space, value = filled.partition(" ")
        apart = space and option.startswith("-") and "=" not in option
        typed += [option, value] if apart else filled.split("=", 1) if option.startswith("-H=") else [filled]
    return typed


def written(text: str) -> str:
    """Code with canaries for their names."""
    for name, value in globals().items():
        if name.isupper() and isinstance(value, int):
            text = text.replace(name, canary(value))
    return text


def found(texts: Iterable[str]) -> set[int]:
    """The numbers of the canaries that stand in one of the texts, in any case of letters."""
    whole = "\n".join(texts).lower()
    return {number for number in range(60) if canary(number).lower() in whole}


def contents(*folders: Path) -> Iterator[tuple[Path, str]]:
    """Every file below some folders, unpacked, with its name."""
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()):
        yield path, f"{path}\n{unpacked(path).decode('latin-1')}"


def unpacked(path: Path) -> bytes:
    """What a file says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return b"\n".join(name.encode() + b"\n" + archive.read(name) for name in archive.namelist())
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@dataclass(frozen=True)
class Place:
    """Folders for all that perfdoctor can write, and the script in one of them."""

    top: Path

    def perfdoctor(self, *words: str, **more: str) -> Output:
        given = {name: form.format(canary(36 + at)) for at, (name, form) in enumerate(ENVIRONMENT.items())}
        homes = {"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "TMPDIR": "tmp"}
        folders = {name: str(self.top / folder) for name, folder in homes.items()}
        done = subprocess.run(
            [sys.executable, "-m", "perfdoctor", *words],
            cwd=self.top / "work",
            env=environment(**given, **folders, OMP_NUM_THREADS="1", COLUMNS="200", **more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Output(done.returncode, done.stdout, done.stderr)

    def kept(self) -> dict[Path, str]:
        """All files that perfdoctor has written, wherever."""
        others = [self.top / name for name in ("home", "cache", "state", "tmp")]
        return dict(contents(self.top / "work" / ".perfdoctor", *others))

    def pages(self, *more: tuple[str, ...]) -> list[str]:
        shown = [self.perfdoctor(*words) for words in (("runs",), *more)]
        assert all(output.status == 0 for output in shown), shown
        return [text for output in shown for text in (output.stdout, output.stderr)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A script whose folder, module and function have canaries for names."""
    top = tmp_path_factory.mktemp("secrets")
    for name in ("home", "cache", "state", "tmp", "work"):
        (top / name).mkdir()
    (top / "work" / f"{canary(FILE)}.py").write_text(written(SCRIPT))
    (top / "work" / f"{canary(MODULE)}.py").write_text(MODULE_SOURCE)
    return Place(top)


@pytest.fixture(scope="module")
def run(place: Place) -> Output:
    """The run, whose script fails in the end."""
    return place.perfdoctor("run", "--profiler-share", "1", f"{canary(FILE)}.py", *arguments(), "240")


def test_all_sixty_are_planted() -> None:
    planted = [*arguments(), *(form.format(canary(36 + at)) for at, form in enumerate(ENVIRONMENT.values()))]
    assert found([*planted, written(SCRIPT), canary(FILE)]) == set(range(60))


@pytest.mark.shows("secrets")
def test_of_a_run_only_names_are_kept(place: Place, run: Output) -> None:
    assert run.status == 1
    kept = place.kept()
    assert any(path.name == "report.json" for path in kept)
    assert any(path.name.startswith("trace.") for path in kept)
    assert found(kept.values()) == NAMES


@pytest.mark.shows("secrets")
def test_pages_and_documents_of_a_run_show_only_names(place: Place, run: Output) -> None:
    every = ("report", "--all", "--lines", "20")
    shown = place.pages(every, (*every, "--markdown"), ("report", "--json"))
    assert 'connect("https://<redacted>@h/x", token="<redacted>")' in "".join(shown)
    assert FILE in found(shown) <= NAMES
    # What the script itself prints passes through `perfdoctor run` untouched.
    assert found([run.stdout, run.stderr]) - NAMES == PRINTED | {PASSWORD}


@pytest.mark.shows("secrets")
def test_what_is_written_of_a_run_for_others_shows_only_names(
    place: Place, run: Output, tmp_path: Path
) -> None:
    newest = max(place.top.glob("work/.perfdoctor/runs/*/run.json"), key=os.path.getmtime).parent.name
    seen: set[int] = set()
    for number, words in enumerate((("bug", newest, "--to"), *WRITTEN)):
        target = tmp_path / f"{number}{'.zip' if words[0] == 'bug' else ''}"
        done = place.perfdoctor(*words, str(target))
        assert done.status == 0, (words, done)
        texts = dict(contents(tmp_path))
        assert any(path.is_relative_to(target) for path in texts), words
        shown = found([*texts.values(), done.stdout, done.stderr])
        assert shown <= NAMES, words
        seen |= shown
    assert seen == NAMES


@pytest.mark.shows("secrets")
def test_of_a_trial_only_names_are_kept_and_logs_that_the_owner_alone_can_read(
    place: Place, run: Output
) -> None:
    words = ("--threads", "3", "--rounds", "3", "--steps", "10", "--seconds", "40", "--yes")
    trial = place.perfdoctor("try", *words, "--", f"{canary(FILE)}.py", *arguments(), "100000")
    kept = place.kept()
    documents = {path for path in kept if path.name == "trial.json"}
    assert documents, trial
    assert '"error": "RuntimeError: <redacted> refused' in "".join(kept[path] for path in documents)
    logs = {
        path for path in kept if path.suffix == ".log" and path.parent in {one.parent for one in documents}
    }
    assert logs
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in logs)
    assert found(text for path, text in kept.items() if path not in logs) <= NAMES
    assert found(kept[path] for path in logs) >= {STDOUT, STDERR, LOGGED}
    shown = place.pages(("report", "--trials"), ("report", "--trials", "--json"))
    assert found([trial.stdout, trial.stderr, *shown]) <= NAMES


def test_keep_arguments_keeps_the_command_line_and_nothing_else(place: Place) -> None:
    done = place.perfdoctor(
        "run", "--quiet", "--keep-arguments", "--out", "whole", f"{canary(FILE)}.py", *arguments(), "20"
    )
    assert done.status == 0, done
    texts = dict(contents(place.top / "work" / "whole"))
    assert found(texts.values()) == set(range(36)) | NAMES
    assert {path.name for path, text in texts.items() if found([text]) - NAMES} == {"run.json", "report.json"}


@pytest.mark.shows("private-files")
def test_all_that_is_made_is_for_the_owner_alone(place: Place, run: Output) -> None:
    made = [place.top / "work" / ".perfdoctor", *(place.top / "work" / ".perfdoctor").rglob("*")]
    assert {path for path in made if path.lstat().st_mode & 0o077} == set()
