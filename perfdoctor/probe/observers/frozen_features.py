"""Modules that compute nothing trained: what their calls take, and whether they are given rows again.

Told in the sampled steps of `module_calls`, of the outermost frozen module wherever it is called. Of those
that take a visible part, the rows of further steps are looked at too, within a budget: where they are called
by themselves, or are given what the model around them is given. A parameter or buffer that changes, as those
of an average of the weights do, ends it.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...wire.events.frozen import FrozenCallsEvent, FrozenRowsEvent
from .. import patch
from ..loader.batch_content import leaves
from ..looks.by_chance import drops_out, normalises_over_batch
from ..looks.op_recording import recording_question, unseen
from ..looks.row_hashes import RowHashes
from ..module_parts import buffers_of, modules_of, parameters_of
from ..observer import Watch, observer
from ..recorder import Recorder, clock
from ..user_frames import user_line
from ..wrapping import Args, Kwargs

NAME = "frozen_features"
NOTICEABLE = 0.05  # share of a sampled step: less is not followed
# What further steps may cost, or that of the time since the first: as for looks.
FREE_NS, SHARE = 20_000_000, 0.005
MODULES_MAX = 64  # told of: a frozen backbone without a module of its own has some dozens of layers
CALLS_MAX = 64  # of one module before an update, the last of which belong to it
ROWS_MAX = 4_096  # different ones that are counted; with more, every second one by its hash
PIECES, PIECE = 32, 4  # tensors of a module whose values are compared, elements of each

Places = Tuple[Any, List[int]]  # a weak reference to a model, and which of the tensors that it is given
Rows = Tuple[List[Optional[int]], Any, int]  # the hash of each row of a call, what it returned, nanoseconds


class FrozenModule:
    """What is known of one module that computes nothing trained."""

    def __init__(self, module: Any, number: int) -> None:
        self.weak = weakref.ref(module)
        self.number = number
        self.state: Any = None  # of its parameters and buffers, at the last look
        self.changed = self.by_chance = self.told_of = self.followed = False
        self.updated = False  # it was compared once more after an update, since it was first followed
        self.seconds, self.calls = 0.0, 0  # of the look that is under way
        self.sampled_ns, self.sampled = 0, 0  # all calls in looks
        self.fed: Optional[Places] = None  # what the calls in looks were given, where all were given the same
        self.total_ns = 0  # of calls that fed updates
        self.line: Optional[Dict[str, Any]] = None
        self.per_update = CALLS_MAX  # calls, the fewest of all looks
        self.pending: List[Rows] = []  # of calls since the last update
        self.updates = self.hits = self.rows = self.counted = 0
        self.every = 1  # of so many hashes one is counted
        self.times: Dict[int, int] = {}  # that each row came, by its hash
        self.results: Dict[int, Any] = {}  # some elements
        self.compared = self.alike = self.row_bytes = 0
        self.written = 0

    def update(self) -> None:
        """The last calls fed an update; those before them may have validated."""
        calls, self.pending = self.pending[-self.per_update :], []
        if not calls:
            return
        self.updates += 1
        hit = False
        known = set(self.times)
        for hashes, result, ns in calls:
            self.rows += len(hashes)
            self.total_ns += ns
            for row, value in enumerate(hashes):
                if value is None or value % self.every:
                    continue
                hit |= value in known
                self.counted += 1
                self.times[value] = self.times.get(value, 0) + 1
                if result is not None:
                    self._compare(value, result[1][row], result[2])
            if result is not None:
                self.row_bytes = result[0]
        self.hits += hit
        while len(self.times) > ROWS_MAX:
            self._halve()

    def _compare(self, value: int, now: List[float], rounding: float) -> None:
        """Whether what it returned for a row is what it returned before."""
        before = self.results.get(value)
        if before is None:
            if len(self.results) < ROWS_MAX:
                self.results[value] = now
            return
        most = rounding * max(map(abs, before))
        self.compared += 1
        same = len(before) == len(now) and all(abs(old - new) <= most for old, new in zip(before, now))
        self.alike += same

    def _halve(self) -> None:
        self.every *= 2
        self.times = {value: times for value, times in self.times.items() if not value % self.every}
        self.results = {value: one for value, one in self.results.items() if value in self.times}
        self.counted = sum(self.times.values())

    def told(self) -> FrozenRowsEvent:
        """The totals so far."""
        return FrozenRowsEvent(
            number=self.number,
            updates=self.updates,
            hits=self.hits,
            rows=self.rows,
            part=1.0 / self.every,
            counted=self.counted,
            different=len(self.times),
            pairs=sum(times * (times - 1) // 2 for times in self.times.values()),
            compared=self.compared,
            alike=self.alike,
            seconds=self.total_ns / 1e9,
            row_bytes=self.row_bytes,
            changed=self.changed,
            by_chance=self.by_chance,
        )


class FrozenFeatures:
    """The frozen modules of one process."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.torch = watch.torch
        self.steps = watch.steps
        self.plain = (watch.torch.Tensor, watch.torch.nn.Parameter)  # others may hold no elements themselves
        self.hashes = RowHashes(watch.torch)
        self.is_recording = recording_question()
        self.is_profiled = watch.torch._C._autograd._profiler_enabled
        self.known: Dict[int, FrozenModule] = {}  # by identity
        self.current: Any = None  # the call that is under way, in a look
        self.inside: Optional[FrozenModule] = None  # its module
        # Around it: a call of a model that trains, the model, and the tensors that it was given.
        self.outer: Optional[Tuple[Any, Any, List[Any]]] = None
        self.hashed: Any = None  # rows and hashes of what it was given
        self.follows = False  # any of them, from update to update
        self.hooked = False  # to what is seen less often than calls that train nothing
        self.end_evaluations: Callable[[], None] = lambda: None
        self.first_ns, self.own_ns = 0, 0
        self.state_of = unseen(self._state)
        self.called = patch.guarded(NAME, unseen(self._called))
        self.returned = patch.guarded(NAME, unseen(self._returned))
        self.ended = patch.guarded(NAME, unseen(self._ended))

    # ------------------------------------------------------------ in sampled steps

    def _called(self, call: Any, args: Args, kwargs: Kwargs) -> None:
        """A call begins: see whether it computes nothing trained."""
        if self.current is not None:
            return
        inputs = (args[1:], kwargs)
        module = args[0]
        first = next(parameters_of(module), None)
        if first is None or not first.is_cpu:
            return
        if self._trains(module, inputs):
            if self.outer is None:
                self.outer = call, weakref.ref(module), leaves(inputs, self.torch.Tensor)
            return
        frozen = self._frozen(module)
        if frozen is None or frozen.changed:
            return
        self.current, self.inside = call, frozen
        fed = self._fed(inputs)
        frozen.fed = fed if not frozen.sampled or frozen.fed == fed else None
        self.hashed = self.hashes.of_inputs(inputs) if len(frozen.pending) < CALLS_MAX else None

    def _fed(self, inputs: Any) -> Optional[Places]:
        """Which of the tensors that the model around is given these are; None where another is among them."""
        if self.outer is None:
            return None
        _, model, given = self.outer
        places = {id(tensor): place for place, tensor in enumerate(given)}
        own = [places.get(id(tensor)) for tensor in leaves(inputs, self.torch.Tensor)]
        known = [place for place in own if place is not None]
        return (model, known) if own and len(known) == len(own) else None

    def _trains(self, module: Any, inputs: Any) -> bool:
        """Whether gradients go to the module, or through it to what made its inputs."""
        return bool(self.torch.is_grad_enabled()) and (
            any(one.requires_grad for one in parameters_of(module))
            or any(one.requires_grad for one in leaves(inputs, self.torch.Tensor))
        )

    def _frozen(self, module: Any) -> Optional[FrozenModule]:
        frozen = self.known.get(id(module))
        if frozen is not None and frozen.weak() is module:
            return frozen
        if frozen is None and len(self.known) >= MODULES_MAX:
            return None
        number = len(self.known) if frozen is None else frozen.number
        frozen = self.known[id(module)] = FrozenModule(module, number)
        return frozen

    def _returned(self, call: Any, result: Any) -> None:
        """A call has ended."""
        if self.outer is not None and call is self.outer[0]:
            self.outer = None
        if call is not self.current:
            return
        frozen, hashed = self.inside, self.hashed
        self.current = self.inside = self.hashed = None
        if frozen is None:
            return
        frozen.seconds += call.ns / 1e9
        frozen.calls += 1
        frozen.sampled_ns += int(call.ns)
        frozen.sampled += 1
        frozen.line = user_line()
        if hashed is not None:
            frozen.pending.append((hashed[1], self.hashes.of_result(result, hashed[0]), call.ns))

    def _ended(self, look: int, seconds: float) -> None:
        """Compare states, and tell what the calls took."""
        self.current = self.inside = self.hashed = self.outer = None
        for frozen in list(self.known.values()):
            module = frozen.weak()
            if module is None or frozen.changed or not frozen.calls:
                continue
            state = self._state(module)
            frozen.changed = frozen.state is not None and frozen.state != state
            frozen.state = state
            frozen.by_chance |= any(map(self._is_by_chance, modules_of(module)))
            frozen.per_update = max(1, min(frozen.per_update, frozen.calls))
            frozen.update()
            if frozen.told_of or frozen.seconds >= NOTICEABLE * seconds:
                self._tell(frozen, module, look, seconds)
            frozen.seconds, frozen.calls = 0.0, 0
        self._end_unless_followed()

    def _tell(self, frozen: FrozenModule, module: Any, look: int, seconds: float) -> None:
        self.watch.write(
            FrozenCallsEvent(
                look=look,
                number=frozen.number,
                module=type(module).__name__,
                seconds=frozen.seconds,
                step_s=seconds,
                calls=frozen.calls,
                at=frozen.line,
            )
        )
        frozen.told_of = True
        frozen.followed = not (frozen.changed or frozen.by_chance)
        if frozen.followed and not self.follows:
            self.follows = True
            self.first_ns = self.first_ns or clock()
            self.end_evaluations = self.watch.on_evaluation(NAME, self.evaluated)
            if not self.hooked:
                self.hooked = True
                self.watch.on_followed_call(NAME, self.trained)
                self.watch.on_update(NAME, self.updated)
        model = frozen.fed[0]() if frozen.followed and frozen.fed is not None else None
        if model is not None:
            self.watch.follow(model)

    def _state(self, module: Any) -> Any:
        """Something that changes when a parameter or a buffer does: `.data` goes past versions."""
        tensors = [*parameters_of(module), *buffers_of(module)]
        versions = sum(0 if one.is_inference() else one._version for one in tensors)
        plain = [one for one in tensors if type(one) in self.plain and one.is_cpu]
        chosen = [one.detach() for one in plain[:: max(1, len(plain) // PIECES)]]
        values: List[Any] = []
        for one in chosen:
            while one.dim() > 1:
                one = one[one.shape[0] // 2] if one.shape[0] else one.reshape(-1)
            values.append(one.reshape(-1)[:PIECE].tolist())
        return hash(tuple(map(id, tensors))), versions, str(values)

    def _is_by_chance(self, module: Any) -> bool:
        """Whether a layer draws random numbers, or normalises over the batch."""
        nn = self.torch.nn
        return drops_out(nn, module) or normalises_over_batch(nn, module)

    # ------------------------------------------------------------ in further steps

    def evaluated(self, args: Args, kwargs: Kwargs, ns: int) -> None:
        """A module was called by itself, without gradients or in eval mode."""
        frozen = self.known.get(id(args[0]))
        inputs = (args[1:], kwargs)
        began_ns = clock()
        if frozen is not None and self._looks_at(frozen, began_ns) and not self._trains(args[0], inputs):
            self._add(frozen, inputs, ns)
            self.own_ns += clock() - began_ns

    def trained(self, args: Args, kwargs: Kwargs) -> None:
        """A model that trains was called, and frozen modules inside, which take what they took in looks."""
        began_ns = clock()
        given: Any = None
        for frozen in self.known.values():
            model, places = frozen.fed if frozen.fed is not None else (None, [])
            if model is None or model() is not args[0] or not self._looks_at(frozen, began_ns):
                continue
            given = leaves((args[1:], kwargs), self.torch.Tensor) if given is None else given
            if max(places) < len(given):
                inputs = [given[place] for place in places]
                self._add(frozen, inputs, frozen.sampled_ns // max(1, frozen.sampled))
        self.own_ns += clock() - began_ns

    def _looks_at(self, frozen: FrozenModule, now_ns: int) -> bool:
        """Whether a further call is looked at: within the budget, and not while others look."""
        if not frozen.followed or frozen.changed or self.steps.modules.watcher is not True:
            return False
        if self.own_ns > max(FREE_NS, SHARE * (now_ns - self.first_ns)):
            return False
        return not (self.is_recording() or self.is_profiled())

    def _add(self, frozen: FrozenModule, inputs: Any, ns: int) -> None:
        """Take in the rows of a further call."""
        hashed = self.hashes.of_inputs(inputs)
        if hashed is not None:
            frozen.pending = [*frozen.pending, (hashed[1], None, ns)][-frozen.per_update :]

    def updated(self, recorder: Recorder, optimizer: int) -> None:
        """An optimizer made its step."""
        for frozen in self.known.values():
            if not frozen.followed or frozen.changed or self.steps.modules.watcher is not True:
                continue
            began_ns = clock()
            module = None if frozen.updated else frozen.weak()
            if module is not None:  # the next look may be long in coming, and calls by then many
                frozen.updated = True
                frozen.changed = frozen.state != self.state_of(module)
            if frozen.pending:
                frozen.update()
            self.own_ns += clock() - began_ns
        self._end_unless_followed()

    def _end_unless_followed(self) -> None:
        """Look at no more calls once all modules have changed, or are gone."""
        if not self.follows:
            return
        if not any(
            one.followed and not one.changed and one.weak() is not None for one in self.known.values()
        ):
            self.follows = False
            self.end_evaluations()

    def write(self) -> None:
        """Write the totals that grew."""
        for frozen in list(self.known.values()):
            if frozen.told_of and frozen.updates + frozen.changed != frozen.written:
                frozen.written = frozen.updates + frozen.changed
                self.watch.write(frozen.told())


@observer
def frozen_features(watch: Watch) -> None:
    """Look at the calls of frozen modules in sampled steps, and at the rows they are given in others."""
    totals = FrozenFeatures(watch)
    watch.on_sampled_steps(totals)
    watch.each_second(NAME, totals.write)
