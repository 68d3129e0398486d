"""Borders that are told in place, and the methods that tell them anywhere, give the same rows.

A step is a tree of events: calls, backward passes, updates, batches, each with others inside or none. The same
tree goes through the hooks twice: as they are, and with a recorder that is held, for which each hook takes the
way through the recorder's methods.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from perfdoctor.probe import patch
from perfdoctor.probe import recorder as recording
from perfdoctor.probe.loader import loader as loading
from perfdoctor.probe.recorder import Recorder
from perfdoctor.probe.steps import backwards, gradient_clearing, modules, steady_calls, updates
from perfdoctor.probe.steps.steps import StepTracker
from perfdoctor.wire.rows import HEADER_BYTES
from perfdoctor.wire.step_rows import CHECKPOINT, END, OPEN, OTHER, STEPS, VALIDATION

NEVER = 1 << 62
TWO = st.integers(0, 1)
PAUSE = st.integers(1, 9)
LEAVES = st.one_of(
    st.tuples(st.just("next"), PAUSE, TWO, st.just([])),
    st.tuples(st.just("iter"), PAUSE, TWO, st.just([])),
    st.tuples(st.just("save"), PAUSE, TWO, st.just([])),
    st.tuples(st.just("apart"), PAUSE, TWO, st.just([])),
    st.tuples(st.just("raise"), PAUSE, TWO, st.just([])),
    st.tuples(st.just("usual"), PAUSE, TWO, st.just([])),
    st.tuples(st.just("moves"), PAUSE, TWO, st.just([])),
    st.tuples(st.just("eval moves"), PAUSE, TWO, st.just([])),
)
KINDS = [
    "train",
    "train",
    "train",
    "eval",
    "no_grad",
    "backward",
    "backward",
    "update",
    "update",
    "scaled",
    "end",
]
EVENTS = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(KINDS), PAUSE, TWO, st.lists(inner, max_size=3)),
    max_leaves=12,
)
FAILED = st.tuples(st.just("failed"), PAUSE, TWO, st.just([]))


class Clock:
    """Time that only events move."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Rows:
    """Rows in memory."""

    def __init__(self) -> None:
        self.map = bytearray(HEADER_BYTES)

    def place(self) -> int:
        offset = len(self.map)
        self.map += bytes(STEPS.packer.size)
        return offset

    @property
    def rows(self) -> list[tuple[float, ...]]:
        return list(STEPS.packer.iter_unpack(self.map[HEADER_BYTES:]))


class Session:
    """One process that trains."""

    def __init__(self) -> None:
        self.recorder = Recorder(Rows())
        self.options: dict[str, Any] = {}
        self.pid = 1

    def recording(self) -> Recorder:
        return self.recorder

    def write(self, event: Any) -> None:
        pass


class Loader:
    num_workers = 0


class Script:
    """A script whose calls reach the hooks as the wrappers would hand them on."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.session = Session()
        steps = self.steps = StepTracker(self.session, torch)  # type: ignore[arg-type]
        self.loaders = loading.Loaders(self.session, steps, torch)  # type: ignore[arg-type]
        self.models = [torch.nn.Linear(2, 1) for _ in range(2)]
        for model in self.models:
            torch.nn.init.ones_(model.weight)
        self.optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in self.models]
        self.begins, self.ends = steps.updates.hooks()
        steps.schedule.next = steps.schedule.next_ns = NEVER  # what is due now and then takes the other way
        self.scaler = SimpleNamespace()
        self.batches = [Loader(), Loader()]
        self.open: list[Any] = []  # the updates under way
        self.iterators: list[Any] = [None, None]

    def play(self, events: list[Any]) -> None:
        for event in events:
            self._event(*event)
            self.clock.now += 1

    def _event(self, kind: str, pause: int, which: int, inner: list[Any]) -> None:
        self.clock.now += pause
        key = {"scaled": "scaler", "update": which}.get(kind)
        if key is not None and key in self.open:
            return  # an optimizer's step inside its own begins a new one, as after an error
        self.open.append(key)
        try:
            self._play_one(kind, pause, which, inner)
        finally:
            self.open.pop()

    def _play_one(self, kind: str, pause: int, which: int, inner: list[Any]) -> None:
        model, optimizer, steps = self.models[which], self.optimizers[which], self.steps
        recorder = self.session.recorder
        if kind in ("train", "eval", "no_grad"):
            model.train(kind == "train")
            with torch.set_grad_enabled(kind != "no_grad"):
                self._around(steps.modules.wrapped, (model, torch.ones(3, 2)), inner)
        elif kind == "backward":
            self._around(steps.backwards.wrapped, (self.models[which].weight.sum(),), inner)
        elif kind == "update":
            self.begins(optimizer, (), {})
            self.catching(inner)
            self.clock.now += pause
            self.ends(optimizer, (), {})
        elif kind == "scaled":
            token = steps.updates.before_scaled_step((self.scaler, optimizer), {})
            self.catching(inner)
            steps.updates.after_scaled_step(token, (self.scaler, optimizer), None)
        elif kind == "next":
            batch = [torch.ones(2 + which, 2)]
            self._around(self.loaders.wrapped_next, (self.iterators[which] or self,), inner, batch)
        elif kind == "iter":
            self.iterators[which] = SimpleNamespace()
            token = self.loaders.before_iter((self.batches[which],), {})
            if token is not None:
                self.loaders.after_iter(token, (self.batches[which],), self.iterators[which])
        elif kind == "save":
            recorder.enter(CHECKPOINT)
            recorder.decide(OTHER, OTHER, VALIDATION)
            self.clock.now += 3
            recorder.leave()
        elif kind == "apart":
            recorder.set_apart()
        elif kind == "raise":
            raise ValueError
        elif (
            kind == "failed"
        ):  # an error inside an update: torch calls no hook behind it, and it is tried again
            self.begins(optimizer, (), {})
            recorder.enter(CHECKPOINT)
            self.clock.now += pause
            self._play_one("update", pause, which, inner)
        elif kind == "end":
            recorder.mark(OPEN)
            self.play(inner)
        elif kind in ("moves", "eval moves"):
            for _ in range(4):
                model.train(kind == "moves")
                with torch.no_grad():
                    self._around(steps.modules.wrapped, (model, torch.ones(3, 2)), inner)
        else:  # a usual step, after which rows end at updates
            self.play([("next", 1, 0, []), ("train", 2, 0, []), ("backward", 3, 0, []), ("update", 4, 0, [])])

    def catching(self, inner: list[Any]) -> None:
        with contextlib.suppress(ValueError):
            self.play(inner)

    def _around(self, wrapped: Any, args: Any, inner: list[Any], result: Any = True) -> None:
        """Call a function that plays `inner`, as it is wrapped."""

        def original(*args: Any) -> Any:
            self.play(inner)
            self.clock.now += 5
            return result

        wrapped(original)(*args)


def replayed(steps: list[Any], held: bool) -> tuple[list[tuple[float, ...]], dict[str, Any]]:
    """The rows of these events, and what is left open behind them."""
    patched = pytest.MonkeyPatch()
    with patched.context() as patches:
        clock = Clock()
        for module in (recording, modules, steady_calls, backwards, updates, loading):
            patches.setattr(module, "clock", clock)
        patches.setattr(recording, "process_clock", lambda: 0)
        patches.setattr(patch, "turned_off", {})
        patches.setattr(gradient_clearing, "OPTIMIZERS_MAX", 0)
        script = Script(clock)
        recorder = script.session.recorder
        recorder.hold(held)
        for step in steps:
            script.catching([step])
        recorder.unwind(0)
        recorder.touch()
        recorder.mark(END)
        rows: Rows = recorder.rows
        kept = ((name, getattr(recorder, name)) for name in Recorder.__slots__)
        assert not patch.broken()
        return rows.rows, dict(kept)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(EVENTS, EVENTS, FAILED), max_size=8))
def test_any_events_give_the_same_rows_in_place_as_by_methods(steps: list[Any]) -> None:
    in_place, by_methods = replayed(steps, held=False), replayed(steps, held=True)
    assert _comparable(in_place[0]) == _comparable(by_methods[0])
    assert in_place[1]["switches"] == by_methods[1]["switches"]
    assert in_place[1]["updates"] == by_methods[1]["updates"]


def _comparable(rows: list[tuple[float, ...]]) -> list[dict[str, str]]:
    """Rows by column, for a message that can be read; a loss that is not a number equals itself."""
    names = [name for name, _ in STEPS.columns]
    return [{name: str(value) for name, value in zip(names, row, strict=True)} for row in rows]


def test_a_usual_step_is_told_in_place() -> None:
    """Else the test above would compare one way with itself."""
    called: list[str] = []
    with pytest.MonkeyPatch().context() as patches:
        for name in ("enter", "leave", "leave_to", "decide", "unwind", "set_aside"):
            patches.setattr(Recorder, name, _noting(called, name))
        replayed([("usual", 1, 0, [])] * 10, held=False)  # the first few steps are met by methods
        first = len(called)
        assert first
        replayed([("usual", 1, 0, [])] * 20, held=False)
        assert len(called) == 2 * first


@pytest.mark.parametrize("kind", ["moves", "eval moves"])
def test_the_moves_of_a_policy_are_told_in_place(kind: str) -> None:
    called: list[str] = []
    usual, moves = ("usual", 1, 0, []), (kind, 1, 0, [])
    with pytest.MonkeyPatch().context() as patches:
        for name in ("enter", "leave", "leave_to", "unwind"):
            patches.setattr(Recorder, name, _noting(called, name))
        replayed([*[usual] * 10, moves], held=False)  # the first two moves are met by methods
        first = len(called)
        assert first
        replayed([*[usual] * 10, moves, moves, moves, usual, moves], held=False)
        assert len(called) == 2 * first


def _noting(called: list[str], name: str) -> Any:
    original = getattr(Recorder, name)

    def noting(self: Recorder, *args: Any) -> Any:
        called.append(name)
        return original(self, *args)

    return noting
