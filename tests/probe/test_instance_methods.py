from __future__ import annotations

from perfdoctor.probe.instance_methods import replace_for_instances


class Thing:
    def name(self):
        return "thing"


def test_the_class_keeps_its_method_and_instances_have_all_that_was_put_around_it():
    class Other(Thing):
        pass

    for mark in "ab":
        replace_for_instances(Other, "name", lambda inner, mark=mark: lambda self: mark + inner(self))
    assert Other.name is Thing.name
    assert Other.name(Other()) == "thing"
    assert Other().name() == "bathing"
