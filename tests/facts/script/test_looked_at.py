from __future__ import annotations

import pytest

from perfdoctor.facts.script.looked_at import share_of_line, share_of_look
from perfdoctor.wire.events.diagonal_matrices import DiagonalMatricesLineEvent, DiagonalMatricesLookEvent
from tests.support.facts import step


def look(number, seconds, backward_s):
    return DiagonalMatricesLookEvent(
        look=number, step_s=0.01, calls=1, seconds=seconds, backward_s=backward_s, lines=1
    )


def test_the_phases_bound_what_calls_can_take():
    waiting = look(1, 0.008, 0.008)
    assert share_of_look(waiting, 0.01, step(forward=2, backward=1, data_wait=7)) == pytest.approx(0.3)
    assert share_of_look(None, 0.01, step(forward=6, backward=4)) == 0.0


def test_a_line_takes_nothing_in_the_steps_that_do_not_name_it():
    named = DiagonalMatricesLineEvent(
        look=2,
        calls=1,
        seconds=0.002,
        backward_s=0.0,
        names=[],
        matrices=1,
        width=4,
        distribution=False,
        at=None,
    )
    looks = [look(1, 0.0, 0.0), look(2, 0.002, 0.0)]
    assert share_of_line([named], looks, step(forward=6, backward=4)) == pytest.approx(0.1)
