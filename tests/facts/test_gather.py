"""Facts of whole runs: what is there, what does not apply, and what is missing for which reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.gather import NO_STEPS, gather
from perfdoctor.facts.script.backends import Tf32Settings
from perfdoctor.facts.script.model_and_optimizers import ModelFacts, OptimizerFacts
from perfdoctor.model.coverage import Covered
from perfdoctor.model.measured import GpuFacts, LoaderFacts, OverheadFacts, RunFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.note import Note
from perfdoctor.runs.records import NO_ROOM_FOR_STEPS
from perfdoctor.tips import catalogue
from tests.support.records import no_source, records, rows, update


def test_a_group_is_there_or_does_not_apply_or_is_missing_for_a_reason():
    events = [{"event": "optimizer", "class": "torch.optim.sgd.SGD"}]
    facts = gather(records(rows([update()] * 30), events=events), no_source, {})
    assert facts.get(StepFacts).count == 30
    assert isinstance(facts.get(OptimizerFacts), OptimizerFacts)
    assert facts.get(ModelFacts).name is None  # the optimizer's parameters
    assert (facts.get(LoaderFacts), facts.missing(LoaderFacts)) == (None, None)  # the script has none
    assert (facts.get(GpuFacts), facts.missing(GpuFacts)) == (None, None)
    assert facts.get(OverheadFacts) is None
    assert facts.missing(OverheadFacts) == Missing("the probe's own cost was not measured")


@pytest.mark.shows("no-training-loop", "fails-early")
def test_without_a_step_all_but_the_run_is_missing_for_one_reason():
    facts = gather(records(None), no_source, {})
    assert facts.run.command == ("train.py",)
    needs = {kind for tip in catalogue.tips() for kind in tip.needs.values()}
    # what was run and set, and what other findings are about: no group of its steps
    needs -= {RunFacts, Tf32Settings, Covered}
    assert {facts.missing(kind) for kind in needs} == {Missing(NO_STEPS)}


def test_where_the_disk_was_full_no_step_could_be_seen():
    full = replace(records(None), problems=(Note(NO_ROOM_FOR_STEPS, {"since_epoch_s": 1.0}),))
    assert "the disk that holds the run was full" in gather(full, no_source, {}).missing(StepFacts).reason


@pytest.mark.shows("no-torch", "fails-early")
def test_of_a_run_without_torch_the_reason_is_another():
    facts = gather(records(None, boots=()), no_source, {})
    assert facts.missing(StepFacts) == Missing("no watched process imported torch")
