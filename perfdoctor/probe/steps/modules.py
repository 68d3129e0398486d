"""Calls of modules: an outermost one is a forward pass, or one in eval mode."""

from __future__ import annotations

import weakref
from _thread import get_ident
from functools import partial
from typing import Any, Callable, Dict, Optional, Tuple

from ...wire.step_rows import BACKWARD, CALL, CHECKPOINT, DATA_WAIT, FORWARD, OTHER, VALIDATION
from .. import patch
from ..compile_question import compile_question
from ..looks.op_recording import recording_question, unseen
from ..module_parts import modules_of, parameters_of
from ..recorder import AFTER_FORWARD, EVAL_FORWARD, FREE, Recorder, clock
from ..wrapping import Args, Kwargs
from .batch_layout import BatchLayouts, LayoutLook
from .eval_passes import EvalPasses
from .known_modules import NOBODY, KnownModule
from .samples import SampleCount, is_single
from .steady_calls import SteadyCalls
from .thread import TrainingThread
from .updates import Updates

NAME = "module_call"

INDIVISIBLE = frozenset((DATA_WAIT, BACKWARD, VALIDATION, CHECKPOINT))  # calls inside belong to it


class ModuleCallPhases:
    """Enters and leaves the phase of each outermost call."""

    def __init__(
        self, thread: TrainingThread, samples: SampleCount, evals: EvalPasses, updates: Updates, torch: Any
    ) -> None:
        self.thread = thread
        self.session = thread.session
        self.samples = samples
        self.evals = evals
        self.updates = updates
        self.torch = torch
        self.is_tracing = getattr(torch._C, "_is_tracing", torch.jit.is_tracing)  # what the latter asks
        self.is_recording = torch.is_grad_enabled
        self.is_seen = recording_question()  # what we ask of tensors
        self.function_modes = torch._C._len_torch_function_stack
        self.meet, self.count_unseen = unseen(self._meet), unseen(self._count_rows)
        self.count_samples = patch.part("samples", self._count_samples)
        self.in_call: Any = False  # or what `watcher` was when the outermost call began
        self.watcher: Any = True  # or who watches the calls inside one
        self.known: Dict[int, KnownModule] = {}  # by identity, for as long as the module lives
        self.last = NOBODY  # what is known of the one that was called last
        self.layouts = BatchLayouts(self.session, samples, torch)
        self.look: Optional[LayoutLook] = None  # at the call that is under way
        # The last pass in eval mode if it recorded: of which module, which call of its row, and its ns.
        self.evaluated: Optional[Tuple[KnownModule, int, int]] = None
        # Such passes since the last batch or backward that were derived with respect to data, and their ns.
        self.derived: Tuple[int, int] = (0, 0)
        self.derived_call = 0  # the last of them
        # What was given the last batch in train mode, without gradients.
        self.unsure: Optional[KnownModule] = None
        self.validating = False  # what the outermost call was taken for as it began
        self.largest = 0  # modules in the largest model
        self.steady = SteadyCalls(self)

    def follow(self, module: Any) -> None:
        """Show each call of a model that trains, from the next one on."""
        known = self.known.get(id(module))
        if known is not None:
            known.followed, known.plain = True, False

    def wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`nn.Module.__call__`, watched: the usual call in place, any other by `before` and `after`."""
        tracing, compiler = compile_question()
        other = patch.around_method(original, self.before, self.after, NAME)
        validation = patch.around_method(original, self.before, self.after, "validation")
        validates = patch.guarded(NAME, self._validates)
        steady, unwind = self.steady.told(original), self.updates.unwind
        phases, session, samples, modules = self, self.session, self.samples, self.known
        is_recording, is_tracing, turned_off = self.is_recording, self.is_tracing, patch.turned_off

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if tracing() or compiler._is_compiling_flag:
                return original(self, *args, **kwargs)
            try:
                if phases.in_call is True:  # without names it is handed on in fewer instructions
                    return original(self, *args, **kwargs) if kwargs else original(self, *args)
                recorder, known = session.recorder, phases.last
                if known.alive() is not self:
                    known = phases.last = modules.get(id(self), NOBODY)
                if (
                    recorder is None
                    or not recorder.free
                    or not FREE[recorder.current]
                    or recorder.level <= CALL
                    or recorder.owner != get_ident()
                    or phases.watcher is not True
                    or turned_off  # of whatever kind: what follows asks
                ):
                    return (validation if validates(self) else other)(self, *args, **kwargs)
                if not (known.plain and self.training and is_recording()) or (
                    not samples.loader_delivers and is_tracing()
                ):
                    call = steady(self, args, kwargs, known)
                    if call is not None:
                        return call(self, args, recorder, known)
                    return (validation if validates(self) else other)(self, *args, **kwargs)
                recorder.since = clock()  # the time before is in no phase
                if recorder.undecided:
                    recorder.set_aside(OTHER, OTHER)
                recorder.current = FORWARD
                recorder.switches += 1
                recorder.calls += 1
                try:  # a signal's handler may raise anywhere from here on
                    phases.in_call = True
                    if not samples.loader_delivers:
                        phases.count_samples(args, known)
                    return original(self, *args, **kwargs) if kwargs else original(self, *args)
                finally:
                    phases.in_call = False
                    if recorder.stack:
                        unwind(recorder, 0)
                    now = clock()
                    recorder.spent[recorder.current] += now - recorder.since
                    recorder.since = now
                    recorder.current = AFTER_FORWARD
            except BaseException as error:
                patch.cut(error)
                raise

        return patch.finished(wrapper, original, NAME)

    def before(self, args: Args, kwargs: Kwargs) -> Any:
        """Enter forward or validation at an outermost call of a module that has parameters."""
        watcher = self.in_call
        if watcher:
            return None if watcher is True else watcher.enter(args, kwargs)
        return self._enter(args, kwargs)

    def _enter(self, args: Args, kwargs: Kwargs) -> Any:
        """The same for any call, wherever it is made."""
        if self.is_tracing():
            for call in self.thread.moments.evaluating:
                call(True)
            return None  # what we look at would become part of the traced graph
        module = args[0]
        known = self.known.get(id(module)) or self.meet(module)
        if not known.has_parameters:
            return None
        recording = self.is_recording()
        phase = self._phase(module, known, recording)
        trains = phase == FORWARD
        recorder = self.thread.recorder(CALL) if recording and trains else self.session.recording()
        if recorder is None or recorder.current in INDIVISIBLE:
            return None
        if phase == VALIDATION or not recording:
            for call in self.thread.moments.evaluating:
                call(phase == VALIDATION)
        known.trained |= trains or module.training
        known.plain = known.trained and known.layout is None and not known.followed
        watcher = self.in_call = self._watcher(known, trains, args, kwargs)
        recorder.calls += 1
        if not self.samples.loader_delivers and trains and self.look is None:
            self.count_samples(args[1:], known)
        recorder.enter(phase)
        depth = len(recorder.stack)
        if phase == VALIDATION and not self.derived_call:  # else those before wait for what follows
            recorder.decide(recorder.base, recorder.base, VALIDATION)
        elif recorder.undecided:
            recorder.set_aside(recorder.base, recorder.base)
        watched = None if watcher is True or watcher is self.look else watcher.enter(args, kwargs)
        return recorder, watched, phase, recording, depth, known, kwargs

    def _watcher(self, known: KnownModule, trains: bool, args: Args, kwargs: Kwargs) -> Any:
        """Who watches the calls inside: while a model is new, a look at how its batches are laid out."""
        look = known.layout
        if look is not None and trains and self.watcher is True and not self.is_seen():
            self.look = look
            self.watcher = look if look.begin(args, kwargs) else True
        return self.watcher

    def _settle(self, known: KnownModule, look: LayoutLook, args: Args, result: Any) -> None:
        """The look at a call is over: count its samples in the dimension that they lie in."""
        self.look = None
        if self.watcher is look:
            self.watcher = True
        settled, known.dimension = look.end(result) or (True, 0)
        if settled:
            known.layout, known.plain = None, known.trained and not known.followed
        if not self.samples.loader_delivers:
            self.count_samples(args[1:], known)
        elif settled and look.shows:
            self.samples.settle(known.dimension)
        elif settled:
            self.samples.be_plain()

    def _phase(self, module: Any, known: KnownModule, recording: bool) -> int:
        """What an outermost call is.

        In train mode one that records no gradients may validate, if it comes with a batch that no backward
        has used: what follows tells, as with a module that has only been called in eval mode. With used ones
        it makes the data of later steps, as in reinforcement learning.
        """
        if module.training:
            unused = not recording and self.samples.loader_delivers and self.samples.pending
            return EVAL_FORWARD if unused else FORWARD
        if recording and known.trains_in_eval_mode:
            return FORWARD
        return VALIDATION if known.trained else EVAL_FORWARD

    def _validates(self, module: Any) -> bool:
        """Whether a call seems to be validation: the name of the wrapper around it tells stack samples."""
        if self.in_call:
            return self.validating
        known = self.known.get(id(module))
        self.validating = known is not None and (
            (phase := self._phase(module, known, self.is_recording())) == VALIDATION
            or (phase == EVAL_FORWARD and module.training and known.validates)
        )
        return self.validating

    def after(self, token: Any, args: Args, result: Any) -> None:
        """Leave the phase; in train mode what follows is the loss, until something else begins."""
        if type(token) is tuple:
            self._leave(token, args, result)
        else:
            token.leave(result)

    def _leave(self, token: Any, args: Args, result: Any) -> None:
        self.in_call = False
        recorder, watcher, phase, recording, depth, known, kwargs = token
        if self.look is not None:
            self._settle(known, self.look, args, result)
        if watcher is not None:
            watcher.leave(result)
        self.updates.unwind(recorder, depth)
        begin = recorder.since
        if phase == FORWARD and recording:
            recorder.leave_to(AFTER_FORWARD)
        else:
            recorder.leave()
        if phase == VALIDATION:
            ns = recorder.since - begin
            self.evals.count(ns / 1e9, recording)
            self.evaluated = (known, recorder.calls, ns) if recording else None
            self.samples.evaluated = True
        elif phase == EVAL_FORWARD and known.trained:
            self.unsure = known
            self.samples.evaluated = True
        if phase != FORWARD or not recording:
            moments = self.thread.moments
            for call in (*moments.evaluated, *moments.varied):
                call(args, kwargs, recorder.since - begin)
            self.steady.note(known, args, kwargs)
        elif known.followed:
            for show in self.thread.moments.followed:
                show(args, kwargs)
        if recorder.level <= CALL:
            recorder.mark(CALL)

    def before_backward(self, recorder: Recorder) -> None:
        """Evaluations since the last batch were a part of the step; one right before it was a forward."""
        calls, ns = self.derived
        if self.evaluated is not None and self.evaluated[1] == recorder.calls:
            known, call, own_ns = self.evaluated
            known.trains_in_eval_mode = True
            if call != self.derived_call:
                recorder.move(VALIDATION, FORWARD, own_ns)
                self.evals.derive(own_ns / 1e9)
                calls, ns = calls + 1, ns + own_ns
        if calls:
            self.evals.take_back(calls, ns / 1e9)
        if self.unsure is not None:
            self.unsure.validates = False
        self._forget()

    def before_batch(self) -> None:
        """No backward used the batch before, which was evaluated."""
        if self.unsure is not None:
            self.unsure.validates = True
        self._forget()

    def before_derivative(self, recorder: Recorder) -> bool:
        """Whether gradients with respect to data are asked for of a pass in eval mode.

        That may evaluate, as with forces, or be a part of the step, as with adversarial samples: what follows
        tells.
        """
        if self.evaluated is None or self.evaluated[1] != recorder.calls:
            return False
        _, call, ns = self.evaluated
        if call != self.derived_call:
            self.derived_call = call
            self.derived = self.derived[0] + 1, self.derived[1] + ns
            self.evals.derive(ns / 1e9)
            recorder.move(VALIDATION, EVAL_FORWARD, ns)
            recorder.undecided = True
        return True

    def _forget(self) -> None:
        self.evaluated = self.unsure = None
        self.derived, self.derived_call = (0, 0), 0

    def any_trained(self) -> bool:
        """Whether a module was called in train mode."""
        return any(known.trained for known in self.known.values())

    def _count_samples(self, args: Args, known: KnownModule) -> None:
        """Without a DataLoader, a model's input tells the size of the batch, where one loss trains all."""
        batch = args[0] if args else None
        updates = self.updates
        one_loss = not updates.several_losses or len(updates.numbers) <= 1
        at = known.dimension
        kind, tensor = type(batch), self.torch.Tensor
        if not one_loss or at is None or not issubclass(kind, tensor):
            return
        plain = kind is tensor and not self.function_modes()
        (self._count_rows if plain else self.count_unseen)(batch, at)

    def _count_rows(self, batch: Any, at: int) -> None:
        if batch.dim() > at and not is_single(batch):
            # `len` takes four times as long as `shape`, which a nested tensor does not have.
            self.samples.pending = batch.size(0) if batch.is_nested else batch.shape[at]

    def _meet(self, module: Any) -> KnownModule:
        has_parameters = next(parameters_of(module), None) is not None
        key = id(module)
        # Another module may come to lie where this one did.
        alive = weakref.ref(module, partial(self.known.pop, key))
        known = self.known[key] = KnownModule(has_parameters, alive)
        if has_parameters:
            known.layout = LayoutLook(self.layouts)
            size = sum(1 for _ in modules_of(module))
            self.largest = max(self.largest, size)
            for call in self.thread.moments.model:
                call(module, size)
            device = next(parameters_of(module)).device
            for tell in self.thread.moments.device:
                tell(device)
        return known
