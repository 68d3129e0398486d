from __future__ import annotations

import pytest

from perfdoctor.facts.host.training_thread import training_thread_facts
from perfdoctor.model.missing import Missing


def samples(**grown):
    """Two samples two seconds apart, in which these figures of the training process grew."""
    first = {"pid": 1, "role": "main", **dict.fromkeys(grown, 1.0)}
    last = {"pid": 1, "role": "main", **{name: 1.0 + value for name, value in grown.items()}}
    return [{"t_ns": 1e9, "procs": [first]}, {"t_ns": 3e9, "procs": [last, {"pid": 2, "role": "worker"}]}]


def test_shares_are_of_the_time_between_samples():
    found = training_thread_facts(samples(thread_cpu_s=0.5, thread_delay_s=1.0))
    assert (found.on_core, found.without_core) == pytest.approx((0.25, 0.5))


def test_no_share_is_more_than_the_whole():
    assert training_thread_facts(samples(thread_cpu_s=2.1, thread_delay_s=0.0)).on_core == 1.0


@pytest.mark.parametrize("seen", [[], samples(cpu_s=1.0), samples(thread_cpu_s=1.0)])
def test_without_the_kernels_figures_it_is_not_known(seen):
    assert isinstance(training_thread_facts(seen), Missing)
