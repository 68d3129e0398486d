from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from perfdoctor.errors import NotARun, PerfdoctorError
from perfdoctor.model.link import Nic
from perfdoctor.watch import command
from perfdoctor.watch.machine import link
from tests.support import nets

pytestmark = pytest.mark.process

END = {"event": "end", "cut": None}
MEASURED = [nets.size(4, 1e-4), nets.size(1024, 1e-4), nets.size(2**20, 2e-3)]


# ---------------------------------------------------------------- what is kept


def test_a_measurement_is_read_back(tmp_path: Path) -> None:
    folder = nets.kept(tmp_path / "a", *MEASURED, END, nic={"name": "eth0", "bytes_per_s": None})
    found = link.read(folder)
    assert (found.ranks, found.backend, found.hosts) == (2, "gloo", ("node0", "node0"))
    assert [each.bytes for each in found.exchanges] == [4, 1024, 2**20]
    assert (found.cut, found.ended, found.nic) == (None, None, Nic("eth0", None))
    assert link.progress(folder) == 2**20


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    folder = nets.kept(tmp_path / "a", *MEASURED)
    with open(folder / link.MEASURED, "a") as file:
        file.write('{"event": "si')
    assert len(link.read(folder).exchanges) == 3


@pytest.mark.parametrize("missing", [link.FILE, link.MEASURED])
def test_a_folder_that_holds_no_measurement_is_told(tmp_path: Path, missing: str) -> None:
    folder = nets.kept(tmp_path / "a", *MEASURED, END)
    (folder / missing).unlink()
    with pytest.raises(NotARun, match="no readable measurement in"):
        link.read(folder)
    assert link.latest(("node0",), tmp_path) is None


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [nets.size(4, 0.0)],
        [nets.size(4, 1.0) | {"bytes": "4"}],
        [nets.size(4, 1.0), END | {"cut": "x"}],
        [nets.size(2**20, 1e-320)] * 3,
        [nets.size(4, 1e-320), nets.size(16, 1.0)],
    ],
    ids=["no sizes", "no time", "no bytes", "no cut", "no line", "no rate"],
)
def test_a_measurement_that_tells_nothing_is_none(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    with pytest.raises(NotARun, match="no readable measurement in"):
        link.read(nets.kept(tmp_path / "a", *lines))


def test_a_measurement_of_one_rank_is_none(tmp_path: Path) -> None:
    folder = nets.kept(tmp_path / "a", *MEASURED, END)
    lines = folder / link.MEASURED
    lines.write_text(lines.read_text().replace('["node0", "node0"]', '["node0"]'))
    with pytest.raises(NotARun, match="no readable measurement in"):
        link.read(folder)


def test_the_newest_measurement_between_the_same_hosts_is_found(tmp_path: Path) -> None:
    for name, lines in (("1", MEASURED), ("2", MEASURED), ("3", MEASURED[:1])):
        nets.kept(tmp_path / name, *lines, END)
    found = link.latest(("node0", "node0", "node0"), tmp_path)
    assert found is not None
    assert Path(found.path).name == "2"
    assert link.latest(("node0", "node1"), tmp_path) is None
    assert link.latest(("node0",), tmp_path / "nowhere") is None


# ---------------------------------------------------------------- starting ranks


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the interpreter that would measure be able to do so much; gives what would be started."""
    started: list[tuple[str, ...]] = []

    def be(**facts: Any) -> list[tuple[str, ...]]:
        monkeypatch.setattr(command, "interpreter", lambda environ: "/env/bin/python")
        monkeypatch.setattr(link, "look", lambda python: facts)
        monkeypatch.setattr(link, "_run", lambda argv, log, limit_s: started.append(tuple(argv)))
        return started

    return be


@pytest.mark.parametrize(("gpus", "asked", "count"), [(0, None, 2), (1, None, 2), (8, None, 8), (8, 4, 4)])
def test_each_gpu_has_a_rank_and_a_host_without_several_has_two(
    tmp_path: Path, able: Any, gpus: int, asked: int | None, count: int
) -> None:
    started = able(torch="2.13.0", distributed=True, gpus=gpus)
    with pytest.raises(PerfdoctorError, match="left no figures here"):
        link.measure((), asked, out=str(tmp_path))
    ((python, *words),) = started
    assert python == "/env/bin/python"
    assert words[:4] == ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    assert words[4:] == [
        str(link.PROGRAM),
        str(next(tmp_path.glob("*")) / link.MEASURED),
        f"{link.SECONDS:g}",
    ]


@pytest.mark.parametrize(("launcher", "limit_s"), [((), link.STARTING_S + 40), ((sys.executable,), None)])
def test_ranks_are_told_their_time_and_ended_soon_after_it(
    tmp_path: Path, able: Any, monkeypatch: pytest.MonkeyPatch, launcher: tuple[str, ...], limit_s: float
) -> None:
    """But where other hosts may begin later, by hand."""
    given = []
    able(torch="2.13.0", distributed=True)
    monkeypatch.setattr(link, "_run", lambda argv, log, limit_s: given.append((argv[-1], limit_s)))
    with pytest.raises(PerfdoctorError, match="left no figures here"):
        link.measure(launcher, None, 20.0, str(tmp_path))
    assert given == [("20", limit_s)]


def test_the_users_launcher_is_given_our_program(tmp_path: Path, able: Any) -> None:
    started = able()
    with pytest.raises(PerfdoctorError, match="left no figures here"):
        link.measure((sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"), None, 5, str(tmp_path))
    assert started[0][:6] == (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nnodes",
        "2",
        str(link.PROGRAM),
    )


@pytest.mark.parametrize(
    ("facts", "sentence", "hint"),
    [
        ({}, "/env/bin/python cannot import torch", "activate the environment"),
        ({"torch": None, "because": "No module named 'torch'"}, "No module named 'torch'", "activate"),
        ({"torch": "2.13.0", "distributed": False}, "built without torch.distributed", "name the launcher"),
    ],
    ids=["broken", "without-torch", "without-distributed"],
)
def test_an_interpreter_that_cannot_measure_is_told(
    tmp_path: Path, able: Any, facts: dict[str, Any], sentence: str, hint: str
) -> None:
    able(**facts)
    with pytest.raises(PerfdoctorError, match=sentence) as caught:
        link.measure((), out=str(tmp_path))
    assert hint in (caught.value.hint or "")


def test_a_launcher_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match="no-such-launcher: command not found") as caught:
        link.measure(("no-such-launcher", "--nnodes", "2"), out=str(tmp_path))
    assert "python -m torch.distributed.run" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "words", [("tr.py",), ("python", "tr.py", "--lr", "1"), ("torchrun", "--nnodes", "2", "tr.py")]
)
def test_a_script_is_refused_before_it_trains(tmp_path: Path, able: Any, words: tuple[str, ...]) -> None:
    started = able()
    with pytest.raises(PerfdoctorError, match=r"a test program of its own, not tr\.py") as caught:
        link.measure(words, out=str(tmp_path))
    assert "perfdoctor net -- torchrun" in (caught.value.hint or "")
    assert started == []


def test_the_number_of_ranks_is_the_launchers(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match="perfdoctor starts itself"):
        link.measure(("torchrun",), 4, out=str(tmp_path))


def shell(tmp_path: Path, text: str) -> tuple[str, ...]:
    """A launcher that does this, whatever it is given."""
    sh = shutil.which("sh")
    assert sh is not None
    (tmp_path / "launcher.sh").write_text(text)
    return sh, str(tmp_path / "launcher.sh")


def test_a_rank_that_fails_is_told_by_its_own_error(tmp_path: Path) -> None:
    text = "echo '[rank1]: RuntimeError: no route to host'; echo 'torch.distributed.elastic.x.ChildFailedError:'; exit 1"
    with pytest.raises(PerfdoctorError, match="the ranks failed: RuntimeError: no route to host") as caught:
        link.measure(shell(tmp_path, text), out=str(tmp_path / "nets"))
    assert caught.value.exit_code == 1
    log = next((tmp_path / "nets").glob("*/printed.log"))
    assert str(log) in (caught.value.hint or "")
    assert "no route" in log.read_text()


def test_what_was_measured_before_a_rank_failed_is_shown(tmp_path: Path) -> None:
    lines = nets.kept(tmp_path / "made", *MEASURED) / link.MEASURED
    found = link.measure(
        shell(tmp_path, f'cp {lines} "$2"; echo "MemoryError: 64 MB"; exit 7'), out=str(tmp_path / "nets")
    )
    assert (len(found.exchanges), found.ended) == (3, "MemoryError: 64 MB")
    assert link.read(Path(found.path)) == found


def test_a_launcher_that_starts_one_rank_is_told(tmp_path: Path) -> None:
    lines = nets.kept(tmp_path / "made", *MEASURED, END) / link.MEASURED
    lines.write_text(lines.read_text().replace('["node0", "node0"]', '["node0"]'))
    with pytest.raises(PerfdoctorError, match="only one rank was started") as caught:
        link.measure(shell(tmp_path, f'cp {lines} "$2"'), out=str(tmp_path / "nets"))
    assert "--nproc-per-node 2" in (caught.value.hint or "")


def test_secrets_of_the_launcher_and_of_what_it_printed_are_not_kept(tmp_path: Path) -> None:
    lines = nets.kept(tmp_path / "made", *MEASURED) / link.MEASURED
    text = f'cp {lines} "$4"; echo "RuntimeError: $2 refused, password=Zk81"; exit 7'
    found = link.measure((*shell(tmp_path, text), "--token", "correcthorse"), out=str(tmp_path / "nets"))
    assert (found.command[-1], found.ended) == (
        "<redacted>",
        "RuntimeError: <redacted> refused, password=<redacted>",
    )
    kept = (Path(found.path) / link.FILE).read_text()
    assert "correcthorse" not in kept
    assert "Zk81" not in kept
    assert (Path(found.path) / link.LOG).stat().st_mode & 0o777 == 0o600


def test_ranks_that_never_end_are_ended(tmp_path: Path, able: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = link._run
    able(torch="2.13.0", distributed=True)
    monkeypatch.setattr(link, "_run", lambda argv, log, limit_s: run(("sleep", "60"), log, 0.2))
    with pytest.raises(PerfdoctorError, match="the ranks did not finish within 0 s"):
        link.measure((), out=str(tmp_path))
