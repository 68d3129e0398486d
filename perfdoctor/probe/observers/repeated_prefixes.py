"""Generation that computes its whole prefix again for each new token.

Calls of a model without a loss, each of whose input is that of the call before with one place more. All such
calls are seen, by the shapes of what they are given; a third one of the same shapes and those behind it are
not, which go on with nothing. Contents are compared once in each row of calls on the CPU. On a device that
would wait for it, and whole numbers that grow so often in a row are taken for a text.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ...wire.events.training import RepeatedPrefixesEvent
from ..looks.op_recording import recording_question
from ..observer import Watch, observer
from ..user_frames import modules_between, user_lines
from ..wrapping import Args, Kwargs

NAME = "repeated_prefixes"
GROWN_MIN = 8  # calls in a row: lengths that a loader happens to deliver seldom grow by one so often
SAME = 0.5  # of the elements before the new place, where beams change places; other texts share few
MODELS_MAX = 100  # followed at a time
KEPT_MAX = 1 << 20  # elements of an input that is compared with the next one
GENERATES = "transformers.generation"


class Run:
    """Calls of one model in a row, and what their time tells of its growth with the length."""

    __slots__ = ("calls", "confirmed", "dimension", "kept", "key", "length", "lengths", "ns", "ns_by_length",
                 "shapes", "squares", "stale")  # fmt: skip

    def __init__(self, shapes: Dict[Any, Any]) -> None:
        self.begin(shapes)

    def begin(self, shapes: Dict[Any, Any]) -> None:
        """A call that continues none: the prompt, which is computed once anyway."""
        self.shapes = shapes  # by argument
        self.key: Any = None  # the argument that grows
        self.dimension = self.calls = self.length = 0
        self.ns = self.lengths = self.squares = self.ns_by_length = 0
        self.kept: Any = None  # what the argument was, for one call
        self.stale = False  # that was kept when the totals were written last
        self.confirmed = False

    def add(self, length: int, ns: int) -> None:
        """A call with one place more than the one before."""
        self.calls += 1
        self.length = length
        self.ns += ns
        self.lengths += length
        self.squares += length * length
        self.ns_by_length += length * ns

    def left_s(self) -> float:
        """What so many calls for one place each would take, by a straight line through their times.

        No less than the part of one place among all: a model of any size computes that one.
        """
        spread = self.calls * self.squares - self.lengths**2
        slope = (self.calls * self.ns_by_length - self.lengths * self.ns) / spread if spread else 0.0
        at_one = self.ns - slope * (self.lengths - self.calls)
        return min(float(self.ns), max(self.ns * self.calls / self.lengths, at_one)) / 1e9


class RepeatedPrefixes:
    """Running totals of one process."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.torch = watch.torch
        self.is_recording = recording_question()
        self.is_profiled = watch.torch._C._autograd._profiler_enabled
        self.models: Dict[int, Run] = {}  # by identity; another model in its place has other shapes
        self.names: Dict[type, Tuple[str, ...]] = {}  # of the arguments of `forward`
        self.runs = self.calls = self.longest = 0  # of confirmed runs
        self.by_shapes = 0  # of these, those whose inputs were not compared
        self.seconds = self.left_s = 0.0  # of those that ended
        self.generates = False
        self.lines: List[Dict[str, Any]] = []
        self.written = 0

    def called(self, args: Args, kwargs: Kwargs, ns: int) -> None:
        """See whether a call's input is that of the one before and one place more."""
        inputs = self._inputs(args, kwargs)
        run = self.models.get(id(args[0]))
        if run is None:
            if len(self.models) >= MODELS_MAX:
                self._forget()
            self.models[id(args[0])] = Run({name: one.shape for name, one in inputs.items()})
            return
        grown = self._grown(run, inputs)
        shapes = {name: one.shape for name, one in inputs.items()}
        if grown is None:
            self._close(run)
            run.begin(shapes)
            return
        run.key, run.dimension = grown
        run.shapes = shapes
        text = inputs[run.key]
        run.add(text.shape[run.dimension], ns)
        if run.confirmed:
            self.calls += 1
            self.longest = max(self.longest, run.length)
        elif run.calls == GROWN_MIN - 1:
            run.kept = text.detach() if self._may_compare(text) else None
        elif run.calls >= GROWN_MIN:
            self._confirm(run, text, shapes)

    def _may_compare(self, text: Any) -> bool:
        """Whether nobody waits for that or sees it."""
        seen = self.is_recording() or self.is_profiled()
        return bool(text.is_cpu and text.numel() <= KEPT_MAX and not seen)

    def _confirm(self, run: Run, text: Any, shapes: Dict[Any, Any]) -> None:
        """The row is long enough: it counts if its input goes on, and does not only grow."""
        kept, run.kept = run.kept, None
        if not text.is_cpu:
            goes_on = not text.is_floating_point()
        elif kept is None or not self._may_compare(text):
            goes_on = False
        else:
            before = text.narrow(run.dimension, 0, run.length - 1)
            goes_on = float((before == kept).float().mean()) >= SAME
        if not goes_on:
            run.begin(shapes)
            return
        run.confirmed = True
        self.runs += 1
        self.by_shapes += not text.is_cpu
        self.calls += run.calls
        self.longest = max(self.longest, run.length)
        if not self.lines:
            self.lines = user_lines()
            self.generates = any(name.startswith(GENERATES) for name in modules_between())

    def _inputs(self, args: Args, kwargs: Kwargs) -> Dict[Any, Any]:
        """Tensors that may be a text: whole numbers, or without any the first tensor; masks are none.

        Behind other tensors, one that grows may be the cache itself.
        """
        names = self.names.get(type(args[0]))
        if names is None:
            names = self.names[type(args[0])] = _names(args[0])
        found: Dict[Any, Any] = {}
        first: Optional[Tuple[Any, Any]] = None
        tensor, integers = self.torch.Tensor, False
        named = [
            (names[place] if place < len(names) else place, one) for place, one in enumerate(args) if place
        ]
        for name, one in (*named, *kwargs.items()):
            if type(one) is not tensor or one.is_nested or not one.dim() or "mask" in str(name):
                continue
            if first is None:
                first = name, one
            kind = one.dtype
            if not kind.is_floating_point and not kind.is_complex and kind is not self.torch.bool:
                found[name], integers = one, True
        if not integers and first is not None:
            found[first[0]] = first[1]
        return found

    def _grown(self, run: Run, inputs: Dict[Any, Any]) -> Optional[Tuple[Any, int]]:
        """Which input has one place more than before, and in which dimension."""
        for name in inputs if run.key is None else (run.key,):
            if name in inputs and name in run.shapes:
                dimension = _grown_in(run.shapes[name], inputs[name].shape)
                if dimension is not None and (run.key is None or dimension == run.dimension):
                    return name, dimension
        return None

    def _close(self, run: Run) -> None:
        """A row of calls has ended."""
        if run.confirmed:
            self.seconds += run.ns / 1e9
            self.left_s += run.left_s()

    def _forget(self) -> None:
        for run in self.models.values():
            self._close(run)
        self.models.clear()

    def write(self) -> None:
        """Write the totals, if they grew: with rows that go on. A row that paused lets go of its input."""
        for run in self.models.values():
            if run.kept is not None:
                if run.stale:
                    run.begin(run.shapes)
                else:
                    run.stale = True
        if self.calls == self.written:
            return
        self.written = self.calls
        going = [run for run in self.models.values() if run.confirmed]
        self.watch.write(
            RepeatedPrefixesEvent(
                runs=self.runs,
                calls=self.calls,
                seconds=self.seconds + sum(run.ns for run in going) / 1e9,
                left_s=self.left_s + sum(run.left_s() for run in going),
                longest=self.longest,
                generates=self.generates,
                lines=self.lines,
                by_shapes=self.by_shapes,
            )
        )


def _names(module: Any) -> Tuple[str, ...]:
    """What `forward` calls its arguments, itself included; nothing of a class without one."""
    forward = getattr(type(module), "forward", None)
    code = getattr(getattr(forward, "__wrapped__", forward), "__code__", None)
    return code.co_varnames[: code.co_argcount] if code is not None else ()


def _grown_in(before: Any, now: Any) -> Optional[int]:
    """The one dimension that has grown by one; None where anything else differs, or nothing."""
    if len(before) != len(now):
        return None
    found = None
    for dimension, (old, new) in enumerate(zip(before, now)):
        if old == new:
            continue
        if new != old + 1 or found is not None:
            return None
        found = dimension
    return found


@observer
def repeated_prefixes(watch: Watch) -> None:
    """Follow the lengths of inputs, in calls without a loss."""
    totals = RepeatedPrefixes(watch)
    watch.on_varied_evaluation(NAME, totals.called)
    watch.each_second(NAME, totals.write)
