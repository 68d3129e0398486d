from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.diagnosis.trace_comparison import compare
from perfdoctor.facts.device.device import device_facts
from perfdoctor.model.note import Note
from perfdoctor.trace.lost import INVALID
from perfdoctor.trace.parse.columns import Skipped
from perfdoctor.trace.results import OpUse
from tests.support.rank_traces import copy, host_only, kernel, rank, step, unmarked, use


def named(changes):
    return {change.name: change for change in changes}


def test_times_are_per_step_where_both_sides_have_steps():
    slow = rank(tuple(step(n, span=200) for n in range(4)), classes=(use("matmul", 40, count=8),))
    fast = rank(tuple(step(n, span=100) for n in range(2)), classes=(use("matmul", 30, count=2),))
    found = compare([slow], [fast])
    assert found.per_step
    whole = found.times[0]
    assert (whole.name, whole.before_us, whole.after_us) == ("step", 200_000, 100_000)
    matmul = named(found.classes)["matmul"]
    assert (matmul.before_us, matmul.after_us, matmul.grown_us) == (10_000, 15_000, 5_000)
    assert (matmul.before_count, matmul.after_count) == (2, 1)


def test_a_first_step_that_warms_up_is_no_part_of_what_is_compared():
    steps = (step(0, span=500), *(step(n, span=100) for n in range(1, 4)))
    found = compare([rank(steps, classes=(use("matmul", 40, count=8),))], [rank(steps[1:])])
    assert (found.times[0].before_us, found.times[0].grown_us) == (100_000, 0)
    assert (found.before_steps, found.after_steps) == (3, 3)
    assert named(found.classes)["matmul"].before_us == pytest.approx(40_000 / 3)
    assert found.notes == (Note("warm-up-step", {"step": "ProfilerStep#0"}),)


def test_they_are_totals_where_one_side_has_none():
    found = compare([rank()], [unmarked()])
    assert not found.per_step
    assert found.times[0].name == "device's span"
    assert found.times[0].grown_us == 0


def test_they_are_totals_where_one_file_of_a_side_has_none():
    before = [rank(), replace(unmarked(), rank=1)]
    found = compare(before, before)
    assert not found.per_step
    assert named(found.kernels)["vectorized"].before_us == pytest.approx(100_000)


def test_what_changed_most_comes_first_whether_it_grew_or_shrank():
    before = rank(classes=(use("matmul", 100), use("pointwise", 50), use("reduction", 10)))
    after = rank(classes=(use("matmul", 110), use("pointwise", 20), use("reduction", 10)))
    assert [change.name for change in compare([before], [after]).classes] == [
        "pointwise",
        "matmul",
        "reduction",
    ]


def test_what_is_on_one_side_only_counts_as_nothing_on_the_other():
    before, after = (rank(kernels=(kernel(name, "matmul", 50),)) for name in ("old", "new"))
    found = named(compare([before], [after]).kernels)
    assert (found["old"].before_us, found["old"].after_us) == (10_000, 0)
    assert (found["new"].before_us, found["new"].after_us) == (0, 10_000)


def test_ranks_of_a_side_are_averaged():
    other = replace(rank(classes=(use("matmul", 300),)), rank=1)
    found = compare([rank(classes=(use("matmul", 100),)), other], [rank(classes=(use("matmul", 100),))])
    assert found.classes[0].before_us == pytest.approx(40_000)
    assert found.classes[0].after_us == pytest.approx(20_000)
    assert found.before_steps == 5


def test_operators_are_compared_by_the_time_of_the_device_or_without_one_of_the_host():
    op = OpUse("aten::mm", 5, 10_000.0, 50_000.0, 5)
    found = compare([rank(ops=(op,))], [rank(ops=(replace(op, device_us=100_000.0),))])
    assert found.ops[0].grown_us == pytest.approx(10_000)
    found = compare([host_only(ops=60)], [host_only(ops=30)])
    assert found.ops[0].grown_us == pytest.approx(-30_000)
    assert [change.name for change in found.times] == ["step", "in DataLoader", "in operators"]


def test_without_device_and_steps_the_whole_trace_is_compared():
    plain = replace(host_only(), steps=())
    assert compare([plain], [plain]).times[0].name == "trace"


def test_of_a_device_that_one_file_knows_nothing_of_nothing_is_compared():
    lost = replace(host_only(ops=30), file="lost.json", notes=(INVALID,))
    op = OpUse("aten::mm", 500, 300_000.0, 50_000.0, 500)
    found = compare([rank(ops=(op,))], [lost])
    assert [change.name for change in found.times] == ["step", "in DataLoader"]
    assert (found.classes, found.kernels) == ((), ())
    assert found.ops[0].grown_us == pytest.approx(-30_000)  # of the host
    assert found.notes == (
        Note("device-not-everywhere", {"files": ["lost.json"]}),
        Note("of-file", {"file": "lost.json", "note": INVALID}),
    )
    assert found.whole is found.times[0]
    assert compare([unmarked()], [replace(lost, steps=())]).whole is None


def test_a_rank_without_its_device_is_no_part_of_a_mean():
    before = [rank(), replace(host_only(), rank=1)]
    assert compare(before, [rank()]).kernels == ()


@pytest.mark.parametrize("steps", [True, False])
def test_what_the_report_of_a_file_says_of_damage_and_gaps_is_said_of_both(steps):
    few = Note("few-launches")
    before = replace(rank(notes=(few,)), skipped=Skipped(1, 1, "1 event could not be read"))
    after = replace(before, file="after.json", notes=(few, Note("no-shapes")), skipped=Skipped())
    sides = (before, after) if steps else (replace(before, steps=()), replace(after, steps=()))
    assert compare([sides[0]], [sides[1]]).notes == (
        Note("of-file", {"file": before.file, "note": "1 event could not be read"}),
        few,
        Note("of-file", {"file": "after.json", "note": Note("no-shapes")}),
    )


def test_idle_time_is_compared_by_cause():
    waits = rank(tuple(step(n, idle={"data_wait": 40}) for n in range(2)))
    found = named(compare([waits], [rank()]).times)
    assert found["idle: data wait"].after_us == 0
    assert found["idle: host late"].grown_us == pytest.approx(40_000)


def test_copies_within_the_device_are_computing_as_in_a_report():
    steps = (step(1, compute=40, copy=20),) * 5
    before = rank(
        steps, copies=(copy("DtoD", None, 50), copy("HtoD", "pinned", 50)), classes=(use("copy", 100),)
    )
    found = named(compare([before], [rank(steps)]).times)
    device = device_facts(before)
    assert found["compute"].before_us == pytest.approx(50_000)
    assert device.compute == pytest.approx(0.5)
    assert found["copies"].before_us == pytest.approx(10_000)
    assert found["copies"].after_us == pytest.approx(20_000)  # where they went is not known
