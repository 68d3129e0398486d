from __future__ import annotations

from dataclasses import replace

from perfdoctor.model.concluded import Advice, Bottleneck, class_of
from perfdoctor.model.measured import Location, Phase


def test_a_line_is_named_once_in_the_order_of_what_matters():
    read, made = Location("train.py", 44, "__getitem__", "image = read(index)"), Location("train.py", 9)
    advice = Advice((), None, at=(read, replace(read, function=None), made))
    assert advice.at == (read, made)
    assert replace(advice, at=(made, made)).at == (made,)


def test_the_kind_of_a_line_tells_the_class_only_between_the_phases():
    assert class_of(Phase.OTHER, "drawn") is Bottleneck.DATA
    assert class_of(Phase.OTHER) is class_of(Phase.OTHER, "logging") is Bottleneck.HOST
    assert class_of(Phase.BACKWARD, "drawn") is Bottleneck.COMPUTE
