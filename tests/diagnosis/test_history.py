from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfdoctor.diagnosis.calibration import fit
from perfdoctor.diagnosis.history import CASES, fitted, history
from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.trial import Outcome
from tests.support.histories import MODELLED, tried

DATA, HOST, NETWORK = Bottleneck.DATA, Bottleneck.HOST, Bottleneck.NETWORK
TEN = [tried(number, measured=2.7) for number in range(CASES)]


def test_ten_cases_of_a_kind_ask_for_ranges_and_nine_do_not():
    assert fitted(TEN[1:]) == {}
    ((device, by_kind),) = fitted(TEN).items()
    assert (device, list(by_kind)) == ("cpu", [DATA])
    assert (by_kind[DATA].cases, by_kind[DATA].below) == (10, 0.0)
    assert by_kind[DATA].above == pytest.approx(math.log(2.7 / MODELLED.high))


def test_they_are_fitted_by_the_model_alone_and_the_tenth_largest_miss_of_eleven():
    spread = [tried(number, measured=1.8 * 1.1**number) for number in range(11)]
    assert fitted(spread)["cpu"][DATA].above == pytest.approx(10 * math.log(1.1))
    printed = [replace(change, predicted=Gain(0.1, 1.5, 99.0)) for change in spread]
    assert fitted(printed) == fitted(spread)
    assert fit([])[1] == {}


@pytest.mark.parametrize(
    "ninth_again",
    [
        {"script_id": "id8"},  # another trial of the same change
        {"outcome": Outcome.CHANGED},
        {"outcome": Outcome.NO_EFFECT},
        {"device": "NVIDIA H100"},
        {"acts_on": (HOST,)},
        {"acts_on": (DATA, NETWORK)},
        {"acts_on": ()},
    ],
    ids=str,
)
def test_what_is_no_case_of_its_own_of_that_kind_does_not_count(ninth_again):
    assert fitted([*TEN[:9], replace(TEN[9], **ninth_again)]) == {}


def test_the_newest_trial_of_a_change_counts():
    again = replace(TEN[0], measured=Gain(1.4, 1.5, 1.6), epoch_s=2e9)
    others = [tried(number, measured=1.5) for number in range(1, CASES)]
    assert fitted([TEN[0], *others, again])["cpu"][DATA].above == 0.0


def test_tweaks_in_another_order_are_the_same_change():
    both = ("--workers 4", "--prefetch 4")
    again = replace(TEN[8], tweaks=both[::-1])
    assert fitted([*TEN[:8], replace(TEN[8], tweaks=both), again]) == {}


def test_each_kind_is_told_with_its_cases_coverage_and_error():
    found = history(
        "here",
        [
            tried(0, measured=1.5),
            tried(1, measured=3.0),  # outside of what was printed
            tried(2, measured=1.8),
            tried(3, measured=2.0, acts_on=(DATA, NETWORK)),
            tried(4, measured=1.0, acts_on=(HOST,)),
        ],
        unread=2,
    )
    assert [change.script for change in found.changes] == ["train4", "train3", "train2", "train1", "train0"]
    assert [kind.acts_on for kind in found.kinds] == [(DATA,), (HOST,), (DATA, NETWORK)]
    data, host, _ = found.kinds
    assert (data.cases, data.covered, data.fitted) == (3, pytest.approx(2 / 3), False)
    assert data.step_error == pytest.approx(0.2)  # of 0, 1 and 0.2
    assert (host.covered, host.step_error) == (0.0, pytest.approx(1 / 3))
    assert found.unread == 2


def test_a_kind_says_whether_its_ranges_are_this_machines():
    (data,) = history("here", TEN).kinds
    assert (data.cases, data.fitted) == (10, True)
