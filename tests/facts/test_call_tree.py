from __future__ import annotations

import pytest

from perfdoctor.facts.call_tree import DEEPEST, LONGEST, CallTree, key_of, laid_out


def key(name):
    return name, "", "user"


def weight(amounts):
    return sum(amounts.values())


def tree(*stacks):
    root = CallTree()
    for names, count in stacks:
        root.add(map(key, names), {"seen": count})
    return root


def drawn(root, most=100):
    return [(frame.key[0], frame.depth, frame.left, frame.width) for frame in laid_out(root, weight, most)]


def test_callers_come_before_what_they_call_and_the_widest_first():
    assert drawn(tree(("ab", 1), ("a", 2), ("c", 1))) == [
        ("a", 0, 0.0, 0.75),
        ("b", 1, 0.0, 0.25),
        ("c", 0, 0.75, 0.25),
    ]


def test_of_too_many_frames_the_narrowest_stand_together():
    root = tree(("a", 60), *((letter, 10) for letter in "bcde"))
    assert drawn(root, most=2) == [("a", 0, 0.0, 0.6), ("4 narrow frames", 0, 0.6, 0.4)]
    assert drawn(root, most=1) == [("5 narrow frames", 0, 0.0, 1.0)]


def test_what_lies_deeper_is_part_of_the_deepest_frame():
    assert len(drawn(tree(("x" * 5000, 1)), most=9999)) == DEEPEST


def test_amounts_keep_their_names():
    root = tree(("a", 1))
    root.add([key("a")], {"else": 2.5})
    (frame,) = laid_out(root, weight, 9)
    assert frame.amounts == {"seen": 1, "else": 2.5}


@pytest.mark.parametrize("root", [CallTree(), tree(("a", 0))], ids=["empty", "weightless"])
def test_nothing_is_drawn_of_nothing(root):
    assert drawn(root) == []


def test_frames_are_the_same_by_line_by_function_or_by_text():
    line = "main (/home/ada/train.py:7)"
    assert key_of(line, "/home/ada") == ("main", "train.py:7", "user")
    assert key_of(line, "/home/ada", with_line=False) == ("main", "train.py", "user")
    assert key_of("f (/x/lib/python3.11/site-packages/torch/a.py:3)", "") == ("f", "torch/a.py", "torch")
    assert key_of("x" * 99, "") == ("x" * LONGEST, "", "library")
