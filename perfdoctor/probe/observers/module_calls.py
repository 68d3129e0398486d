"""All calls of modules inside a few steps: what is computed twice, what a layer feeds, in which number types.

A look begins and ends at updates of optimizers; between looks, calls inside others are not watched. It is
asked for at backwards 2, 4, 8, ..., so that its cost, some microseconds a call, vanishes among the steps.
"""

from __future__ import annotations

import weakref
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set, Tuple

from ...wire.events.training import PARAMETRIZATION, BiasedLayerEvent, ModuleCallsEvent
from .. import accelerators, patch
from ..autocast import autocast_of
from ..constructor_lines import ConstructorLines
from ..containers import first_of, is_a, is_mapping, is_sequence, length_of, values_of
from ..looks.op_recording import recording_question, unseen
from ..looks.repeats import Call, CalledAgain, GraphUse, told
from ..looks.transforms import is_wrapped
from ..loss_graph import compiles_backward
from ..module_parts import buffers_of, modules_of, parameters_of
from ..observer import Watch, observer
from ..recorder import Recorder, clock
from ..user_frames import user_lines
from ..wrapping import Args, Kwargs

if TYPE_CHECKING:
    from ..steps.steps import StepTracker


CALLS_MAX = 4_000  # in one look: a validation that lies between two updates must not fill memory
# What looks may cost, or that of the time since the first one was asked for.
FREE_NS, SHARE = 20_000_000, 0.005
UPDATES_MAX = 64  # in one look, or before one: the optimizer that ends a step may have had its last
SHORT_NS = 50_000  # calls below it are not remembered: to look at what they return costs as much
SHOWN = 64  # elements of a result that are compared
DEPTH = 3  # of lists and dictionaries of tensors among the arguments
TOLD_MAX = 20  # layers written down by name


class Unknown(Exception):
    """An argument whose content cannot be told from its identity."""


class UnusedParameterSearch:
    """Adds up what DistributedDataParallel does after a forward: the search is nearly all of it."""

    def __init__(self) -> None:
        self.watched = False
        self.calls, self.seconds = 0, 0.0

    def watch(self, model: Any) -> None:
        """Time the search, where a model makes it."""
        if model.find_unused_parameters and not self.watched:
            self.watched = True
            patch.wrap(type(model), "_post_forward", _now, self.after, "search of unused parameters", True)

    def after(self, begin_ns: int, args: Args, result: Any) -> None:
        """One forward is over."""
        self.calls += 1
        self.seconds += (clock() - begin_ns) / 1e9


class ModuleCalls:
    """The sampled steps of one process."""

    def __init__(self, steps: StepTracker, lines: ConstructorLines) -> None:
        self.steps = steps
        self.lines = lines
        self.search = UnusedParameterSearch()
        self.torch = steps.torch
        self.is_recording = recording_question()
        self.plain = (steps.torch.Tensor, steps.torch.nn.Parameter)  # others may hold no elements themselves
        self.turn = 2  # the backward from which the next look is due
        self.looks = 0
        self.under_way = False
        self.updates = 0  # since the look was asked for, or since it began
        self.begin_ns = self.owner = 0
        self.first_ns: Optional[int] = None  # when it was first asked whether a look is due
        self.own_ns = 0  # what all looks took
        self.told: Set[int] = set()
        self.again: Set[int] = set()  # identities of modules that were called again
        self.enter = patch.guarded("calls", unseen(self._enter))
        self.leave = patch.guarded("calls", unseen(self._leave))
        self.border = patch.guarded("calls", self._at_border)
        self._clear()

    def _clear(self) -> None:
        self.stack: List[Call] = []
        self.seen: Dict[Any, Call] = {}
        self.buffers: Dict[int, Set[int]] = {}  # identities of those of outermost modules, by theirs
        self.count = 0
        self.repeats: List[CalledAgain] = []
        self.outputs: Dict[int, Tuple[Any, Any]] = {}  # of convolutions with a bias
        self.biased: List[Tuple[Any, Any, int]] = []  # (root, convolution, elements of its output)
        self.autocast: Any = None
        self.wide_inputs = False
        self.synced = self.unsynced = 0
        self.parallel: Any = None  # a weak reference, as those of `outputs` and `biased`

    # ------------------------------------------------------------ from update to update

    def ask(self, recorder: Recorder, loss: Any) -> None:
        """Before some backwards: look at the step after this one, if a look is due."""
        if self.first_ns is None:
            self.first_ns = recorder.since
        if self.under_way or recorder.held or self.steps.schedule.backwards < self.turn:
            return
        if self.own_ns > max(FREE_NS, SHARE * (recorder.since - self.first_ns)):
            return
        self.turn = 2 * self.steps.schedule.backwards
        self.under_way = True
        self.updates = 0
        self.steps.moments.update = [*self.steps.moments.update, self.border]

    def _at_border(self, recorder: Recorder, optimizer: int) -> None:
        """Begin and end with the optimizer that came last to its first update: it ends a GAN's step."""
        self.updates += 1
        if optimizer != len(self.steps.updates.numbers) and self.updates < UPDATES_MAX:
            return
        if self.steps.modules.watcher is not self:
            self.updates = 0
            self.begin_ns = recorder.since
            self._clear()
            self.owner = get_ident()
            self.steps.modules.watcher = self
            return
        self.steps.modules.watcher = True
        self.steps.moments.update = [call for call in self.steps.moments.update if call is not self.border]
        self.under_way = False
        self._tell((recorder.since - self.begin_ns) / 1e9)
        self._clear()

    # ------------------------------------------------------------ calls

    def _enter(self, args: Args, kwargs: Kwargs) -> Optional[ModuleCalls]:
        if self.count >= CALLS_MAX or get_ident() != self.owner or self.is_recording():
            return None
        asked_ns = clock()
        self.count += 1
        module = args[0]
        call = Call(module, self.stack[0].versions if self.stack else _versions(module))
        self._look_at(module, args)
        for called in self.steps.moments.sampled_module:
            called(module)
        for viewer in self.steps.moments.sampled_steps:
            viewer.called(call, args, kwargs)
        call.recording = self.torch.is_grad_enabled()
        if not self.stack and module.training and call.recording:
            for call_inputs in self.steps.moments.sampled_call:
                call_inputs(args, kwargs)
        if call.versions is not None:
            try:
                parts = self._parts((args[1:], kwargs), call.alive, DEPTH)
                call.key = (id(module), module.training, call.versions, parts, self._graph(call))
            except Unknown:
                pass
        if call.key is not None and self._known(call) is not None:
            self.again.add(id(module))
            if not _on_cpu(call):
                call.state = self._state(module)
        outer = self.stack[-1].use if self.stack else None
        if call.recording and (outer is not None or id(module) in self.again) and not compiles_backward():
            call.use = GraphUse(outer)
        self.stack.append(call)
        call.begin = clock()
        self.own_ns += call.begin - asked_ns
        call.looked_from_ns = self.own_ns
        return self

    def _leave(self, result: Any) -> None:
        ended_ns = clock()
        call = self.stack.pop()
        call.ns = ended_ns - call.begin
        call.looked_until_ns = self.own_ns
        for viewer in self.steps.moments.sampled_steps:
            viewer.returned(call, result)
        module, nn = call.module, self.torch.nn
        tensor = is_a(result, self.torch.Tensor)
        if (
            tensor
            and isinstance(module, nn.modules.conv._ConvNd)
            and module._parameters.get("bias") is not None
        ):
            self.outputs[id(result)] = weakref.ref(result), weakref.ref(module)
        if call.use is not None:
            call.use.watch(self.torch.Tensor, result)
        found = call.inside
        if call.key is not None and call.ns >= SHORT_NS and result is not None and not self.is_recording():
            call.shows = self._shows(result)
            call.lines = call.lines or user_lines()
            first = self._known(call)
            if first is None:
                self.seen[call.key] = call
            else:  # what is inside is made twice for the same reason
                found = [CalledAgain(first, call, self._alike(first, call))]
        (self.stack[-1].inside if self.stack else self.repeats).extend(found)
        self.own_ns += clock() - ended_ns

    def _look_at(self, module: Any, args: Args) -> None:
        """What is asked of every call: number types, a batch normalisation's input, exchange of gradients."""
        nn = self.torch.nn
        given: Any = args[1] if len(args) > 1 else None
        tensor = is_a(given, self.torch.Tensor)
        if tensor and given.dtype == self.torch.float64:
            self.wide_inputs = True
        if self.autocast is None:
            self.autocast = autocast_of(self.torch, given.device.type if tensor else "cpu")
        if module.training and tensor and isinstance(module, nn.modules.batchnorm._BatchNorm):
            output, layer = self.outputs.get(id(given), (None, None))
            if layer is not None and output() is given:
                root = self.stack[0].weak_module if self.stack else weakref.ref(module)
                self.biased.append((root, layer, given.numel()))
        if isinstance(module, nn.parallel.DistributedDataParallel) and self.torch.is_grad_enabled():
            self.parallel = weakref.ref(module)
            if module.require_backward_grad_sync:
                self.synced += 1
            else:
                self.unsynced += 1

    # ------------------------------------------------------------ the same call again?

    def _parts(self, value: Any, alive: List[Any], depth: int) -> Any:
        """Something equal for equal arguments: tensors by identity and version. Raises Unknown."""
        if is_a(value, self.torch.Tensor):
            if value.is_inference():
                raise Unknown
            alive.append(weakref.ref(value))
            return "tensor", id(value), value._version
        if value is None or is_a(value, (bool, int, float, str)):
            return value
        if depth and is_sequence(value):
            return tuple(self._parts(item, alive, depth - 1) for item in first_of(value, length_of(value)))
        if depth and is_mapping(value):
            return tuple((str(name), self._parts(item, alive, depth - 1)) for name, item in dict.items(value))
        raise Unknown

    def _graph(self, call: Call) -> Optional[int]:
        """Which backward something is computed for that does not depend on data; None where it is for none.

        That is a parametrization, what is inside it, and what is given nothing but parts of the model, as are
        learned queries and prompts. Each backward frees the graph that it goes through. So what one backward
        has used cannot be kept for that of the next micro-batch, and what was made without a graph gets no
        gradients.
        """
        if not call.recording:
            return None
        makes = any(_is_parametrization(one.module) for one in (call, *self.stack))
        return self.steps.schedule.backwards if makes or self._is_given_parts(call) else None

    def _is_given_parts(self, call: Call) -> bool:
        """Whether all tensors that a module is given are parameters, or buffers of the outermost module."""
        given = [tensor for tensor in (alive() for alive in call.alive) if tensor is not None]
        others = [tensor for tensor in given if not isinstance(tensor, self.torch.nn.Parameter)]
        if others and not any(tensor.requires_grad for tensor in others):
            root = self.stack[0].module if self.stack else call.module
            buffers = self.buffers.get(id(root))
            if buffers is None:
                buffers = self.buffers[id(root)] = {id(buffer) for buffer in buffers_of(root)}
            others = [tensor for tensor in others if id(tensor) not in buffers]
        return bool(given) and not others

    def _known(self, call: Call) -> Optional[Call]:
        """The first call with the same arguments, all of them still there.

        A parametrization is given none: what it makes follows from its parameters, whose versions are alike.
        """
        first = self.seen.get(call.key)
        if first is None or first.module is not call.module:
            return None
        if not (first.alive or _is_parametrization(call.module)):
            return None
        same = all(old() is not None and old() is new() for old, new in zip(first.alive, call.alive))
        return first if same else None

    def _alike(self, first: Call, again: Call) -> bool:
        """Whether both calls did the same: dropout, noise and modules that remember do not.

        On a CPU what they returned is compared; on a device that would mean to wait for it.
        """
        if _on_cpu(again):
            return first.shows is not None and first.shows == again.shows
        return again.state is not None and again.state == self._state(again.module)

    def _shows(self, result: Any) -> Any:
        """Some elements of the first tensor in a result on the CPU, or None."""
        if is_mapping(result):
            result = next(iter(values_of(result, 1)), None)
        while is_sequence(result):
            result = next(iter(first_of(result, 1)), None)
        if type(result) not in self.plain or not result.is_cpu or not result.numel():
            return None
        if result.layout != self.torch.strided or is_wrapped(self.torch, result):
            return None
        flat = result.detach().reshape(-1)
        return str(flat[:: max(1, flat.numel() // SHOWN)].tolist())

    def _state(self, module: Any) -> Any:
        """What a call changes if it draws random numbers or remembers something."""
        used = accelerators.in_use(self.torch)
        drawn = used.ask("get_rng_state", *_places(module, used.kind)) if used is not None else None
        held = [
            id(value)
            for inner in modules_of(module)
            for value in (*vars(inner).values(), *inner._buffers.values())
        ]
        return bytes(drawn.tolist()) if drawn is not None else None, held

    # ------------------------------------------------------------ telling

    def _tell(self, seconds: float) -> None:
        self.looks += 1
        session = self.steps.session
        for viewer in self.steps.moments.sampled_steps:
            viewer.ended(self.looks, seconds)
        session.write(
            ModuleCallsEvent(
                look=self.looks,
                seconds=seconds,
                calls=self.count,
                autocast=self.autocast,
                wide_inputs=self.wide_inputs,
                synced=self.synced,
                unsynced=self.unsynced,
                biased=len(self.biased),
                biased_elements=sum(elements for _, _, elements in self.biased),
                **self._parallel(),
            )
        )
        for repeat in told(self.looks, self.repeats):
            session.write(repeat)
        for weak_root, weak_layer, elements in self.biased:
            root, layer = weak_root(), weak_layer()
            if root is None or layer is None:
                continue
            if id(layer) not in self.told and len(self.told) < TOLD_MAX:
                self.told.add(id(layer))
                path = next((name for name, inner in root.named_modules() if inner is layer), "")
                session.write(
                    BiasedLayerEvent(path=path, elements=elements, at=self.lines.line_of(root, path))
                )

    def _parallel(self) -> Dict[str, Any]:
        """What DistributedDataParallel counts itself, in the first ten iterations and every hundredth."""
        parallel = self.parallel() if self.parallel is not None else None
        if parallel is None:
            return {}
        known = parallel._get_ddp_logging_data()
        return {
            "comm_ns": known.get("avg_backward_comm_time"),
            "hidden_ns": known.get("avg_backward_compute_comm_overlap_time"),
            "backward_ns": known.get("avg_backward_compute_time"),
            "unused": known.get("unused_parameter_size"),
            "search_calls": self.search.calls,
            "search_s": self.search.seconds,
        }


@observer
def module_calls(watch: Watch) -> None:
    """Watch all calls of modules inside a few steps."""
    calls = ModuleCalls(watch.steps, watch.lines)
    watch.before_some_backwards("calls", calls.ask)
    watch.on_ddp("search of unused parameters", calls.search.watch)


def _now(args: Args, kwargs: Kwargs) -> int:
    return clock()


def _versions(module: Any) -> Any:
    """Something that changes when a parameter is updated in place or exchanged; None: that cannot be told."""
    first, total = None, 0
    for parameter in parameters_of(module):
        if parameter.is_inference():
            return None
        first = first or id(parameter)
        total += parameter._version
    return id(module), first, total


def _is_parametrization(module: Any) -> bool:
    """Whether it makes a parameter out of others, at each access: `torch.nn.utils.parametrize`."""
    return type(module).__name__ == PARAMETRIZATION


def _places(module: Any, kind: str) -> List[Any]:
    """The device of a module, for functions of its kind that take one: there is but one of MPS."""
    if kind == accelerators.MPS:
        return []
    return [device for device in (one.device for one in parameters_of(module)) if device.type == kind][:1]


def _on_cpu(call: Call) -> bool:
    """Whether it computes there: by what it is given or, where that is nothing, by what it is made of."""
    given = [alive() for alive in call.alive] or parameters_of(call.module)
    return all(tensor is None or tensor.is_cpu for tensor in given)
