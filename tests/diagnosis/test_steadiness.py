from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.diagnosis.steadiness import by_tenth, led, of_phases
from perfdoctor.facts.steps.tenths import PhaseTenths
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase
from tests.support.facts import step

DATA, COMPUTE, HOST = Bottleneck.DATA, Bottleneck.COMPUTE, Bottleneck.HOST


def classes(**shares):
    return dict.fromkeys(Bottleneck, 0.0) | {Bottleneck(name): share for name, share in shares.items()}


def test_what_was_moved_to_another_class_in_the_whole_run_is_moved_in_each_tenth():
    tenths = PhaseTenths(({Phase.OTHER: 0.2, Phase.FORWARD: 0.8}, {Phase.OTHER: 1.0}))
    # of `other`, 40 % of the run, three quarters prepare data
    first, second = by_tenth(tenths, step(other=40, forward=60), classes(data=0.3, host=0.1, compute=0.6))
    assert first == pytest.approx(classes(data=0.15, host=0.05, compute=0.8))
    assert second == pytest.approx(classes(data=0.75, host=0.25))


def test_without_tenths_there_is_nothing():
    assert by_tenth(None, step(forward=1), classes(compute=1.0)) == ()


def test_leading_is_by_share_or_by_what_is_avoidable():
    tenths = [classes(data=0.3, compute=0.7)] * 7 + [classes(compute=1.0)] * 3
    whole = classes(data=0.21, compute=0.79)
    assert led(COMPUTE, tenths, whole, None) == 10
    assert led(DATA, tenths, whole, classes(data=0.21, compute=0.1)) == 7


SHARES = st.lists(st.floats(0, 1e3), min_size=len(Phase), max_size=len(Phase))


def shared_out(amounts):
    whole = sum(amounts) + 1.0
    shares = {phase: amount / whole for phase, amount in zip(Phase, amounts, strict=True)}
    return shares | {Phase.OTHER: shares[Phase.OTHER] + 1.0 / whole}


@given(of_run=SHARES, of_tenth=SHARES, moved=st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_the_classes_of_each_tenth_add_up_to_it(of_run, of_tenth, moved):
    of_run, of_tenth = shared_out(of_run), shared_out(of_tenth)
    of_step = step(**{phase.value: 10 * share for phase, share in of_run.items()})
    whole = {kind: share + 0.001 for kind, share in zip(Bottleneck, moved, strict=True)}
    whole = {kind: share / sum(whole.values()) for kind, share in whole.items()}
    (tenth,) = by_tenth(PhaseTenths((of_tenth,)), of_step, whole)
    assert sum(tenth.values()) == pytest.approx(1.0)
    assert all(share >= 0 for share in tenth.values())


def test_every_phase_has_a_class():
    assert of_phases(dict.fromkeys(Phase, 1.0)) == classes(data=1, transfer=1, network=1, compute=4, host=2)
