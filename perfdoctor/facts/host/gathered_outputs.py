"""Measures what the Trainer of transformers takes to join the outputs of its evaluations: GatheredOutputs.

It keeps all outputs of the model for the metrics, and adds those of each batch to a copy of all before them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from operator import attrgetter

from perfdoctor.facts.host.stack_costs import StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Sources, names_in
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, RunFacts, StepFacts

LOOPS = re.compile(r"evaluation_loop|prediction_loop")
UTILITIES = re.compile(r"[/\\]transformers[/\\]trainer_pt_utils\.py$")
JOINS = re.compile(r"nested_\w+|\w+_pad_and_concatenate|add|add_arrays|to_cpu_and_numpy|get_arrays")
# On a device, copies to the host wait for the passes before them; what joins arrays has time of its own.
JOINS_ARRAYS = re.compile(r"numpy_pad_and_concatenate")
# What a configuration adds to the outputs of a model, by its setting.
SETTINGS = {"output_hidden_states": "hidden_states", "output_attentions": "attentions"}
CONFIGURES = re.compile(r"Config$|^from_pretrained$|^from_config$")
TRAINERS = re.compile(r"Trainer$")


@dataclass(frozen=True)
class KeptOutput:
    """A line that has a model return more than its metrics need."""

    name: str  # as the model calls it: "hidden_states"
    at: Location


@dataclass(frozen=True)
class GatheredOutputs:
    """Time in which outputs of evaluations are joined."""

    share: float  # of the step
    samples: int
    called: Location  # the user's line that trains or evaluates
    trainer: Location | None = None  # where the trainer is made
    kept: tuple[KeptOutput, ...] = ()  # none where the source names outputs to leave out
    reduces: bool = False  # the trainer is given a function that makes predictions of a batch's outputs
    classifies: bool = True  # the largest logit is the prediction: no regression, and no texts are generated


@fact
def gathered_outputs(
    costs: StackCosts, step: StepFacts, run: RunFacts, sources: Sources
) -> GatheredOutputs | None:
    """What joining takes of a step, or None where no stack sample saw it."""
    found = [cost for cost in costs.costs if _joins(cost.beyond, run.on_device)]
    if not found or step.mean_s <= 0:
        return None
    line = max(found, key=attrgetter("seconds")).line
    at = Location(line.file, line.line, line.function)
    frames = (frame for cost in found for frame in (*cost.callers, *cost.path))
    files = tuple(dict.fromkeys(frame.file for frame in frames))
    made = [(at, keywords) for file in files for at, keywords in _trainers(sources, file)]
    named = any("ignore_keys_for_eval" in _keywords(call) for file in files for call in _calls(sources, file))
    return GatheredOutputs(
        share=min(1.0, sum(cost.seconds for cost in found) / step.mean_s),
        samples=sum(cost.samples for cost in found),
        called=sources.shown(at) or at,
        trainer=next((at for at, _ in made), None),
        kept=() if named else tuple(kept for file in files for kept in _kept(sources, file)),
        reduces=any("preprocess_logits_for_metrics" in keywords for _, keywords in made),
        classifies=not any(_predicts_otherwise(call) for file in files for call in _calls(sources, file)),
    )


def _joins(beyond: Sequence[Frame], on_device: bool) -> bool:
    """Whether the library joins outputs on these frames, in an evaluation."""
    evaluating = next((index for index, frame in enumerate(beyond) if LOOPS.fullmatch(frame.name)), None)
    if evaluating is None:
        return False
    names = JOINS_ARRAYS if on_device else JOINS
    return any(
        UTILITIES.search(frame.file) and names.fullmatch(frame.name) for frame in beyond[evaluating + 1 :]
    )


def _calls(sources: Sources, file: str) -> Iterator[ast.Call]:
    tree = sources.file(file).tree
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call)) if tree else iter(())


def _keywords(call: ast.Call) -> set[str]:
    return {keyword.arg for keyword in call.keywords if keyword.arg}


def _trainers(sources: Sources, file: str) -> Iterator[tuple[Location, set[str]]]:
    """Where trainers are made, and the keywords that each is given."""
    for call in _calls(sources, file):
        if TRAINERS.search(called_name(call)):
            yield _place(sources, file, call.lineno), _keywords(call)


def _kept(sources: Sources, file: str) -> Iterator[KeptOutput]:
    """The settings of a configuration that add outputs: by keyword, or `model.config.output_... = True`.

    Only of what the trainer's model is made of, where the file shows it: no teacher's outputs are joined.
    """
    tree = sources.file(file).tree
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)] if tree else []
    trained = _made_of(assigned, {name for call in _calls(sources, file) for name in _trained(call)})
    apart = [node for node in assigned if trained and not trained & set().union(*map(names_in, node.targets))]
    others = {id(inner) for node in apart for inner in ast.walk(node.value)}
    for call in _calls(sources, file):
        if CONFIGURES.search(called_name(call)) and id(call) not in others:
            for keyword in call.keywords:
                if keyword.arg in SETTINGS and _is_true(keyword.value):
                    yield KeptOutput(SETTINGS[keyword.arg], _place(sources, file, keyword.lineno))
    for node in assigned:
        if node not in apart and _is_true(node.value):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr in SETTINGS:
                    yield KeptOutput(SETTINGS[target.attr], _place(sources, file, node.lineno))


def _trained(call: ast.Call) -> set[str]:
    """The names that a trainer's model is given by."""
    if not TRAINERS.search(called_name(call)):
        return set()
    given = [keyword.value for keyword in call.keywords if keyword.arg == "model"] or call.args[:1]
    return {name for value in given for name in names_in(value)}


def _made_of(assigned: Sequence[ast.Assign], names: set[str]) -> set[str]:
    """These names with all that they are made of; empty where none of them is assigned anywhere."""
    found, before = set(names), set[str]()
    while found != before:
        before = set(found)
        for node in assigned:
            if any(names_in(target) & found for target in node.targets if isinstance(target, ast.Name)):
                found |= names_in(node.value)
    return found if found != names else set()


def _predicts_otherwise(call: ast.Call) -> bool:
    """Whether a call sets a single label, which is a regression, or that texts are generated."""
    return any(
        isinstance(keyword.value, ast.Constant)
        and (keyword.arg, keyword.value.value) in (("num_labels", 1), ("predict_with_generate", True))
        for keyword in call.keywords
    )


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _place(sources: Sources, file: str, line: int) -> Location:
    """A line with its text and the function around it."""
    function = getattr(sources.file(file).scope(line), "name", "<module>")
    at = Location(file, line, function)
    return sources.shown(at) or at
