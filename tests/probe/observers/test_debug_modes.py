from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.observers.debug_modes import DebugModes
from perfdoctor.probe.profiler.users_profiler import UsersProfilers
from tests.support.sessions import Session
from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import torch
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    torch.autograd.set_detect_anomaly(True)
    profiler = torch.autograd.profiler.profile()
    profiler.__enter__()
    for step in range(60):
        torch.use_deterministic_algorithms(step < 3)
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
    profiler.__exit__(None, None, None)
"""


def test_modes_are_seen_while_training_with_the_lines_that_turned_them_on(tmp_path):
    events = watched(tmp_path, SCRIPT).ranks[0].of("debug")
    last = {event["mode"]: event for event in events}
    shares = {mode: event["seen"] / event["looks"] for mode, event in last.items()}
    assert (shares["anomaly"], shares["profiler"]) == (1.0, 1.0)
    assert 0 < shares["deterministic"] < 0.5
    assert {mode: event["at"]["line"] for mode, event in last.items()} == {
        "anomaly": 5, "profiler": 7, "deterministic": 9,
    }  # fmt: skip


def test_graphs_that_anomaly_detection_watches_are_weighed_a_few_times():
    modes = DebugModes(Session(), torch, UsersProfilers())
    for check_nan in (True, True, False, True):
        with torch.autograd.detect_anomaly(check_nan=check_nan):
            weight = torch.ones(3, 5, requires_grad=True)
            modes.sample(None, (weight * 2).sum())
    first, _, unchecked = (event for event in modes.session.events if event["event"] == "anomaly")
    assert (first["nodes"], first["gradients"]) == (3, 2)  # sum, product, the leaf that adds up gradients
    assert first["frames"] >= 2
    assert min(first["frame_s"], first["gradient_s"]) > 0
    assert unchecked["gradients"] == 0


def test_what_is_on_is_asked_for_and_not_guessed():
    modes = DebugModes(Session(), torch, UsersProfilers())
    modes.sample(None, None)
    with torch.autograd.detect_anomaly(check_nan=False):
        modes.sample(None, None)
        modes.profilers.prepared.add(1)
    modes.sample(None, None)
    modes.pulse()
    assert [(event["mode"], event["seen"], event["looks"]) for event in modes.session.events] == [
        ("anomaly", 1, 3),
        ("profiler", 1, 3),
    ]


def test_without_any_nothing_is_written():
    modes = DebugModes(Session(), torch, UsersProfilers())
    modes.sample(None, None)
    modes.pulse()
    assert modes.session.events == []
