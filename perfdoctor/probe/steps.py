"""Step boundaries and phases, from the calls every training loop makes: modules, backward, optimizers."""

from __future__ import annotations

import math
import weakref
from _thread import get_ident
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import patch, record
from .clearing import Clearing
from .evals import Evals
from .freshness import Freshness
from .looks import Looks
from .losses import DeviceLosses
from .names import names_of
from .record import (
    AFTER_BACKWARD,
    AFTER_FORWARD,
    BACKWARD,
    BACKWARD_DONE,
    CALL,
    EVAL_FORWARD,
    FORWARD,
    FRESH,
    OPTIMIZER,
    OTHER,
    SKIPPED,
    UPDATE,
    UPDATED_IN_BACKWARD,
    VALIDATION,
    Recorder,
    clock,
)
from .session import PULSE_NS, Session
from .where import line_of, user_frame

Args = Tuple[Any, ...]
Kwargs = Dict[str, Any]

# Calls inside belong to it.
INDIVISIBLE = frozenset((record.DATA_WAIT, BACKWARD, VALIDATION, record.CHECKPOINT))
MODULES_MAX = 1_000  # modules remembered by identity; scripts that build one per step start over
NAMES_AT_BACKWARD = 3  # the backward at which names are read: the first ones may be warm-up


class _Seen:
    """What is known of one module: whether it has parameters, and whether it was called in train mode."""

    __slots__ = ("has_parameters", "trained")

    def __init__(self, has_parameters: bool) -> None:
        self.has_parameters = has_parameters
        self.trained = False


class Steps:
    """The hooks of one process's training thread."""

    def __init__(self, session: Session, torch: Any) -> None:
        self.session = session
        self.torch = torch
        self.is_tracing = torch.jit.is_tracing
        self.in_call: Any = False  # or what `inside` was when the outermost call began
        self.inside: Any = True  # or who watches the calls inside one
        self.trains = False  # a forward with gradients, a backward or an update was seen
        self.modules: Dict[int, _Seen] = {}
        self.largest = 0  # modules in the largest model
        self.at_update: Optional[Callable[[Recorder, int], None]] = None
        self.optimizers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.updates: List[Tuple[int, int]] = []  # open updates: (identity, depth of the phases below it)
        self.last_optimizer = (0, 0)  # identity and number: a weak look-up costs as much as the rest
        self.inner_steps = 0  # optimizer steps inside the outermost update
        self.updated_in_backward = False
        self.backward_depth = 0
        self.backwards_seen = 0
        self.on_device: Callable[[Any], None] = lambda device: None  # called with a device that trains
        self.on_root: Callable[[Any, int], None] = lambda module, size: None  # with a model, its modules
        self.on_optimizer: Callable[[Any, int], None] = lambda optimizer, number: None
        self.pending_samples = 0
        self.evaluated = False  # a module in eval mode was called since the last batch or backward
        self.loader_delivers = False
        self.device_losses: Optional[DeviceLosses] = None
        self.unscaled: Any = None  # the loss before a GradScaler multiplied it
        self.freshness = Freshness()
        self.note_loss = patch.guarded("loss", self._note_loss)
        self.evals = Evals(session)
        self.looks = Looks()
        self.at_pulse: List[Callable[[], None]] = [self.evals.pulse]
        self.clearing = Clearing(session, torch)
        self.gradients: Any = None  # exchanges by DistributedDataParallel, where there is one
        self.next_pulse = clock() + PULSE_NS

    # ------------------------------------------------------------ whose thread

    def recorder(self) -> Optional[Recorder]:
        """The recorder, for the thread that trains; the first thread that does becomes it."""
        recorder = self.session.recording()
        if recorder is not None:
            self.trains = True
            return recorder
        recorder = self.session.recorder
        if recorder is None or recorder.off or self.trains:
            return None
        recorder.owner = get_ident()
        recorder.stack.clear()
        recorder.current = OTHER
        recorder.touch()
        self.trains = True
        return recorder

    # ------------------------------------------------------------ modules

    def before_module(self, args: Args, kwargs: Kwargs) -> Any:
        """Enter forward or validation at an outermost call of a module that has parameters."""
        watcher = self.in_call
        if watcher:
            return None if watcher is True else watcher.enter(args, kwargs)
        if self.is_tracing():
            return None  # what we look at would become part of the traced graph
        module = args[0]
        seen = self.modules.get(id(module)) or self._see(module)
        if not seen.has_parameters:
            return None
        recording = self.torch.is_grad_enabled()
        recorder = self.recorder() if recording and module.training else self.session.recording()
        if recorder is None or recorder.current in INDIVISIBLE:
            return None
        if module.training:
            seen.trained = True
            phase = FORWARD
        else:
            phase = VALIDATION if seen.trained else EVAL_FORWARD
        watcher = self.in_call = self.inside
        recorder.calls += 1
        if not self.loader_delivers and phase == FORWARD:
            self._count_samples(args)
        recorder.enter(phase)
        if phase == VALIDATION:
            recorder.decide(recorder.base, recorder.base, VALIDATION)
        elif recorder.undecided:
            recorder.set_aside(recorder.base, recorder.base)
        return recorder, None if watcher is True else watcher.enter(args, kwargs), phase, recording

    def after_module(self, token: Any, args: Args, result: Any) -> None:
        """Leave the phase; in train mode what follows is the loss, until something else begins."""
        if type(token) is not tuple:
            token.leave(result)
            return
        self.in_call = False
        recorder, watcher, phase, recording = token
        if watcher is not None:
            watcher.leave(result)
        begin = recorder.since
        if phase == FORWARD and recording:
            recorder.leave_to(AFTER_FORWARD)
        else:
            recorder.leave()
        if phase == EVAL_FORWARD:
            recorder.undecided = True
        elif phase == VALIDATION:
            self.evals.count((recorder.since - begin) / 1e9, recording)
            self.evaluated = True
        if recorder.level <= CALL:
            recorder.mark(CALL)

    def give_samples(self, count: int) -> None:
        """A loader delivered a batch; the one before it that only an eval pass used was no training batch."""
        self.loader_delivers = True
        self.pending_samples = count + (0 if self.evaluated else self.pending_samples)
        self.evaluated = False

    def take_samples(self) -> int:
        """What was delivered and not yet counted."""
        count, self.pending_samples = self.pending_samples, 0
        self.evaluated = False
        return count

    def _count_samples(self, args: Args) -> None:
        """Without a DataLoader, a lone model's input tells the size of the batch."""
        batch = args[1] if len(args) > 1 else None
        if len(self.optimizers) <= 1 and isinstance(batch, self.torch.Tensor) and batch.dim():
            self.pending_samples = len(batch)

    def _see(self, module: Any) -> _Seen:
        if len(self.modules) >= MODULES_MAX:
            self.modules.clear()
        has_parameters = next(module.parameters(), None) is not None
        seen = self.modules[id(module)] = _Seen(has_parameters)
        if has_parameters:
            size = sum(1 for _ in module.modules())
            self.largest = max(self.largest, size)
            self.on_root(module, size)
            self.on_device(next(module.parameters()).device)
        return seen

    # ------------------------------------------------------------ backward

    def before_backward(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, Any]]:
        """Enter backward; the time since the forward was the loss."""
        if self.backward_depth:
            return None
        recorder = self.recorder()
        if recorder is None:
            return None
        self.backward_depth = 1
        recorder.enter(BACKWARD)
        recorder.decide(FORWARD, FORWARD, FORWARD)
        if self.gradients is not None:
            self.gradients.before_backward(recorder)
        if recorder.since >= self.next_pulse:
            self.pulse()
        loss = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        if recorder.level < UPDATE and self.freshness.judge(loss) and not recorder.backwards:
            recorder.flags |= FRESH
        if self.clearing.open:
            self.clearing.before_backward()
        self.looks.before_backward(recorder, loss)
        if self.backwards_seen < NAMES_AT_BACKWARD:
            self._note_names()
        samples = self.take_samples()
        if not (self.updates and recorder.backwards):  # a closure goes over the same batch again
            recorder.samples += samples
        return recorder, loss

    def after_backward(self, token: Tuple[Recorder, Any], args: Args, result: Any) -> None:
        """Leave backward; updates that its hooks made close the step here."""
        self.backward_depth = 0
        recorder, loss = token
        if self.updated_in_backward:
            recorder.leave()
        else:
            recorder.leave_to(AFTER_BACKWARD)
        if self.gradients is not None:
            self.gradients.after_backward(recorder)
        recorder.backwards += 1
        if self.clearing.open:
            self.clearing.after_backward()
        self.note_loss(recorder, loss)
        if self.updated_in_backward:
            self.updated_in_backward = False
            recorder.flags |= UPDATED_IN_BACKWARD
            self._update(recorder, 1)
            return
        if recorder.level < UPDATE:
            self.freshness.remember()
            if not self.updates:
                recorder.mark(BACKWARD_DONE)

    def _note_loss(self, recorder: Recorder, loss: Any) -> None:
        """Add the loss of this backward, where it can be read without waiting for a device."""
        loss, self.unscaled = (loss if self.unscaled is None else self.unscaled), None
        if isinstance(loss, (list, tuple)) and len(loss) == 1:
            loss = loss[0]
        if type(loss) is not self.torch.Tensor or loss.numel() != 1:
            return  # a fake or distributed tensor has no value to read here
        if self.updates and recorder.backwards > 1:
            return  # an optimizer's closure is called several times: the first value is the loss
        if loss.is_cpu:
            value = loss.item()
            recorder.loss = value if math.isnan(recorder.loss) else recorder.loss + value
        elif loss.is_cuda:
            if self.device_losses is None:
                self.on_device(loss.device)
                self.device_losses = DeviceLosses(self.torch, recorder.rows.amend_loss)
            self.device_losses.add(loss, recorder.written)

    def _note_names(self) -> None:
        """In a loop without modules, tell which names hold results of the forward pass."""
        self.backwards_seen += 1
        if self.backwards_seen != NAMES_AT_BACKWARD or any(seen.trained for seen in self.modules.values()):
            return
        frame = user_frame()
        if frame is None:
            return
        tensor = self.torch.Tensor
        names = sorted(
            name
            for name, value in names_of(frame).items()
            if isinstance(value, tensor) and value.requires_grad
        )
        self.session.event("grad_names", names=names, function=frame.f_code.co_name, at=line_of(frame))

    # ------------------------------------------------------------ optimizers

    def optimizer_begins(self, optimizer: Any) -> None:
        """torch's hook before any optimizer's step."""
        self._begin_update(id(optimizer))
        self.inner_steps += 1

    def optimizer_ends(self, optimizer: Any) -> None:
        """torch's hook after any optimizer's step."""
        self._end_update(optimizer)

    def _begin_update(self, identity: int) -> None:
        recorder = self.session.recorder
        if recorder is not None and recorder.owner != get_ident() and self.backward_depth:
            self.updated_in_backward = True  # a gradient hook, in a thread of autograd's own
            return
        recorder = self.recorder()
        if recorder is None:
            return
        for position, (known, depth) in enumerate(self.updates):
            if known == identity:  # its last step was left by an exception
                recorder.unwind(depth)
                del self.updates[position:]
                break
        if not self.updates:
            if self.backward_depth:
                self.updated_in_backward = True
            else:
                self.inner_steps = 0
        self.updates.append((identity, len(recorder.stack)))
        recorder.enter(OPTIMIZER)
        if len(self.updates) == 1 and not self.backward_depth:
            recorder.decide(OTHER, OPTIMIZER, VALIDATION)
        recorder.base = OPTIMIZER

    def _end_update(self, optimizer: Any) -> None:
        recorder = self.session.recording()
        if recorder is None or not self.updates:
            return
        recorder.unwind(self.updates.pop()[1])
        recorder.decide(OPTIMIZER, OPTIMIZER, OPTIMIZER)
        if self.updates:
            return
        recorder.base = OTHER
        if not self.backward_depth:
            self._update(recorder, self._number(optimizer))
            self.clearing.updated(optimizer)

    def _number(self, optimizer: Any) -> int:
        if id(optimizer) == self.last_optimizer[0]:
            return self.last_optimizer[1]
        number = self.optimizers.get(optimizer)
        if number is None:
            number = self.optimizers[optimizer] = len(self.optimizers) + 1
            self.on_optimizer(optimizer, number)
        self.last_optimizer = (id(optimizer), number)
        return number

    def _update(self, recorder: Recorder, number: int) -> None:
        recorder.mark(UPDATE, number)
        if recorder.since >= self.next_pulse:
            self.pulse()
        if recorder.max_marks is not None:
            # With several optimizers the step is not over until the first one comes round again.
            over = recorder.first_optimizer_marks - recorder.max_marks
            if over > 0 or (over == 0 and len(self.optimizers) <= 1):
                recorder.off = True
                recorder.on_off()
        if self.at_update is not None:
            self.at_update(recorder, number)

    def pulse(self) -> None:
        """Write the running totals, about once a second."""
        self.next_pulse = clock() + PULSE_NS
        for write in self.at_pulse:
            write()

    # ------------------------------------------------------------ GradScaler

    def before_scaled_step(self, args: Args, kwargs: Kwargs) -> Optional[Any]:
        """A scaler's step is the update, even when it skips the optimizer's."""
        optimizer = args[1] if len(args) > 1 else kwargs.get("optimizer")
        self._begin_update(id(args[0]))
        return optimizer

    def after_scaled_step(self, optimizer: Any, args: Args, result: Any) -> None:
        """Close the update, marked if the optimizer was not called."""
        recorder = self.session.recording()
        if recorder is not None and not self.inner_steps:
            recorder.flags |= SKIPPED
        self._end_update(optimizer)

    def before_scale(self, args: Args, kwargs: Kwargs) -> None:
        """Keep the loss as it was before scaling."""
        outputs = args[1] if len(args) > 1 else kwargs.get("outputs")
        if isinstance(outputs, self.torch.Tensor):
            self.unscaled = outputs


def install(steps: Steps) -> None:
    """Put the hooks into torch."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    torch = steps.torch
    register_optimizer_step_pre_hook(patch.optimizer_hook("optimizer", steps.optimizer_begins))
    register_optimizer_step_post_hook(patch.optimizer_hook("optimizer", steps.optimizer_ends))
    patch.wrap(torch.nn.Module, "__call__", steps.before_module, steps.after_module, "module_call", True)
    patch.wrap(torch.autograd, "backward", steps.before_backward, steps.after_backward, "backward")
    patch.wrap(torch.autograd, "grad", steps.before_backward, steps.after_backward, "backward")
    scaler = torch.amp.grad_scaler.GradScaler
    patch.wrap(scaler, "step", steps.before_scaled_step, steps.after_scaled_step, "optimizer")
    patch.wrap(scaler, "scale", steps.before_scale, _nothing, "scale")


def _nothing(token: Any, args: Args, result: Any) -> None:
    return None
