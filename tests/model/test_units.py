from __future__ import annotations

import pytest

from perfdoctor.model.units import figures


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (0.0049, "<0.01"),
        (-0.0049, ">-0.01"),
        (0.005, "0.01"),
        (0.153, "0.15"),
        (37.24, "37.2"),
        (1049.4, "1,049"),
    ],
)
def test_a_figure_has_three_digits_and_is_never_rounded_to_nothing(value, written):
    assert figures(value) == written
