"""The program that measures, with ranks made up; tests/cli/test_net.py starts real ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from perfdoctor.watch.machine import link_program


class Alone:
    """One rank whose exchanges take as long as the line says, on a clock of its own."""

    def __init__(self, latency_s: float, bytes_per_s: float, calls: int = 1) -> None:
        self.torch = torch
        self.device = torch.device("cpu")
        self.calls = calls
        self.now_s = 0.0
        self.line = (latency_s, bytes_per_s)
        self.sizes: list[int] = []

    def agreed(self, number: int) -> int:
        return number

    def mean(self, values: list[float]) -> list[float]:
        return values

    def facts(self) -> dict[str, Any]:
        return {"event": "begin"}

    def exchanged(self, tensor: Any) -> float:
        size = tensor.numel() * tensor.element_size()
        self.sizes.append(size)
        took_s = self.line[0] + size / self.line[1]
        self.now_s += took_s * self.calls
        return took_s


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Any:
    def measure(ranks: Alone, seconds: float) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        monkeypatch.setattr(link_program, "clock", lambda: ranks.now_s)
        link_program.measure(ranks, seconds, lines.append)  # type: ignore[arg-type]
        return lines

    return measure


def test_every_size_is_measured_often_and_the_time_is_kept(measured: Any) -> None:
    ranks = Alone(1e-4, 1e9)
    begin, *sizes, end = measured(ranks, 10.0)
    assert begin == {"event": "begin"}
    assert end == {"event": "end", "cut": None}
    assert [line["bytes"] for line in sizes] == list(link_program.SIZES)
    assert sizes[0]["seconds"] == pytest.approx(1e-4, rel=0.01)
    assert sizes[0]["repetitions"] == link_program.MOST
    assert sizes[-1]["repetitions"] >= link_program.LEAST
    assert ranks.now_s <= 10.0


def test_a_size_that_would_take_too_long_ends_the_measurement(measured: Any) -> None:
    ranks = Alone(1e-3, 1e6)
    *_, last, end = measured(ranks, 10.0)
    assert end == {"event": "end", "cut": 4 * last["bytes"]}
    assert last["bytes"] < link_program.SIZES[-1]
    assert ranks.now_s <= 12.0
    assert max(ranks.sizes) == last["bytes"]


def test_a_link_that_hardly_carries_anything_gets_one_size_measured(measured: Any) -> None:
    lines = measured(Alone(10.0, 1e3), 5.0)
    assert [line["event"] for line in lines] == ["begin", "size", "end"]


def test_calls_that_are_timed_together_count_each(measured: Any) -> None:
    ranks = Alone(1e-4, 1e9, calls=10)
    _, first, *_ = measured(ranks, 10.0)
    assert first["seconds"] == pytest.approx(1e-4, rel=0.01)
    assert first["repetitions"] % 10 == 0
    assert ranks.now_s <= 11.0


@pytest.mark.parametrize(
    ("environment", "rank", "writes"),
    [({}, 0, True), ({"LOCAL_RANK": "0"}, 4, True), ({"LOCAL_RANK": "1"}, 1, False)],
    ids=["first", "first-of-a-host", "another"],
)
def test_the_first_rank_of_each_host_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], rank: int, writes: bool
) -> None:
    for name in link_program.LOCAL:
        monkeypatch.delenv(name, raising=False)
    for name, word in environment.items():
        monkeypatch.setenv(name, word)
    file = tmp_path / "exchanges.jsonl"
    link_program._teller(str(file), rank)({"event": "begin"})
    assert file.exists() is writes
    if writes:
        assert json.loads(file.read_text()) == {"event": "begin"}


def test_a_host_without_the_folder_measures_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "0")
    link_program._teller(str(tmp_path / "nowhere" / "x"), 8)({"event": "begin"})
    assert not list(tmp_path.iterdir())


def test_what_this_interpreter_has_is_told() -> None:
    found = link_program.look()
    assert found["torch"] == torch.__version__
    assert found["distributed"] is torch.distributed.is_available()
    assert found["gpus"] >= 0


def test_a_torch_that_raises_where_there_is_no_device_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def current_accelerator() -> Any:  # of torch 2.6
        raise RuntimeError("Cannot access accelerator device when none is available.")

    asked = SimpleNamespace(is_available=lambda: False, current_accelerator=current_accelerator)
    monkeypatch.setattr(torch, "accelerator", asked, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert link_program.look()["gpus"] == 0


def test_a_launcher_that_sets_no_address_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*link_program.RANK, *link_program.WORLD, "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit, match="MASTER_ADDR is not set"):
        link_program.main([str(tmp_path / "x"), "1"])
