from __future__ import annotations

from perfdoctor.trace.measure.annotations import collect_annotations
from perfdoctor.trace.measure.updates import in_updates
from tests.support.traces import Recording

NODE = "autograd::engine::evaluate_function: AddBackward0"


def places(made: Recording) -> list[str]:
    trace = made.trace()
    inside, before = in_updates(trace, collect_annotations(trace))
    told = zip(inside.tolist(), before.tolist(), strict=True)
    return ["update" if one else "before" if other else "-" for one, other in told]


def called(*begins: float) -> Recording:
    made = Recording()
    for begin in begins:
        made.call("cudaLaunchKernel", begin, begin + 1)
    return made


def test_gradients_are_worked_on_between_the_last_node_and_the_step():
    made = called(5, 12, 22, 32, 45)
    made.op(NODE, 8, 15, thread="backward")
    made.op(NODE, 15, 20, thread="backward")
    made.mark("Optimizer.step#AdamW.step", 30, 40)
    assert places(made) == ["-", "-", "before", "update", "-"]


def test_each_of_two_networks_has_its_own_update():
    made = called(22, 45, 72)
    for begin in (10, 60):
        made.op(NODE, begin, begin + 10)
        made.mark("Optimizer.step#SGD.step", begin + 20, begin + 30)
    assert places(made) == ["before", "-", "before"]


def test_without_a_backward_pass_nothing_is_told_before_the_step():
    made = called(5, 32)
    made.mark("Optimizer.step#SGD.step", 30, 40)
    assert places(made) == ["-", "update"]
