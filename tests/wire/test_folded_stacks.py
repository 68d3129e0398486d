from __future__ import annotations

from perfdoctor.wire.folded_stacks import folded, frame_text, short


def test_names_are_shortened_and_cannot_break_the_format() -> None:
    assert short("train.<locals>.inner.<locals>.step") == "step"
    assert short("Net.forward") == "Net.forward"
    assert frame_text("f", "/a;b\n.py", 3) == "f (/a:b .py:3)"
    assert folded("main", ["a (x:1)", "b (y:2)"], 4) == "main;a (x:1);b (y:2) 4\n"
