"""All groups about what the script built and how it calls it, put together for `facts.gather`."""

from __future__ import annotations

from perfdoctor.analysis.built import ModelFacts, OptimizerFacts, model_facts, optimizer_facts
from perfdoctor.analysis.called import (
    BiasFacts,
    PrecisionFacts,
    RepeatFacts,
    bias_facts,
    precision_facts,
    repeat_facts,
)
from perfdoctor.analysis.parallel import ParallelFacts, parallel_facts
from perfdoctor.analysis.sizes import SizeFacts, size_facts
from perfdoctor.analysis.source import Source, Sources
from perfdoctor.analysis.steps import Steps
from perfdoctor.analysis.windows import PLAINEST, Windows, window_facts
from perfdoctor.recorded import RankRecords

MADE = (ModelFacts, OptimizerFacts, RepeatFacts, BiasFacts, PrecisionFacts, ParallelFacts, SizeFacts)


def made_groups(records: RankRecords, steps: Steps, windows: Windows, source: Source) -> dict[type, object]:
    """Groups by type; None where the script has nothing of the kind."""
    plain = next((windows[kind] for kind in PLAINEST if kind in windows), None)
    return {
        ModelFacts: model_facts(records, source),
        OptimizerFacts: optimizer_facts(records),
        RepeatFacts: repeat_facts(records),
        BiasFacts: bias_facts(records),
        PrecisionFacts: precision_facts(records, Sources(source)),
        ParallelFacts: parallel_facts(records),
        SizeFacts: size_facts(steps, None if plain is None else window_facts(plain)),
    }
