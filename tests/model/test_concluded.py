from __future__ import annotations

from dataclasses import replace

from perfdoctor.model.concluded import Advice
from perfdoctor.model.measured import Location


def test_a_line_is_named_once_in_the_order_of_what_matters():
    read, made = Location("train.py", 44, "__getitem__", "image = read(index)"), Location("train.py", 9)
    advice = Advice((), None, at=(read, replace(read, function=None), made))
    assert advice.at == (read, made)
    assert replace(advice, at=(made, made)).at == (made,)
