"""Windows that `perfdoctor run` recorded from tests/data/mlp.py say what that script does."""

from __future__ import annotations

import pytest

from perfdoctor.diagnosis import trace_report
from perfdoctor.render.notes import all_worded
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.parse.read import read
from tests.support.paths import DATA

pytestmark = pytest.mark.process

# A step of mlp.py: three linear layers forward; backward, a product for each weight and for each input but
# the first, which needs no gradient.
CALLS = {"aten::addmm": 3, "aten::relu": 2, "aten::mm": 5, "aten::randn": 1, "aten::square": 1}
SHAPES = {((64,), (24, 40), (40, 64)), ((64,), (24, 64), (64, 64)), ((8,), (24, 64), (64, 8))}


@pytest.fixture(params=["plain", "shapes"])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of window."""
    return str(request.param)


def test_each_step_is_marked_and_calls_each_operator_as_often_as_the_script_does(kind: str) -> None:
    measured = measure(read(DATA / f"mlp.{kind}.json.gz"))
    steps = [step.name for step in measured.steps]
    first = int(steps[0].removeprefix("ProfilerStep#"))
    assert steps == [f"ProfilerStep#{first + number}" for number in range(len(steps))]
    assert len(steps) == {"plain": 4, "shapes": 3}[kind]
    counts = {op.name: op.count for op in measured.ops}
    assert {name: counts[name] / len(steps) for name in CALLS} == CALLS


def test_shapes_are_those_of_the_layers() -> None:
    trace = read(DATA / "mlp.shapes.json.gz")
    addmm = trace.names.index("aten::addmm")
    ops, inputs = trace.details.op.tolist(), trace.details.inputs.tolist()
    seen = {
        trace.inputs[n].shapes[:3] for op, n in zip(ops, inputs, strict=True) if trace.ops.name[op] == addmm
    }
    assert seen == SHAPES
    assert not len(read(DATA / "mlp.plain.json.gz").details)


def test_a_trace_of_the_cpu_has_no_figures_of_a_device(kind: str) -> None:
    found = trace_report.report([measure(read(DATA / f"mlp.{kind}.json.gz"))])
    assert found.judged.times is None
    assert found.device is None
    assert any("trace of the CPU" in note for note in all_worded(found.notes))
