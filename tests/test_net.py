from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfdoctor import command, net
from perfdoctor.errors import NotARun, PerfdoctorError
from perfdoctor.nics import Nic
from tests import nets

END = {"event": "end", "cut": None}
MEASURED = [nets.size(4, 1e-4), nets.size(1024, 1e-4), nets.size(2**20, 2e-3)]


# ---------------------------------------------------------------- the line through the sizes


def test_a_line_is_found_again() -> None:
    law = net.fitted(nets.exchanges(1e-4, 1e9))
    assert law.latency_s == pytest.approx(1e-4)
    assert law.seconds_per_byte == pytest.approx(1e-9)
    assert law.error == pytest.approx(0.0, abs=1e-9)


def test_small_sizes_count_as_much_as_large_ones() -> None:
    scattered = [
        replace(each, seconds=each.seconds * (1.1 if place % 2 else 0.9))
        for place, each in enumerate(nets.exchanges(1e-4, 1e9))
    ]
    law = net.fitted(scattered)
    assert law.latency_s == pytest.approx(1e-4, rel=0.1)
    assert law.seconds_per_byte == pytest.approx(1e-9, rel=0.1)
    assert law.error == pytest.approx(0.1, abs=0.03)


def test_neither_part_of_the_line_is_below_zero() -> None:
    falling = [net.Exchange(size, 1.0 / size, 0.0, 1.0, 9) for size in (4, 16, 64)]
    assert net.fitted(falling).seconds_per_byte == 0.0
    steep = [net.Exchange(size, size**1.5, 0.0, 1.0, 9) for size in (4, 16, 64)]
    assert net.fitted(steep).latency_s == 0.0


def test_the_bus_carries_what_a_ring_sends() -> None:
    """Each of n ranks sends 2 (n - 1) / n times the bytes: with two ranks as many, with many nearly twice."""
    two, four = nets.LOCAL, nets.REMOTE
    assert two.link_bytes_per_s == pytest.approx(1e9)
    assert four.link_bytes_per_s == pytest.approx(1.5e9)
    assert four.bus_bytes_per_s(four.exchanges[0]) == pytest.approx(1.5 * 4 / four.exchanges[0].seconds)


def test_too_few_sizes_make_no_line() -> None:
    few = replace(nets.LOCAL, exchanges=nets.LOCAL.exchanges[:2])
    assert (few.law, few.link_bytes_per_s) == (None, None)
    small = replace(nets.LOCAL, exchanges=nets.LOCAL.exchanges[:9])
    assert (small.exchanges[-1].bytes, small.law) == (4**9, None)


# ---------------------------------------------------------------- what is kept


def test_a_measurement_is_read_back(tmp_path: Path) -> None:
    folder = nets.kept(tmp_path / "a", *MEASURED, END, nic={"name": "eth0", "bytes_per_s": None})
    found = net.read(folder)
    assert (found.ranks, found.backend, found.hosts) == (2, "gloo", ("node0", "node0"))
    assert [each.bytes for each in found.exchanges] == [4, 1024, 2**20]
    assert (found.cut, found.ended, found.nic) == (None, None, Nic("eth0", None))
    assert net.progress(folder) == 2**20


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    folder = nets.kept(tmp_path / "a", *MEASURED)
    with open(folder / net.MEASURED, "a") as file:
        file.write('{"event": "si')
    assert len(net.read(folder).exchanges) == 3


@pytest.mark.parametrize("missing", [net.FILE, net.MEASURED])
def test_a_folder_that_holds_no_measurement_is_told(tmp_path: Path, missing: str) -> None:
    folder = nets.kept(tmp_path / "a", *MEASURED, END)
    (folder / missing).unlink()
    with pytest.raises(NotARun, match="no measured link"):
        net.read(folder)
    assert net.latest(("node0",), tmp_path) is None


def test_the_newest_measurement_between_the_same_hosts_is_found(tmp_path: Path) -> None:
    for name, lines in (("1", MEASURED), ("2", MEASURED), ("3", MEASURED[:1])):
        nets.kept(tmp_path / name, *lines, END)
    found = net.latest(("node0", "node0", "node0"), tmp_path)
    assert found is not None
    assert Path(found.path).name == "2"
    assert net.latest(("node0", "node1"), tmp_path) is None
    assert net.latest(("node0",), tmp_path / "nowhere") is None


# ---------------------------------------------------------------- starting ranks


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the interpreter that would measure be able to do so much; gives what would be started."""
    started: list[tuple[str, ...]] = []

    def be(**facts: Any) -> list[tuple[str, ...]]:
        monkeypatch.setattr(command, "interpreter", lambda environ: "/env/bin/python")
        monkeypatch.setattr(net, "look", lambda python: facts)
        monkeypatch.setattr(net, "_run", lambda argv, log, limit_s: started.append(tuple(argv)))
        return started

    return be


@pytest.mark.parametrize(("gpus", "asked", "count"), [(0, None, 2), (1, None, 2), (8, None, 8), (8, 4, 4)])
def test_each_gpu_has_a_rank_and_a_host_without_several_has_two(
    tmp_path: Path, able: Any, gpus: int, asked: int | None, count: int
) -> None:
    started = able(torch="2.13.0", distributed=True, gpus=gpus)
    with pytest.raises(PerfdoctorError, match="left no figures here"):
        net.measure((), asked, out=str(tmp_path))
    ((python, *words),) = started
    assert python == "/env/bin/python"
    assert words[:4] == ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    assert words[4:] == [str(net.PROGRAM), str(next(tmp_path.glob("*")) / net.MEASURED), f"{net.SECONDS:g}"]


def test_the_users_launcher_is_given_our_program(tmp_path: Path, able: Any) -> None:
    started = able()
    with pytest.raises(PerfdoctorError, match="left no figures here"):
        net.measure((sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"), None, 5, str(tmp_path))
    assert started[0][:6] == (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nnodes",
        "2",
        str(net.PROGRAM),
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
        net.measure((), out=str(tmp_path))
    assert hint in (caught.value.hint or "")


def test_a_launcher_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match="no-such-launcher: command not found") as caught:
        net.measure(("no-such-launcher", "--nnodes", "2"), out=str(tmp_path))
    assert "python -m torch.distributed.run" in (caught.value.hint or "")


def test_the_number_of_ranks_is_the_launchers(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match="perfdoctor starts itself"):
        net.measure(("torchrun",), 4, out=str(tmp_path))


def shell(tmp_path: Path, text: str) -> tuple[str, ...]:
    """A launcher that does this, whatever it is given."""
    sh = shutil.which("sh")
    assert sh is not None
    (tmp_path / "launcher.sh").write_text(text)
    return sh, str(tmp_path / "launcher.sh")


def test_a_rank_that_fails_is_told_by_its_own_error(tmp_path: Path) -> None:
    text = "echo '[rank1]: RuntimeError: no route to host'; echo 'torch.distributed.elastic.x.ChildFailedError:'; exit 1"
    with pytest.raises(PerfdoctorError, match="the ranks failed: RuntimeError: no route to host") as caught:
        net.measure(shell(tmp_path, text), out=str(tmp_path / "nets"))
    assert caught.value.exit_code == 1
    log = next((tmp_path / "nets").glob("*/printed.log"))
    assert str(log) in (caught.value.hint or "")
    assert "no route" in log.read_text()


def test_what_was_measured_before_a_rank_failed_is_shown(tmp_path: Path) -> None:
    lines = nets.kept(tmp_path / "made", *MEASURED) / net.MEASURED
    found = net.measure(
        shell(tmp_path, f'cp {lines} "$2"; echo "MemoryError: 64 MB"; exit 7'), out=str(tmp_path / "nets")
    )
    assert (len(found.exchanges), found.ended) == (3, "MemoryError: 64 MB")
    assert net.read(Path(found.path)) == found


def test_ranks_that_never_end_are_ended(tmp_path: Path, able: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = net._run
    able(torch="2.13.0", distributed=True)
    monkeypatch.setattr(net, "_run", lambda argv, log, limit_s: run(("sleep", "60"), log, 0.2))
    with pytest.raises(PerfdoctorError, match="the ranks were not done after 0 s"):
        net.measure((), out=str(tmp_path))
