from __future__ import annotations

import pytest

from perfdoctor.tips.round_trips import round_trips as tip
from tests import facts
from tests.ranktraces import copy, detour

COPIED = copy("DtoH", "pageable", 5)


def judged(*detours):
    return tip(facts.copies(COPIED, detours=detours))


def test_names_both_lines_and_the_time_on_the_host():
    advice = judged(detour(idle=50, copying=5))
    assert advice.because == (
        "11.0% of the time passes while tensors are on the host and the device waits for them",
        "5 times 1.00 MB leave by aten::to at line 30 and come back at line 33",
    )
    assert [at.line for at in advice.at] == [30, 33]


def test_both_copies_go_in_any_case_and_the_wait_at_best():
    gain = facts.gain(judged(detour(idle=50, copying=50)))
    assert (gain.low, gain.likely, gain.high) == pytest.approx((1 / 0.9, 1 / 0.8, 1 / 0.8))


@pytest.mark.parametrize(
    "trip",
    [
        pytest.param(detour(idle=10, copying=4.9), id="short"),
        pytest.param(detour(same=False), id="something-else-comes-back"),
        pytest.param(detour(idle=50, computing=25), id="operators-work-on-it"),
        pytest.param(detour(count=4), id="not-in-every-step"),
    ],
)
def test_is_silent(trip):
    assert judged(trip) is None
