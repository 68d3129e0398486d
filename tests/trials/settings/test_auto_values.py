from __future__ import annotations

import pytest

from perfdoctor.errors import PerfdoctorError
from perfdoctor.facts.gather import Facts
from perfdoctor.facts.predict.step_model import StepModel, of_loop
from perfdoctor.facts.predict.worker_count import KNEE
from perfdoctor.facts.steps.batch_room import BatchRoom
from perfdoctor.model.measured import CpuFacts, LoaderFacts, MemoryFacts, RunFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.trial import Setting, Variant
from perfdoctor.probe.trial.tweak import AUTO, BITWISE, PATH, Count
from perfdoctor.trials.settings import tweak_catalogue
from perfdoctor.trials.settings.auto_values import resolve, with_value
from perfdoctor.watch import samplers
from tests.support import facts as charts
from tests.support.facts import cpu, loader, run, step

WORKERS = Setting("workers", ("--workers", AUTO), {"value": AUTO}, BITWISE)
BATCH = Setting("batch-size", ("--batch-size", AUTO), {"value": AUTO}, PATH)
AMP = Setting("amp", ("--amp",), {}, BITWISE)
STARVED = step(data_wait=12, forward=3, backward=5, cpu=19)
GB = 10**9


def patient(of_step=STARVED, of_loader=None, of_cpu=None, of_run=None, **groups):
    of_loader, of_cpu = of_loader or loader(batch=12), of_cpu or cpu()
    known = {
        StepFacts: of_step,
        LoaderFacts: of_loader,
        CpuFacts: of_cpu,
        StepModel: charts.model(of_step, of_loader, of_cpu),
        **{type(group): group for group in groups.values()},
    }
    return Facts({RunFacts: of_run or run(), **known})


def names(settings, facts):
    return [variant.name for variant in resolve([Variant(tuple(settings))], facts)]


def memory(used=1.0, left=31.0):
    return MemoryFacts(None, None, round(used * GB), 64 * GB, available_bytes=round(left * GB))


def sizes(of_loader=None, of_run=None, **groups):
    of_loader = of_loader or loader(batch_size=32)
    found = resolve([Variant((BATCH,))], patient(of_loader=of_loader, of_run=of_run, **groups))
    return [variant.settings[0].values["value"] for variant in found]


# ---------------------------------------------------------------- workers


def test_auto_workers_are_the_knee_of_the_run():
    starved = patient()
    assert (
        names([WORKERS], starved) == [f"--workers {starved.get(StepModel).knee(8, KNEE)}"] == ["--workers 2"]
    )


def test_auto_workers_are_none_where_batches_cost_next_to_nothing():
    cheap = patient(step(data_wait=0.1, forward=10, cpu=10), loader(batch=0.1))
    assert names([WORKERS], cheap) == ["--workers 0"]


def test_auto_workers_may_outnumber_the_cores_where_they_wait_for_a_disk():
    disk = patient(step(data_wait=120, forward=8, cpu=12), loader(batch=120, cpu=2), cpu(cores=2))
    assert int(names([WORKERS], disk)[0].split()[1]) > 2


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(None, id="no-run"),
        pytest.param(
            Facts({RunFacts: run(), StepModel: Missing("the cost of a batch was not measured")}),
            id="no-model",
        ),
        pytest.param(
            Facts({RunFacts: run(), CpuFacts: cpu(), StepModel: of_loop(STARVED, cpu())}),
            id="no-loader",
        ),
    ],
)
def test_auto_workers_are_the_usable_cores_where_no_run_tells(facts, monkeypatch):
    monkeypatch.setattr(samplers, "usable_cores", lambda: (6.5, "cgroup quota"))
    assert names([WORKERS], facts) == ["--workers 6"]


def test_auto_workers_are_one_on_half_a_core(monkeypatch):
    monkeypatch.setattr(samplers, "usable_cores", lambda: (0.5, "cgroup quota"))
    assert names([WORKERS], None) == ["--workers 1"]


def test_the_value_that_the_tweak_gets_is_a_number():
    (found,) = resolve([Variant((WORKERS,))], patient())
    assert found.tweaks == {"workers": {"value": 2}}


def test_what_has_a_number_stays_as_it_is():
    given = Variant((AMP, with_value(WORKERS, 3)))
    assert resolve([given], patient()) == (given,)
    assert given.name == "--amp --workers 3"


# ---------------------------------------------------------------- batches


def test_an_auto_batch_becomes_several_variants():
    assert sizes(memory=memory()) == [64, 128, 256, 512]


def test_other_tweaks_are_part_of_each():
    facts = patient(of_loader=loader(batch=12, batch_size=8), memory=memory(10, 15))
    assert names([WORKERS, BATCH, AMP], facts) == ["--workers 2 --batch-size 16 --amp"]


@pytest.mark.parametrize(
    ("left", "found"),
    [
        pytest.param(8.9, [64, 128, 256], id="room-for-eight"),
        pytest.param(7.8, [64, 128], id="just-under-eight"),
        pytest.param(1.3, [64], id="room-for-twice"),
    ],
)
def test_batches_are_as_large_as_memory_allows(left, found):
    assert sizes(memory=memory(1.0, left)) == found


def test_on_a_device_its_own_memory_counts():
    room = BatchRoom(10 * GB, 80 * GB)
    assert sizes(of_run=run(device="A100"), memory=memory(60, 1), room=room) == [64, 128]
    fixed = BatchRoom(10 * GB, 80 * GB, 6 * GB)
    assert sizes(of_run=run(device="A100"), memory=memory(60, 1), room=fixed) == [64, 128, 256, 512]


@pytest.mark.parametrize("of_run", [run(), run(device="A100")], ids=["cpu", "device"])
def test_twice_the_batch_is_tried_where_memory_is_not_known(of_run):
    assert sizes(of_run=of_run) == [64]


def test_an_epoch_keeps_some_batches():
    assert sizes(loader(batch_size=32, items=600), memory=memory()) == [64, 128]
    assert sizes(loader(batch_size=32, items=600), of_run=run(ranks=2), memory=memory()) == [64]


@pytest.mark.parametrize(
    ("of_loader", "of_memory", "said"),
    [
        pytest.param(loader(batch_size=32), memory(1.0, 1.0), "memory leaves no room", id="memory"),
        pytest.param(loader(batch_size=32, items=200), memory(), "the dataset leaves no room", id="dataset"),
        pytest.param(loader(batch_size=None), memory(), "is not known", id="own-batch-sampler"),
    ],
)
def test_where_no_batch_fits_it_is_said(of_loader, of_memory, said):
    with pytest.raises(PerfdoctorError, match=said) as error:
        sizes(of_loader, memory=of_memory)
    assert "--batch-size" in (error.value.hint or "")


def test_without_a_run_a_batch_cannot_be_chosen():
    with pytest.raises(PerfdoctorError, match="is not known") as error:
        resolve([Variant((BATCH,))], None)
    assert "perfdoctor run" in (error.value.hint or "")


# ---------------------------------------------------------------- both


def test_every_tweak_that_takes_auto_gets_a_number():
    facts = patient(memory=memory())
    for tweak in tweak_catalogue.tweaks():
        if isinstance(tweak.takes, Count) and tweak.takes.auto:
            setting = Setting(tweak.id, (tweak.flag, AUTO), {"value": AUTO}, tweak.result)
            for variant in resolve([Variant((setting,))], facts):
                assert tweak.takes.read(variant.words[1]) == variant.settings[0].values["value"]


def test_a_tweak_that_nothing_is_known_to_choose_by_is_an_error():
    odd = Setting("threads", ("--threads", AUTO), {"value": AUTO}, BITWISE)
    with pytest.raises(PerfdoctorError, match="nothing to choose by"):
        resolve([Variant((odd,))], patient())


def test_another_number_leaves_the_other_words_as_they_are():
    extra = Setting("a", ("--a", "4", "--b", "4"), {"value": 4, "b": 4}, BITWISE)
    assert with_value(extra, 2) == Setting("a", ("--a", "2", "--b", "4"), {"value": 2, "b": 4}, BITWISE)
