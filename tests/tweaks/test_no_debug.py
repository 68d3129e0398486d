"""--no-debug: modes for finding errors stay off."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.applying import applied

torch = pytest.importorskip("torch")
from torch import nn
from torch.profiler import ProfilerActivity

BLOCKING = "CUDA_LAUNCH_BLOCKING"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def losses(steps: int = 50) -> list[float]:
    torch.manual_seed(0)
    layer = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    found = []
    for _ in range(steps):
        loss = layer(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def profiler(**options: Any) -> Any:
    return torch.profiler.profile(activities=[ProfilerActivity.CPU], **options)


def updates_in(events: Any) -> int:
    return sum(event.name.startswith("Optimizer.step") for event in events)


def recorded_of_ten() -> int:
    """The profiler stops inside the tenth update, and some versions drop what has not ended by then."""
    with profiler() as found, torch.profiler.record_function("Optimizer.step"):
        found.stop_trace()
        found.current_action = torch.profiler.ProfilerAction.NONE
    return 9 + updates_in(found.events())


def test_anomaly_detection_stays_off_however_it_is_asked_for() -> None:
    with applied("no_debug") as told:
        torch.autograd.set_detect_anomaly(True)
        assert not torch.is_anomaly_enabled()
        with torch.autograd.detect_anomaly():
            assert not torch.is_anomaly_enabled()
        with torch.autograd.set_detect_anomaly(mode=True, check_nan=False):
            assert not torch.is_anomaly_enabled()
    assert [place["was"] for place in told.applied] == [True] * 3
    assert {place["at"]["file"] for place in told.applied} == {__file__}


def test_anomaly_detection_stays_off_in_whatever_order_its_arguments_are_named() -> None:
    with applied("no_debug") as told:
        torch.set_anomaly_enabled(check_nan=False, enabled=True)
        assert not torch.is_anomaly_enabled()
    assert len(told.applied) == 1


def test_losses_are_the_same_to_the_last_bit() -> None:
    with torch.autograd.detect_anomaly():
        original = losses()
    with applied("no_debug"), torch.autograd.detect_anomaly():
        assert losses() == original


def test_modes_that_are_turned_off_are_no_place() -> None:
    with applied("no_debug") as told:
        torch.autograd.set_detect_anomaly(False)
        torch.use_deterministic_algorithms(False)
        with torch.autograd.profiler.emit_itt(enabled=False):
            losses(1)
    assert not told.events


def test_deterministic_algorithms_are_left_on_and_said() -> None:
    with applied("no_debug") as told:
        torch.use_deterministic_algorithms(True)
        assert torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(False)
    assert [place["what"] for place in told.left_alone] == ["deterministic algorithms"]


def test_launches_do_not_wait_whether_asked_before_or_after_torch_was_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: None)
    monkeypatch.setenv(BLOCKING, "1")
    with applied("no_debug") as told:
        assert BLOCKING not in os.environ
        os.environ[BLOCKING] = "1"
        torch.cuda._lazy_init()
        assert BLOCKING not in os.environ
        os.environ[BLOCKING] = "0"
        torch.cuda._lazy_init()
        assert os.environ[BLOCKING] == "0"
    assert [place["was"] for place in told.applied] == ["1", "1"]


def test_synchronisations_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[Any] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    with applied("no_debug") as told:
        torch.cuda.set_sync_debug_mode("warn")
        torch.cuda.set_sync_debug_mode(0)
    assert modes == ["default", 0]
    assert [place["was"] for place in told.applied] == ["warn"]


@pytest.mark.parametrize("shapes", [True, False])
@pytest.mark.parametrize("name", ["emit_nvtx", "emit_itt"])
def test_operations_are_not_marked(name: str, shapes: bool) -> None:
    with applied("no_debug") as told, getattr(torch.autograd.profiler, name)(record_shapes=shapes):
        assert not torch.autograd._profiler_enabled()
    assert [place["what"] for place in told.applied] == [name]


@pytest.mark.parametrize("steps", [False, True])
def test_a_profiler_that_is_left_on_stops_after_ten_updates_and_stays_readable(steps: bool) -> None:
    handled: list[Any] = []
    with applied("no_debug") as told, profiler(on_trace_ready=handled.append) as found:
        for _ in range(15):
            losses(1)
            if steps:
                found.step()
        assert not torch.autograd._profiler_enabled()
    assert updates_in(found.events()) == recorded_of_ten()
    assert found.key_averages()
    assert not handled
    assert told.applied[0]["now"] == "stopped after 10 updates"
    assert told.applied[0]["at"]["file"] == __file__


def test_the_older_profiler_stops_as_well() -> None:
    with applied("no_debug") as told, torch.autograd.profiler.profile() as found:
        losses(15)
    assert updates_in(found.function_events) == recorded_of_ten()
    assert len(told.applied) == 1


def test_profilers_that_look_at_a_few_steps_are_left_alone() -> None:
    seen: list[int] = []
    with applied("no_debug") as told:
        with profiler() as short:
            losses(9)
        losses(5)
        with profiler(
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=13, repeat=1),
            on_trace_ready=lambda found: seen.append(updates_in(found.events())),
        ) as planned:
            for _ in range(15):
                losses(1)
                planned.step()
    assert updates_in(short.events()) == 9
    assert seen == [13]
    assert not told.applied
