from __future__ import annotations

import sys
import weakref

import pytest

from perfdoctor.probe.frame_names import names_of

OUTSIDE = "a global"


class Thing:
    pass


# pytest writes calls of `locals()` into functions that assert: what is read lies in others.
def of_locals():
    inside = Thing()
    return inside, names_of(sys._getframe())


def of_deleted():
    thing = Thing()
    gone = weakref.ref(thing)
    names_of(sys._getframe())
    del thing
    return gone


def of_own_locals():
    thing = Thing()
    own = locals()
    later = Thing()
    names_of(sys._getframe())
    return thing, later, own


def of_exec():
    exec("made = 1")
    names_of(sys._getframe())
    return eval("made")


def of_a_method(model):
    inside = Thing()
    model.eval()
    assert_is(vars(model), model.__dict__)
    return inside, names_of(sys._getframe())


def of_own_vars():
    thing = Thing()
    own = vars()
    later = Thing()
    names_of(sys._getframe())
    return thing, later, own


def of_kept():
    thing = Thing()
    frame = sys._getframe()
    keep_name(frame)
    assert_is(names_of(frame)["thing"], thing)
    return kept_name(frame)


def assert_is(one, other):
    assert one is other


def keep_name(frame):
    frame.f_locals["made"] = 1


def kept_name(frame):
    return frame.f_locals["made"]


snapshots = pytest.mark.skipif(sys.version_info >= (3, 13), reason="f_locals is no snapshot any more")


def test_it_gives_locals_and_the_globals_that_are_named():
    inside, found = of_locals()
    assert found["inside"] is inside
    assert found["Thing"] is Thing
    assert "OUTSIDE" not in found


def test_nothing_is_kept_alive():
    assert of_deleted()() is None


@snapshots
def test_locals_that_the_script_holds_itself_stay_as_they_are():
    thing, _, own = of_own_locals()
    assert own == {"thing": thing}


@snapshots
def test_vars_of_nothing_are_the_locals_that_the_script_holds():
    thing, _, own = of_own_vars()
    assert own == {"thing": thing}


def test_a_method_of_that_name_and_vars_of_a_thing_show_no_locals():
    class Model:
        def eval(self):
            return self

    inside, found = of_a_method(Model())
    assert found["inside"] is inside


@snapshots
def test_names_that_the_script_made_by_exec_stay():
    assert of_exec() == 1


@snapshots
def test_what_others_keep_in_the_snapshot_of_a_frame_stays():
    assert of_kept() == 1


def test_the_names_of_a_module_are_not_emptied():
    code = compile("import sys\nvalue = 1\nfound = names_of(sys._getframe())", "script.py", "exec")
    names = {"names_of": names_of}
    exec(code, names)
    assert names["value"] == 1
    assert names["found"]["value"] == 1
