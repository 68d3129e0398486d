from __future__ import annotations

import sys
import weakref

from perfdoctor.probe.frame_names import names_of

OUTSIDE = "a global"


class Thing:
    pass


def test_it_gives_locals_and_the_globals_that_are_named():
    inside = Thing()
    found = names_of(sys._getframe())
    assert found["inside"] is inside
    assert found["Thing"] is Thing
    assert "OUTSIDE" not in found


def test_nothing_is_kept_alive():
    thing = Thing()
    gone = weakref.ref(thing)
    names_of(sys._getframe())
    del thing
    assert gone() is None


def test_locals_that_the_script_holds_itself_stay():
    thing = Thing()
    own = locals()
    names_of(sys._getframe())
    assert own["thing"] is thing


def test_the_names_of_a_module_are_not_emptied():
    code = compile("import sys\nvalue = 1\nfound = names_of(sys._getframe())", "script.py", "exec")
    names = {"names_of": names_of}
    exec(code, names)
    assert names["value"] == 1
    assert names["found"]["value"] == 1
