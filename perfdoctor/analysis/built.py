"""What the script built, as facts: its model and optimizers, and the lines they come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfdoctor.analysis.records import Json, location, number, whole
from perfdoctor.analysis.source import Source, Sources
from perfdoctor.model import Location
from perfdoctor.recorded import RankRecords

FUSED = frozenset(("Adam", "AdamW", "SGD"))  # on a CPU and on CUDA devices; Adagrad on a CPU only
WIDE = frozenset(("float64", "double"))


@dataclass(frozen=True)
class Optimizer:
    """One optimizer, as it was at its first step."""

    name: str  # "torch.optim.adamw.AdamW"
    way: str | None  # "fused", "foreach" or "for-loop"; None: not one of torch's, or one without the choice
    tensors: int
    elements: int
    device: str
    momentum: bool
    special: bool  # differentiable, or with sparse gradients
    built: Location | None  # the line of its constructor
    at: Location | None  # the line that steps it

    @property
    def kind(self) -> str:
        """The class without its module."""
        return self.name.rpartition(".")[2]

    @property
    def fusable(self) -> bool:
        """Whether torch has a fused way for this optimizer on this device, and it is not taken."""
        fast = self.kind in FUSED or (self.kind == "Adagrad" and self.device == "cpu")
        own = self.name.startswith("torch.optim.") and self.way in ("for-loop", "foreach")
        return fast and own and self.device in ("cpu", "cuda") and not self.special


@dataclass(frozen=True)
class OptimizerFacts:
    """The optimizers that stepped."""

    optimizers: tuple[Optimizer, ...]


@dataclass(frozen=True)
class ModelFacts:
    """The largest model that the script calls, and the number types it computes in."""

    name: str | None  # None: parameters without a module
    parameters: int
    float64: float  # share of its parameters
    float16: float
    wide_loss: bool  # the loss is in double precision
    at: Location | None  # the line that built it
    widened: tuple[tuple[str, Location], ...] = ()  # what brings double precision in, and where


def optimizer_facts(records: RankRecords) -> OptimizerFacts | None:
    """The optimizers, or None where none stepped."""
    found = tuple(
        Optimizer(
            name=str(event.get("class") or "optimizer"),
            way=_word(event.get("way")),
            tensors=whole(event.get("tensors")) or 0,
            elements=whole(event.get("elements")) or 0,
            device=_word(event.get("device")) or "cpu",
            momentum=bool(event.get("momentum")),
            special=bool(event.get("differentiable") or event.get("sparse")),
            built=location(event.get("built")) or location(event.get("at")),
            at=location(event.get("at")),
        )
        for event in records.of("optimizer")
    )
    return OptimizerFacts(found) if found else None


def model_facts(records: RankRecords, source: Source) -> ModelFacts | None:
    """The largest model, or the parameters of the largest optimizer where there is no module."""
    roots, loose = records.of("root"), records.of("optimizer")
    found = max(roots, key=lambda event: number(event.get("parameters")), default=None)
    found = found or max(loose, key=lambda event: number(event.get("elements")), default=None)
    if found is None:
        return None
    settings = records.of("settings")
    float64 = min(1.0, number(found.get("float64")))
    return ModelFacts(
        name=_word(found.get("module")),
        parameters=whole(found.get("parameters", found.get("elements"))) or 0,
        float64=float64,
        float16=min(1.0, number(found.get("float16"))),
        wide_loss=bool(settings) and settings[-1].get("loss_dtype") == "float64",
        at=location(found.get("built")) or location(found.get("at")),
        widened=tuple(_widened(records, source)) if float64 else (),
    )


def _widened(records: RankRecords, source: Source) -> Iterator[tuple[str, Location]]:
    """What brings double precision in: calls that were noted, else what the script's text says."""
    noted = [event for event in records.of("float64") if location(event.get("at"))]
    for event in noted:
        at = location(event.get("at"))
        if at is not None:
            yield str(event.get("what")), at
    if not noted:
        yield from _written(files_of(records), source)


def files_of(records: RankRecords) -> list[str]:
    """The user's files that models, optimizers and steps were seen in."""
    events: Sequence[Json] = (*records.of("root"), *records.of("optimizer"), *records.of("settings"))
    places = (location(event.get(key)) for event in events for key in ("built", "at"))
    return list(dict.fromkeys(at.file for at in places if at is not None))


def _written(files: Sequence[str], source: Source) -> Iterator[tuple[str, Location]]:
    """Lines that name double precision, or take over what numpy holds, in the order of the text."""
    sources = Sources(source)
    for file in files:
        tree = sources.file(file).tree
        seen = set()
        for node in ast.walk(tree) if tree is not None else ():
            what = _widens(node)
            line = getattr(node, "lineno", 0)
            if what is not None and line not in seen:
                seen.add(line)
                yield what, Location(file, line, None, sources.text(file, line))


def _widens(node: ast.AST) -> str | None:
    """Why a piece of text may bring double precision in."""
    if isinstance(node, ast.Attribute) and node.attr in WIDE:
        return f".{node.attr}"
    if isinstance(node, ast.Constant) and node.value in ("float64", "double"):
        return "float64"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "from_numpy":
        return "torch.from_numpy keeps numpy's number type, which is float64 unless it was set"
    return None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
