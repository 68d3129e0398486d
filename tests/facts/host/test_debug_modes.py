from __future__ import annotations

import pytest

from perfdoctor.facts.host.debug_modes import debug_mode_facts, is_check
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import LineCost, Location, Phase, StackFacts
from perfdoctor.runs.types import RankRecords
from tests.support.facts import line, stacks
from tests.support.records import source_of
from tests.support.script_facts import gpu

SOURCES = Sources(source_of(train="torch.autograd.set_detect_anomaly(True)"))


def mode(name, seen, looks):
    at = {"file": "/home/me/train.py", "line": 1}
    return {"event": "debug", "mode": name, "seen": seen, "looks": looks, "at": at}


def facts(*events, of_stacks=None):
    return debug_mode_facts(RankRecords(0, None, None, events), of_stacks, gpu(0.5), SOURCES)


def test_modes_that_were_on_for_most_steps_are_kept_with_their_line():
    found = facts(mode("anomaly", 1, 1), mode("anomaly", 9, 10), mode("profiler", 5, 10))
    assert [(each.name, each.share) for each in found.modes] == [("anomaly", pytest.approx(0.9))]
    assert found.modes[0].at.text == "torch.autograd.set_detect_anomaly(True)"
    assert found.device_busy == 0.5


def test_lines_that_look_for_nan_are_found_by_their_text():
    check = line(0.1, text="assert torch.isfinite(loss)")
    found = facts(of_stacks=stacks(check, line(0.1, text="plan.is_finished()")))
    assert found.checks == (check,)


LOOP = """for x, y in loader:
    mask = ~torch.isnan(y)
    filled = torch.where(
        torch.isnan(x), zero, x)
    loss = criterion(model(filled)[mask], y[mask])
    if not torch.isfinite(loss).all():
        continue
    loss.backward()
    assert_all_finite(loss)
    optimizer.step()
    bad = torch.isnan(loss).sum()
    while torch.isinf(scale): scale /= 2
    print(bad)"""


@pytest.mark.parametrize(
    ("number", "counts"),
    [
        pytest.param(2, False, id="a-mask-of-missing-targets"),
        pytest.param(6, False, id="a-test-that-skips-an-update"),
        pytest.param(4, False, id="the-second-line-of-what-fills-gaps"),
        pytest.param(9, True, id="a-call-that-raises"),
        pytest.param(11, True, id="it-is-only-printed"),
        pytest.param(12, False, id="a-loop-until-the-value-is-finite"),
    ],
)
def test_a_line_checks_where_it_tests_or_where_its_result_is_only_reported(number, counts):
    text = LOOP.split("\n")[number - 1].strip()
    at = Location("/home/me/train.py", number, "<module>", text)
    sources = Sources(source_of(train=LOOP))
    assert is_check(LineCost(at, 0.1, 50, None, None), sources) is counts


BRANCHES = {
    "if torch.isnan(loss):\n    raise ValueError(step)": True,
    "if torch.isnan(loss):\n    text = note(step)\n    raise ValueError(text)": True,
    "if torch.isnan(loss):\n    save(model)\n    sys.exit(1)": True,
    "if torch.isnan(loss):\n    print(step)\nelif torch.isinf(loss):\n    logger.error(step)": True,
    "if torch.isnan(loss):\n    for name in names:\n        if bad(name):\n            print(name)": True,
    "if not torch.isfinite(loss):\n    opt.zero_grad()\n    continue": False,
    "if not torch.isfinite(loss):\n    print(step)\n    continue": False,
    "if all(torch.isfinite(p).all() for p in grads):\n    opt.step()\nelse:\n    logger.warning(step)": False,
    "if torch.isfinite(loss):\n    opt.step()\nelse:\n    raise ValueError(step)": False,
    "if torch.isnan(loss):\n    loss = torch.zeros_like(loss)": False,
    "if torch.isnan(loss):\n    return torch.zeros_like(loss)": False,
    "if torch.isnan(loss): continue": False,
    "while np.isnan(draw()).any():\n    pass": False,
}


@pytest.mark.parametrize(("text", "counts"), BRANCHES.items())
def test_a_test_checks_where_it_only_tells_or_ends_the_run(text, counts):
    script = f"def run():\n    for x in data:\n        {text.replace(chr(10), chr(10) + ' ' * 8)}"
    at = Location("/home/me/train.py", 3, "run", text.split("\n")[0])
    assert is_check(LineCost(at, 0.1, 10, None, None), Sources(source_of(train=script))) is counts


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("keep = ~np.isnan(row)", False),
        ("return loss[torch.isfinite(y)].mean()", False),
        ("if torch.isnan(loss):", False),  # it may skip an update
        ("assert not torch.isnan(loss)", True),
    ],
)
def test_without_the_source_a_line_checks_where_it_ends_the_run(text, counts):
    assert (facts(of_stacks=stacks(line(0.1, text=text))) is not None) is counts


def test_what_a_dataset_tests_is_the_datas():
    check = line(0.1, text="if np.isnan(row).any():")
    assert facts(of_stacks=StackFacts(1000, "py-spy", {Phase.DATA_WAIT: (check,)})) is None


def test_without_either_there_is_nothing():
    assert facts(mode("profiler", 1, 10), of_stacks=stacks(line(0.5))) is None
    assert facts() is None
    assert facts({"event": "debug", "mode": "anomaly"}) is None


def weighed(**fields):
    return {"event": "anomaly", **fields}


def test_what_anomaly_detection_costs_comes_from_the_last_graph_that_was_weighed():
    last = weighed(frames=3000, frame_s=1e-5, gradients=700, gradient_s=5e-6)
    found = facts(mode("anomaly", 9, 9), weighed(frames=9, frame_s=9.0), last)
    assert found.anomaly_s == (pytest.approx(0.03), pytest.approx(0.0035))
    assert facts(mode("anomaly", 9, 9)).anomaly_s is None
    assert facts(mode("anomaly", 9, 9), weighed()).anomaly_s == (0.0, 0.0)


SHOWN = """for step, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    shown = {}
    if not torch.isnan(loss):
        shown["loss"] = loss.item()
    print(shown)
    if torch.isnan(loss):
        logger.warning("loss is not a number")
    if not torch.isinf(loss):
        scheduler.step()"""


@pytest.mark.parametrize(("number", "counts"), [(6, False), (9, True), (11, False)])
def test_a_test_that_chooses_what_is_shown_or_done_looks_for_no_error(number, counts):
    at = Location("/home/me/train.py", number, "<module>", SHOWN.splitlines()[number - 1].strip())
    assert is_check(LineCost(at, 0.1, 10, None, None), Sources(source_of(train=SHOWN))) is counts
