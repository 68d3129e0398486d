from __future__ import annotations

import pytest

from perfdoctor.facts.host.stack_costs import StackCosts
from perfdoctor.facts.script.model_and_optimizers import model_facts, optimizer_facts
from perfdoctor.facts.user_source.parse import Sources
from tests.support.facts import kernels, step
from tests.support.rank_traces import kernel
from tests.support.records import no_source, records, source_of

TRAIN = "/home/me/train.py"


def at(line):
    return {"file": TRAIN, "line": line, "function": "main"}


def own(*events):
    return records(events=events).ranks[0]


def adam(**given):
    return {
        "event": "optimizer",
        "id": 1,
        "class": "torch.optim.adamw.AdamW",
        "way": "for-loop",
        "tensors": 4,
        "elements": 100,
        "device": "cpu",
        "built": at(9),
        "at": at(20),
        **given,
    }


UPDATES = step(forward=3, backward=3, optimizer=4)
SCALED = {"event": "settings", "scaled": True}
KERNELS = kernels(kernel("gemm", "matmul", 90), kernel("adam_math", "optimizer", 10))


def test_without_an_optimizer_there_are_no_facts():
    assert optimizer_facts(own()) is None


def test_an_optimizer_is_told_with_both_lines():
    (found,) = optimizer_facts(own(adam())).optimizers
    assert (found.kind, found.way, found.tensors, found.elements) == ("AdamW", "for-loop", 4, 100)
    assert (found.constructed_at.line, found.at.line) == (9, 20)
    assert found.fusable


def test_their_own_share_of_the_phase_is_what_stack_samples_say():
    assert optimizer_facts(own(adam())).own_share == 1.0
    assert optimizer_facts(own(adam()), StackCosts(100, (), {}, frozenset(), 0.7)).own_share == 0.7


def test_on_a_device_the_update_takes_what_its_kernels_take():
    found = optimizer_facts(own(adam(device="cuda"), SCALED), None, KERNELS)
    assert (found.share(UPDATES), found.is_sure) == (pytest.approx(0.1), True)
    on_cpu = optimizer_facts(own(adam()), None, KERNELS)
    assert (on_cpu.share(UPDATES), on_cpu.is_sure) == (0.4, True)


def test_on_a_device_without_a_window_the_host_may_have_waited_in_the_update():
    found = optimizer_facts(own(adam(device="cuda")))
    assert (found.share(UPDATES), found.is_sure) == (0.4, False)
    assert optimizer_facts(own(adam(device="cuda"), SCALED)).share(UPDATES) == 0.0
    assert optimizer_facts(own(adam(), SCALED)).share(UPDATES) == 0.4


def test_fused_foreign_and_special_ones_cannot_be_fused():
    events = (
        adam(way="fused"),
        adam(**{"class": "apex.optimizers.FusedAdam"}),
        adam(sparse=True),
        adam(differentiable=True),
        adam(**{"class": "torch.optim.rprop.Rprop"}),
        adam(device="mps"),
        adam(way=None),
    )
    assert not any(one.fusable for one in optimizer_facts(own(*events)).optimizers)


def test_records_of_another_version_leave_gaps_and_no_error():
    (found,) = optimizer_facts(own({"event": "optimizer", "class": 7, "elements": "many"})).optimizers
    assert (found.kind, found.elements, found.constructed_at, found.fusable) == ("optimizer", 0, None, False)


def test_the_largest_model_counts():
    small = {"event": "root", "module": "a.Small", "parameters": 10, "float64": 1.0, "built": at(3)}
    large = {"event": "root", "module": "a.Large", "parameters": 99, "float64": 0.0, "built": at(4)}
    facts = model_facts(own(small, large, small), Sources(no_source))
    assert (facts.name, facts.parameters, facts.float64, facts.at.line) == ("a.Large", 99, 0.0, 4)


def test_without_a_module_the_optimizers_parameters_count():
    facts = model_facts(own(adam(float64=1.0)), Sources(no_source))
    assert (facts.name, facts.parameters, facts.float64) == (None, 100, 1.0)


def test_without_either_there_is_no_model():
    assert model_facts(own(), Sources(no_source)) is None


WIDE = {"event": "root", "module": "a.Net", "parameters": 10, "float64": 1.0, "built": at(1)}
TEXT = """import numpy as np
x = torch.from_numpy(np.zeros(3))
y = torch.zeros(3, dtype=torch.float64)
z = np.zeros(3, dtype="float64")
w = torch.zeros(3)
net = Net().double()
"""


def test_a_call_that_widens_comes_before_what_the_text_says():
    noted = {"event": "float64", "what": "Module.double", "at": at(6)}
    facts = model_facts(own(WIDE, noted), Sources(source_of(train=TEXT)))
    assert [(what, at.line) for what, at in facts.widened] == [("Module.double", 6)]


def test_without_such_a_call_the_lines_that_name_double_precision_are_told():
    facts = model_facts(own(WIDE), Sources(source_of(train=TEXT)))
    assert sorted(at.line for _, at in facts.widened) == [2, 3, 4, 6]
    assert {at.text for _, at in facts.widened} >= {"y = torch.zeros(3, dtype=torch.float64)"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = torch.from_numpy(raw).to(device)", True),
        ("x = torch.from_numpy(raw).float()", False),
        ("x = torch.from_numpy(raw).to(device).to(torch.float32)", False),
        ("x = torch.from_numpy(raw.astype(np.float32))", False),
        ('x = torch.from_numpy(np.asarray(raw, dtype="float32"))', False),
        ("loss = model(torch.from_numpy(raw)).float()", True),
        ('parser.add_argument("--dtype", choices=["float", "double"])', False),
        ('parser.add_argument("--dtype", default="double")', True),
        ("if args.double: x = y", False),
        ("if args.double: model.double()", True),
        ('if args.dtype == "double": x = y', False),
        ("assert x.dtype is not torch.float64", False),
        ('types = {"double": 8}', False),
        ("torch.set_default_dtype(torch.double)", True),
    ],
)
def test_choices_options_comparisons_and_what_is_narrowed_bring_none_in(text, told):
    facts = model_facts(own(WIDE), Sources(source_of(train=text)))
    assert bool(facts.widened) is told


def test_a_narrow_model_has_no_such_lines():
    facts = model_facts(own({**WIDE, "float64": 0.0}), Sources(source_of(train=TEXT)))
    assert facts.widened == ()


def test_adapters_of_a_frozen_base_are_what_is_trained():
    root = {"event": "root", "module": "m.Net", "parameters": 100, "float16": 0.9, "built": at(9)}
    lora = model_facts(own({**root, "float16_trained": 0.0}), Sources(no_source))
    assert (lora.float16, lora.float16_trained) == (0.9, 0.0)
    assert model_facts(own(root), Sources(no_source)).float16_trained == 0.9  # an older probe's
