from __future__ import annotations

import dataclasses
from importlib import import_module
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.observers import compiling
from perfdoctor.wire.events.compiling import CompileCallEvent, CompiledEvent, GraphBreakEvent
from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = torch.nn.Linear(8, 8), ""

        def forward(self, x):
            self.calls += "x"
            x = self.inner(x) * len(self.calls)
            print("hunter2", end="")
            return x.relu()

    net = Net()
    compiled = torch.compile(net, backend="aot_eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(12):
        optimizer.zero_grad()
        compiled(torch.ones(4, 8)).sum().backward()
        optimizer.step()
"""


def test_compilations_and_breaks_are_told_with_their_lines_and_without_values(tmp_path):
    rank = watched(tmp_path, SCRIPT).ranks[0]
    (call,) = rank.of(CompileCallEvent)
    assert call.at["line"] == 16

    forwards = [event for event in rank.of(CompiledEvent) if event.code == "0" and not event.backward]
    assert [event.again for event in forwards[:8]] == [False] + [True] * 7
    # torch 2.4 keeps no entry of what it refuses to compile once more
    assert [event.given_up for event in forwards] in ([False] * 8 + [True], [False] * 8)
    assert {event.name for event in forwards} == {"forward"}
    assert {event.function["line"] for event in forwards} == {9}
    metrics = import_module("torch._dynamo.utils").CompilationMetrics
    told = {field.name for field in dataclasses.fields(metrics)}
    assert {event.broken for event in forwards[1:]} == {"self.calls" if "recompile_reason" in told else None}
    lines = {event.broken_at and event.broken_at["line"] for event in forwards[1:]}
    assert lines in ({10}, {None})  # in torch 2.8 and older such a guard has no line
    assert all(event.seconds > 0 for event in forwards[:8])
    backwards = [event for event in rank.of(CompiledEvent) if event.backward]
    assert {event.name for event in backwards} == ({"forward"} if "is_forward" in told else set())

    (broken,) = {event.at["line"]: event for event in rank.of(GraphBreakEvent)}.values()
    assert (broken.at["line"], broken.at["function"]) == (12, "forward")
    assert "builtin" in broken.reason
    assert "hunter2" not in "".join(
        path.read_text("latin1") for path in (tmp_path / "run").glob("**/*.jsonl")
    )


def test_a_script_that_compiles_nothing_writes_nothing(tmp_path):
    plain = SCRIPT.replace('torch.compile(net, backend="aot_eager")', "net")
    rank = watched(tmp_path, plain).ranks[0]
    assert not [*rank.of(CompileCallEvent), *rank.of(CompiledEvent), *rank.of(GraphBreakEvent)]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 9",
            "tensor 'x' size mismatch at index 0",
        ),
        ("0/7: self.calls == 7      # self.calls += 1  # train.py:6 in forward (HINT: ...)", "self.calls"),
        ("3/1: L['mode'] == 'hunter2'   # return x  # train.py:9 in forward", "mode"),
        ("1/0: L['key'] in {'hunter2': 1}", "key"),
        ("0/0: GLOBAL_STATE changed: grad_mode ", "GLOBAL_STATE changed: grad_mode"),
        ("", ""),
    ],
)
def test_a_guard_is_told_without_the_values_it_compared(reason, told):
    assert compiling._assumption(reason) == told


def test_the_line_of_a_guard_is_in_torchs_stack_or_in_its_comment(tmp_path):
    function = {"file": "/home/me/src/train.py", "line": 3, "function": "forward"}
    library = f'\n  File "{torch.__file__}", line 9, in call'
    stack = f'0/0: a == 1\nUser stack trace:\n  File "/home/me/x.py", line 7, in f{library}'
    assert compiling._guard_line(stack, None)["line"] == 7
    comment = "0/0: a == 1    # if a:  # rc/train.py:6 in torch_dynamo_resume_in_forward_at_4"
    assert compiling._guard_line(comment, function) == {**function, "line": 6}
    assert compiling._guard_line("0/0: a == 1   # if a:  # /other.py:6 in f", function) is None


def test_reasons_lose_what_they_quote():
    assert compiling._told("call BuiltinVariable(print) [ConstantVariable(str: 'hunter2')] {}\nmore") == (
        "call BuiltinVariable(print)"
    )


def test_what_torch_forgot_or_began_anew_is_neither_lost_nor_told_twice(monkeypatch):
    told = []
    watch = SimpleNamespace(write=told.append)
    account = compiling.Compiling(watch)
    entry = SimpleNamespace
    metrics = [entry(compile_id=f"0/{n}", duration_us=1000) for n in range(3)]
    place = entry(filename="/home/me/train.py", lineno=4, name="forward")
    reasons = [entry(reason="print", user_stack=[place])]
    utils = SimpleNamespace(_compilation_metrics=metrics, graph_break_reasons=reasons)
    monkeypatch.setitem(compiling.sys.modules, "torch._dynamo.utils", utils)
    account.look()
    account.look()
    assert [event.seconds for event in told if isinstance(event, CompiledEvent)] == [0.001] * 3
    assert [event.count for event in told if isinstance(event, GraphBreakEvent)] == [1]
    del told[:]
    utils._compilation_metrics = [entry(compile_id="1/0", duration_us=2000)]  # after torch._dynamo.reset()
    reasons[:] = []
    account.look()
    reasons += [entry(reason="print", user_stack=[place])] * 2
    account.look()
    assert [event.seconds for event in told if isinstance(event, CompiledEvent)] == [0.002]
    assert [event.count for event in told if isinstance(event, GraphBreakEvent)] == [3]


def test_what_older_versions_of_torch_keep_is_enough():
    account = compiling.Compiling(SimpleNamespace(write=None))
    older = SimpleNamespace(
        compile_id="2/1", co_name="f", co_filename="/home/me/t.py", co_firstlineno=3,
        entire_frame_compile_time_s=1.5, start_time=1.0, fail_reason="cache_size_limit reached",
    )  # fmt: skip
    event = account._event(older)
    assert (event.code, event.seconds, event.again, event.given_up) == ("2", 1.5, True, True)
    assert event.broken is None
    assert not event.backward


def test_a_backward_is_none_of_the_forwards_where_torch_keeps_it_apart_either():
    account = compiling.Compiling(SimpleNamespace(write=None))
    kind = type("BwdCompilationMetrics", (SimpleNamespace,), {})  # of torch 2.4
    event = account._event(kind(compile_id="0/1", inductor_compile_time_s=0.5, code_gen_time_s=0.1))
    assert (event.backward, event.again, event.seconds) == (True, True, 0.5)


@pytest.mark.parametrize(
    ("config", "kept_s"),
    [
        ({"fx_graph_cache": True}, 0.9),
        ({"fx_graph_cache": True, "force_disable_caches": True}, 0.0),
        ({"fx_graph_cache": False}, 0.0),
        ({}, 0.0),
    ],
)
def test_what_inductor_compiled_is_kept_for_the_next_start_where_it_has_a_cache(monkeypatch, config, kept_s):
    monkeypatch.setitem(compiling.sys.modules, "torch._inductor.config", SimpleNamespace(**config))
    account = compiling.Compiling(SimpleNamespace(write=None))
    entry = SimpleNamespace(compile_id="0/1", duration_us=1_000_000, inductor_compile_time_s=0.9)
    assert account._event(entry).kept_s == kept_s
