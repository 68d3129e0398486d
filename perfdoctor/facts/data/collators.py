"""Tells which of transformers' collators pads what batches hold: not all of them pad the labels of tokens."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.wire.events.loaders import LoaderEvent, PaddingEvent

PLAIN = "DataCollatorWithPadding"  # pads what a tokenizer makes, and leaves labels as they are
OF_TOKENS = "DataCollatorForTokenClassification"  # pads labels as long as the text with -100
OF_TEXTS = "DataCollatorForSeq2Seq"  # pads labels that are texts of their own length
OF_LANGUAGE = "DataCollatorForLanguageModeling"  # makes the labels itself, of the text
PADDING = (PLAIN, OF_TOKENS, OF_TEXTS, OF_LANGUAGE)
# Modules of collate functions that call none of the user's, nor another collator.
COMPLETE = ("transformers.data.data_collator", "torch.utils.data._utils.collate")
ROUNDED = "pad_to_multiple_of"
# Of the different values in texts: classes of tokens are few, what a language model predicts is text itself.
AS_MANY = 0.5
MASKED = 0.5  # of its labels are ignored: it predicts the few tokens that were masked
CAUSAL = "mlm=False"


@dataclass(frozen=True)
class Collator:
    """One of transformers' collators."""

    name: str = PLAIN
    objective: str = (
        ""  # the argument that says what a language model learns, where that is not the usual one
    )


def collator_of(looks: Sequence[PaddingEvent], files: Sequence[str], sources: Sources) -> Collator:
    """The one that the script names, if that pads; else by the labels that its batches hold."""
    named = [(name, call) for name, call in _calls(files, sources) if name in PADDING]
    if not named:
        return _by_labels(looks)
    name, call = max(named, key=lambda one: PADDING.index(one[0]))
    objectives = (f"mlm={ast.unparse(word.value)}" for word in call.keywords if word.arg == "mlm")
    return Collator(name, next(objectives, ""))


def idle(loaders: Sequence[LoaderEvent]) -> frozenset[str]:
    """Those that collate for no loader, whatever the script names; none where a loader may hide one."""
    used = [(event.collate or "").rpartition(".") for event in loaders]
    if not used or any(module not in COMPLETE for module, _, _ in used):
        return frozenset()
    return frozenset(PADDING) - {name for _, _, name in used}


def rounded_to(files: Sequence[str], sources: Sources) -> int:
    """The multiple that the script asks for lengths to be rounded up to; 1 if it names none."""
    asked = (
        word.value.value
        for _, call in _calls(files, sources)
        for word in call.keywords
        if word.arg == ROUNDED and isinstance(word.value, ast.Constant)
    )
    return max((value for value in asked if isinstance(value, int)), default=1)


def _calls(files: Sequence[str], sources: Sources) -> Iterator[tuple[str, ast.Call]]:
    """Calls in the user's files, with the last part of what is called."""
    for file in files:
        tree = sources.file(file).tree
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Call):
                called = node.func
                name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                yield name, node


def _by_labels(looks: Sequence[PaddingEvent]) -> Collator:
    """By the tensors whose fill is below zero, as what losses ignore is marked, or that repeat the text."""
    places: dict[int, list[PaddingEvent]] = defaultdict(list)
    for event in looks:
        places[event.place].append(event)
    texts = [events for events in places.values() if not all(map(is_below_zero, events))]
    labels = [events for events in places.values() if all(map(is_below_zero, events))]
    if _repeat(texts):
        return Collator(OF_LANGUAGE, CAUSAL)
    if not labels:
        return Collator(PLAIN)
    widths = {event.width for events in texts for event in events}
    if not all(event.width in widths for events in labels for event in events):
        return Collator(OF_TEXTS)
    if _kinds(labels) < AS_MANY * _kinds(texts):
        return Collator(OF_TOKENS)
    ignored = sum(event.inside for events in labels for event in events)
    kept = sum(sum(event.lengths) for events in labels for event in events)
    return Collator(OF_LANGUAGE, CAUSAL if ignored < MASKED * kept else "")


def is_below_zero(event: PaddingEvent) -> bool:
    """Whether what fills a row is below zero, as no index of a table is."""
    return isinstance(event.fill, (int, float)) and event.fill < 0


def _repeat(texts: Sequence[Sequence[PaddingEvent]]) -> bool:
    """Whether two tensors of each batch hold the same: a text, and itself to be predicted."""
    shown = [
        [(event.width, event.fill, event.kinds, list(event.lengths)) for event in each] for each in texts
    ]
    return any(one == other for place, one in enumerate(shown) for other in shown[:place])


def _kinds(tensors: Sequence[Sequence[PaddingEvent]]) -> int:
    return max((event.kinds for events in tensors for event in events), default=0)
