from __future__ import annotations

import pytest

from perfdoctor.facts.host.rank_cores import RankCores
from perfdoctor.facts.host.resources import share_of
from perfdoctor.facts.predict.thread_team import thread_team
from perfdoctor.model.missing import Missing
from perfdoctor.tips.too_many_workers import too_many_workers as tip
from tests.support import facts
from tests.support.facts import LOADER_LINE, cpu, loader, model, run, step, threads

CROWDED = step(data_wait=4, forward=8, backward=8, cpu=26)
RESTARTING = {"workers": 8, "batch": 4, "epochs": 50, "epoch_start_s": 0.03, "epoch_wait_s": 0.003}


def judge(of_step=CROWDED, cores=2.0, device="cpu", others=None, ranks=1, bound=None, **of_loader):
    of_cpu = cpu(cores=cores, busy=1.9, other_cores=others)
    built, of_run = loader(**(RESTARTING | of_loader)), run(device=device, ranks=ranks)
    team = thread_team(of_run, of_cpu, threads(2), Missing("untold"), bound)
    of_rank = bound.each(of_cpu) if bound is not None else share_of(of_cpu, ranks)
    return tip(of_run, of_step, built, of_cpu, threads(2), team, model(of_step, built, of_rank))


def test_ranks_that_are_bound_to_cores_of_their_own_share_none():
    assert "in each of 2 ranks on this node share 4 usable cores" in judge(cores=4.0, ranks=2).because[0]
    bound = judge(cores=4.0, ranks=2, bound=RankCores(2.0, 1))
    assert bound.because[0] == "8 workers and 2 training threads share 2 usable cores"
    assert judge(cores=24.0, ranks=2, bound=RankCores(12.0, 1)) is None


def test_names_the_crowd_and_the_smaller_number():
    advice = judge()
    assert advice is not None
    assert (
        advice.because[0]
        == "8 workers and 2 training threads share 2 usable cores, of which this run keeps 1.9 busy"
    )
    assert advice.at == (LOADER_LINE,)
    assert advice.tweak == f"--workers {advice.change.workers}"
    assert advice.change.workers < 8
    assert advice.arguments == f"dataloader_num_workers={advice.change.workers}"


def test_expects_no_more_than_what_fewer_workers_can_bring():
    gain = facts.gain(judge(), model(CROWDED, loader(**RESTARTING), cpu(cores=2, busy=1.9)))
    assert 1.03 <= gain.likely < 2


def test_an_iterable_dataset_is_advised_without_a_tweak():
    advice = judge(iterable=True)
    assert advice is not None
    assert (advice.tweak, advice.same_result) == (None, False)


def test_beside_other_programs_a_small_gain_is_none_of_its_own(monkeypatch):
    beside = {"others": 0.6, "workers": 2, "epoch_wait_s": 0.0008}
    assert judge(**beside) is None
    monkeypatch.setattr("perfdoctor.tips.too_many_workers.ENOUGH_CROWDED", 1.03)
    assert judge(**beside) is not None


@pytest.mark.parametrize(
    ("cores", "of_loader"),
    [
        pytest.param(10, {}, id="a-core-for-each"),
        pytest.param(2, {"workers": 0}, id="no-workers"),
        pytest.param(2, {"workers": 2, "batch": 38, "epoch_wait_s": 0.0}, id="all-of-them-needed"),
    ],
)
def test_is_silent(cores, of_loader):
    assert judge(cores=cores, **of_loader) is None
