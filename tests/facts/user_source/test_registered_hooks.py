from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.registered_hooks import never_removed
from perfdoctor.model.measured import Location
from tests.support.records import source_of

PROBE = """\
class Probe:
    def __init__(self, model):
        for name, module in model.named_modules():
            module.register_forward_hook(self.make_hook(name))
    def make_hook(self, name):
        def hook(module, inputs, output):
            self.records[name].append(output.std())
        return hook
"""
PLAIN = """\
def look(module, inputs):
    seen.append(inputs[0].std())
def watch(net):
    net.register_forward_pre_hook(hook=look)
"""


def found(text, line):
    at = Location("/home/me/train.py", line, "hook", "text")
    return never_removed(Sources(source_of(train=dedent(text))), at)


@pytest.mark.parametrize(("text", "line", "registers"), [(PROBE, 7, 4), (PLAIN, 2, 4)])
def test_the_line_that_registers_is_found(text, line, registers):
    at = found(text, line)
    assert (at.line, "register_forward" in at.text) == (registers, True)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(PROBE + "handle.remove()", 7, id="removed"),
        pytest.param(PLAIN, 4, id="not-the-hook"),
        pytest.param(PLAIN.replace("register_forward_pre_hook", "register"), 2, id="no-hook"),
        pytest.param("", 2, id="no-source"),
    ],
)
def test_else_there_is_none(text, line):
    assert found(text, line) is None


def test_a_list_that_something_is_removed_from_is_no_handle():
    assert found(PROBE + "names.remove(name)", 7) is not None
