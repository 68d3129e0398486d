"""Describes the script's model and optimizers, and the lines that construct them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from perfdoctor.facts.decode import location
from perfdoctor.facts.device.device import DeviceFacts, KernelFacts
from perfdoctor.facts.host.stack_costs import StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.origins import SourceFile, called_name
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.trace.results import KernelClass
from perfdoctor.wire.events.script import DoublePrecisionEvent, OptimizerEvent, RootModuleEvent, SettingsEvent

FUSED = frozenset(("Adam", "AdamW", "SGD"))  # on a CPU and on CUDA devices; Adagrad on a CPU only
WIDE = frozenset(("float64", "double"))
NARROW = frozenset("float half bfloat16 long int short bool float32 float16 int64 int32 int16 uint8".split())
CONVERTS = frozenset("to type astype".split())


@dataclass(frozen=True)
class Optimizer:
    """One optimizer, as it was at its first step."""

    name: str  # "torch.optim.adamw.AdamW"
    way: str | None  # "fused", "foreach" or "for-loop"; None: not one of torch's, or one without the choice
    tensors: int
    elements: int
    device: str
    momentum: bool
    special: bool  # differentiable, with sparse gradients or complex parameters
    constructed_at: Location | None
    at: Location | None  # the line that steps it

    @property
    def kind(self) -> str:
        """The class without its module."""
        return self.name.rpartition(".")[2]

    @property
    def fusable(self) -> bool:
        """Whether torch has a fused way for this optimizer on this device, and it is not taken."""
        fast = self.kind in FUSED or (self.kind == "Adagrad" and self.device == "cpu")
        from_torch = self.name.startswith("torch.optim.") and self.way in ("for-loop", "foreach")
        return fast and from_torch and self.device in ("cpu", "cuda") and not self.special


@dataclass(frozen=True)
class OptimizerFacts:
    """The optimizers that stepped."""

    optimizers: tuple[Optimizer, ...]
    own_share: float = 1.0  # of their phase: the time in their steps, without clipping or a scaler before
    on_device: float | None = None  # share of the step that the kernels of updates take, where a window tells
    scaled: bool = False  # a GradScaler reads in that phase whether gradients are finite
    late: float = 0.0  # share of the step that a device idles because its host is late, where a window tells

    def share(self, step: StepFacts) -> float:
        """Share of the step that updating takes.

        On a device the phase of the host tells less: it waits in there for what was launched before. Where a
        scaler makes it do so in each step, the phase tells nothing. Beyond the time of the kernels it tells
        of no more than the device idles for a late host.
        """
        waits = self.scaled and self._uses_device
        of_phase = 0.0 if waits else step.share(Phase.OPTIMIZER) * self.own_share
        if self._of_kernels is not None:
            return max(self._of_kernels, min(of_phase, self._of_kernels + self.late))
        return of_phase

    def is_launching(self, step: StepFacts) -> bool:
        """Whether most of that share is a device's waiting for launches."""
        return self._of_kernels is not None and self.share(step) > 2 * self._of_kernels

    @property
    def is_sure(self) -> bool:
        """Whether none of that share can be waiting for the device."""
        return not self._uses_device or self._of_kernels is not None

    @property
    def _uses_device(self) -> bool:
        return any(one.device != "cpu" for one in self.optimizers)

    @property
    def _of_kernels(self) -> float | None:
        return self.on_device if self._uses_device else None


@dataclass(frozen=True)
class ModelFacts:
    """The largest model that the script calls, and the number types it computes in."""

    name: str | None  # None: parameters without a module
    parameters: int
    float64: float  # share of its parameters
    float16: float
    wide_loss: bool  # the loss is in double precision
    at: Location | None  # the line that constructs it
    widened: tuple[tuple[str, Location], ...] = ()  # what brings double precision in, and where
    float16_trained: float = 0.0  # share of the parameters that are trained: adapters, without a frozen base


@fact
def optimizer_facts(
    rank: RankRecords,
    costs: StackCosts | Missing | None = None,
    kernels: KernelFacts | Missing | None = None,
    device: DeviceFacts | Missing | None = None,
) -> OptimizerFacts | None:
    """The optimizers, or None where none stepped."""
    optimizers = tuple(
        Optimizer(
            name=(event.class_ or "optimizer"),
            way=event.way,
            tensors=event.tensors,
            elements=event.elements,
            device=event.device or "cpu",
            momentum=event.momentum,
            special=bool(event.differentiable or event.sparse or event.complex_numbers),
            constructed_at=location(event.built) or location(event.at),
            at=location(event.at),
        )
        for event in rank.of(OptimizerEvent)
    )
    own_share = costs.in_updates if isinstance(costs, StackCosts) else 1.0
    told = kernels.share(KernelClass.OPTIMIZER) if isinstance(kernels, KernelFacts) else 0.0
    scaled = any(event.scaled for event in rank.of(SettingsEvent))
    late = device.launching if isinstance(device, DeviceFacts) else 0.0
    return OptimizerFacts(optimizers, own_share, told or None, scaled, late) if optimizers else None


@fact
def model_facts(rank: RankRecords, sources: Sources) -> ModelFacts | None:
    """The largest model, or the parameters of the largest optimizer where there is no module."""
    roots, loose = rank.of(RootModuleEvent), rank.of(OptimizerEvent)
    root = max(roots, key=lambda event: event.parameters, default=None)
    optimizer = max(loose, key=lambda event: event.elements, default=None)
    largest = root or optimizer
    if largest is None:
        return None
    settings = rank.of(SettingsEvent)
    float64 = min(1.0, largest.float64)
    return ModelFacts(
        name=root.module if root is not None else None,
        parameters=largest.parameters if isinstance(largest, RootModuleEvent) else largest.elements,
        float64=float64,
        float16=min(1.0, root.float16) if root is not None else 0.0,
        wide_loss=bool(settings) and settings[-1].loss_dtype == "float64",
        at=location(largest.built) or location(largest.at),
        widened=tuple(_widened(rank, sources)) if float64 else (),
        float16_trained=_float16_trained(root) if root is not None else 0.0,
    )


def _float16_trained(root: RootModuleEvent) -> float:
    """Of the trained parameters; of all, where an older probe recorded no other."""
    return min(1.0, root.float16 if root.float16_trained is None else root.float16_trained)


def _widened(rank: RankRecords, sources: Sources) -> Iterator[tuple[str, Location]]:
    """What brings double precision in: calls that were noted, else what the script's text says."""
    noted = [event for event in rank.of(DoublePrecisionEvent) if location(event.at)]
    for event in noted:
        at = location(event.at)
        if at is not None:
            yield event.what, at
    if not noted:
        yield from _written(files_of(rank), sources)


def files_of(rank: RankRecords) -> list[str]:
    """The user's files that models, optimizers and steps were seen in."""
    lines = [line for root in rank.of(RootModuleEvent) for line in (root.built, root.at)]
    lines += [line for optimizer in rank.of(OptimizerEvent) for line in (optimizer.built, optimizer.at)]
    lines += [event.at for event in rank.of(SettingsEvent)]
    places = map(location, lines)
    return list(dict.fromkeys(at.file for at in places if at is not None))


def _written(files: Sequence[str], sources: Sources) -> Iterator[tuple[str, Location]]:
    """Lines that name double precision, or take over what numpy holds, in the order of the text."""
    for file in files:
        source = sources.file(file).once(SourceFile)
        passed_by = set(map(id, _passed_by(source)))
        seen = set()
        for node in source.nodes:
            what = _widens(node) if id(node) not in passed_by else None
            line = getattr(node, "lineno", 0)
            if what is not None and line not in seen:
                seen.add(line)
                yield what, sources.at(file, line)


def _passed_by(source: SourceFile) -> Iterator[ast.AST]:
    """What brings nothing in: types to choose from or to compare with, options, and what is narrowed."""
    called = {id(call.func) for call in source.calls}
    for node in source.nodes:
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Compare)):
            yield from ast.iter_child_nodes(node)
        elif isinstance(node, ast.Dict):
            yield from filter(None, node.keys)
        elif isinstance(node, ast.Attribute) and id(node) not in called:
            if not source.full_name(node).startswith(("torch.", "numpy.")):
                yield node  # an option, such as `args.double`
        elif isinstance(node, ast.Call):
            yield from _narrowed(node)


def _narrowed(call: ast.Call) -> Iterator[ast.AST]:
    """The calls that one narrows the result of: two of them in `torch.from_numpy(x).to(device).float()`.

    `torch.from_numpy(x.astype(np.float32))` is one itself: its argument is narrow.
    """
    name, given = called_name(call), {each for part in call.args + call.keywords for each in _types_in(part)}
    if name == "from_numpy" and given & NARROW:
        yield call
    narrows = name in NARROW or (name in CONVERTS and given & NARROW)
    inner: ast.expr = call
    while narrows and isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        inner = inner.func.value
        yield inner


def _types_in(node: ast.AST) -> Iterator[str]:
    """What may be names of number types: `np.float32`, "float32"."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute):
            yield inner.attr
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def _widens(node: ast.AST) -> str | None:
    """Why a piece of text may bring double precision in."""
    if isinstance(node, ast.Attribute) and node.attr in WIDE:
        return f".{node.attr}"
    if isinstance(node, ast.Constant) and node.value in ("float64", "double"):
        return "float64"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "from_numpy":
        return "torch.from_numpy keeps NumPy's number type, float64 by default"
    return None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
