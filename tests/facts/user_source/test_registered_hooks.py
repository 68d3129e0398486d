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
for epoch in range(9):
    validate(Probe(model))
"""
PLAIN = """\
def look(module, inputs):
    seen.append(inputs[0].std())
def watch(net):
    net.register_forward_pre_hook(hook=look)
def validate():
    watch(model)
while True:
    validate()
"""
LOOP = """\
def look(module, inputs):
    seen.append(inputs[0].std())
for epoch in range(9):
    net.register_forward_pre_hook(look)
"""
ONCE = """\
def look(module, inputs):
    seen.append(inputs[0].std())
def watch(net):
    for module in net.modules():
        layer = module.layer
        layer.register_forward_pre_hook(look)
watch(model)
for epoch in range(9):
    train(model)
"""


def found(text, line, files=(), **others):
    at = Location("/home/me/train.py", line, "hook", "text")
    return never_removed(Sources(source_of(train=dedent(text), **others)), at, files)


@pytest.mark.parametrize(("text", "line", "registers"), [(PROBE, 7, 4), (PLAIN, 2, 4), (LOOP, 2, 4)])
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
        pytest.param(ONCE, 2, id="once-for-each-module"),
        pytest.param(PROBE.replace("for epoch in range(9)", "if True"), 7, id="made-once"),
        pytest.param(PLAIN.replace("while True", "if True"), 2, id="called-once"),
        pytest.param(LOOP.replace("for epoch in range(9)", "if True"), 2, id="registered-once"),
    ],
)
def test_else_there_is_none(text, line):
    assert found(text, line) is None


def test_a_list_that_something_is_removed_from_is_no_handle():
    assert found(PROBE + "names.remove(name)", 7) is not None


def test_what_another_file_calls_again_and_again_is_registered_anew():
    hooks = PLAIN.partition("def validate")[0]
    main = "import train\nfor epoch in range(9):\n    train.watch(model)"
    assert found(hooks, 2) is None
    assert found(hooks, 2, ("/home/me/main.py",), main=main).line == 4
