from __future__ import annotations

import pytest

from perfdoctor.tips.exposed_communication import exposed_communication as tip
from tests import facts


def test_says_what_is_exposed_and_what_is_hidden_already():
    advice = tip(facts.device(exposed_comm=0.2, comm=0.5))
    assert advice.because == (
        "20.0% of the time is communication that no computing hides (20.00 ms a step)",
        "60% of all communication is hidden",
    )
    assert not advice.same_result


def test_hiding_it_brings_no_more_than_it_takes():
    gain = facts.gain(tip(facts.device(exposed_comm=0.2)))
    assert gain.high <= 1 / 0.8
    assert gain.likely == pytest.approx(1 / 0.9)


def test_is_silent_where_computing_hides_it():
    assert tip(facts.device(exposed_comm=0.02, comm=0.4)) is None
