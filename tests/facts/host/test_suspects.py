from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.host.stack_costs import stack_costs
from perfdoctor.facts.host.suspects import suspect_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import GpuFacts, Phase
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.facts.host.test_stack_costs import FETCH
from tests.facts.host.test_stacks import TORCH, at, stack, wrapper
from tests.support.facts import loader, run, step
from tests.support.records import source_of

SITE = "/home/me/.venv/lib/python3.11/site-packages"
STEP = step(data_wait=20, forward=40, backward=20, optimizer=10, other=10)
SCRIPT = dedent(
    """\
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(simulate(loss))
    class Net:
        def forward(self, x):
            x = torch.relu(x @ self.weight)
            x, _ = torch.sort(x)
            h = x[0]
            for row in x:
                h = torch.tanh(h @ self.weight + row)
            total = 0
            for row in x:
                total = total + row * self.scale
                kept.append(row * 2)
            parts = [row * 2 for row in x]
            value = x.sum().item()
    """
)
LINEAR = f"Linear.forward ({TORCH}/nn/modules/linear.py:9)"
TRAINING = (
    stack(at(2), wrapper("module_call"), LINEAR),
    stack(at(3), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward")),
    stack(at(4), wrapper("optimizer"), f"SGD.step ({TORCH}/optim/sgd.py:7)"),
)


def found(*stacks, of_run=None, device=None, gpu=None, of_loader=None):
    rank = RankRecords(0, None, None, (), (*TRAINING, *stacks), "py-spy")
    sources = Sources(source_of(train=SCRIPT))
    costs = stack_costs(rank, STEP, sources)
    return suspect_facts(costs, STEP, of_run or run(), device, gpu, of_loader, sources)


def test_only_a_training_thread_without_workers_prepares_batches_itself():
    half = STEP.mean_s * 1e3 / 2
    assert found(of_loader=loader(batch=half)).own_batches == pytest.approx(0.5)
    assert found(of_loader=loader(workers=2, batch=half)).own_batches == found().own_batches == 0.0


def lines(*stacks, **given):
    return {suspect.path[-1].line for suspect in found(*stacks, **given).suspects}


def forward(line, *beyond):
    return stack(at(2), wrapper("module_call"), at(line, "Net.forward"), *beyond)


def test_products_of_layers_the_loss_and_the_update_are_not():
    loss = stack(at(2), f"cross_entropy ({TORCH}/nn/functional.py:9)")
    assert lines(loss, forward(8), forward(8, LINEAR)) == set()


@pytest.mark.parametrize("line", [9, 15, 16, 17])
def test_sorting_and_loops_inside_the_model_are(line):
    assert lines(forward(line)) == {line}


def test_a_recurrence_is_not():
    assert lines(forward(12)) == set()


def test_layers_in_a_loop_are_not():
    assert lines(forward(15, LINEAR)) == set()


@pytest.mark.parametrize(
    "beyond",
    [
        (f"argsort ({SITE}/numpy/core/fromnumeric.py:9)",),
        (f"linear_sum_assignment ({SITE}/scipy/optimize/_lsap.py:9)",),
        ("sleep (/usr/lib/python3.11/sched.py:9)",),
        (f"unique ({TORCH}/functional.py:9)",),
    ],
)
def test_other_libraries_and_searching_below_a_line_of_the_model_are(beyond):
    assert lines(forward(8, *beyond)) == {8}


@pytest.mark.parametrize("library", ["transformers/models/bert/modeling_bert.py", "timm/layers/mlp.py"])
def test_libraries_made_of_layers_are_not(library):
    assert lines(forward(8, f"BertLayer.forward ({SITE}/{library}:9)")) == set()


def test_work_between_the_phases_is():
    assert lines(stack(at(5))) == {5}


def test_the_loop_of_a_trainer_is_not():
    lightning = f"fit ({SITE}/lightning/pytorch/trainer/trainer.py:9)"
    inner = [stack(at(1), lightning, *names[1:]) for names, _ in TRAINING]
    assert lines(*inner, stack(at(1), lightning, count=500)) == set()


def test_a_wait_is_where_it_reaches_the_users_code():
    in_dataset = stack(at(1), wrapper("data_wait"), FETCH, at(20, "Data.__getitem__"))
    in_library = stack(at(1), wrapper("data_wait"), FETCH, f"get ({SITE}/torchvision/datasets/mnist.py:9)")
    (suspect,) = found(in_dataset, in_library).suspects
    assert ([at.line for at in suspect.path], [at.line for at in suspect.callers]) == ([20], [1])
    assert suspect.share == pytest.approx(0.1)


def test_the_lines_of_a_short_loop_are_one_under_the_costliest():
    once, twice = forward(15), forward(16)
    suspects = found(once, twice, twice).suspects
    assert {suspect.path[-1].line for suspect in suspects} == {16}
    assert sum(suspect.share for suspect in suspects) == pytest.approx(0.3)


def test_on_a_device_a_line_that_reads_a_tensor_waits_for_the_work_before_it():
    gpu = GpuFacts(("V100",), 0.6, None, None)
    given = {"of_run": run(device="V100"), "device": Missing("no window"), "gpu": gpu}
    assert lines(forward(18), **given) == set()
    assert found(forward(9), **given).room == pytest.approx(0.4)
    assert found(forward(9), of_run=run(device="V100"), gpu=Missing("no driver")).room == 0.0


def test_phases_keep_their_names():
    assert {suspect.phase for suspect in found(forward(9), stack(at(5))).suspects} == {
        Phase.FORWARD,
        Phase.OTHER,
    }


@pytest.mark.parametrize(
    "file", ["_dynamo/convert_frame.py", "_inductor/compile_fx.py", "_dynamo/eval_frame.py", "nn/_tensors.py"]
)
def test_compiling_has_findings_of_its_own_and_calling_what_is_compiled_has_not(file):
    called = stack(
        at(2),
        wrapper("module_call"),
        f"compiled ({TORCH}/{file}:9)",
        "deepcopy (/usr/lib/python3.11/copy.py:128)",
    )
    assert lines(called) == (set() if "conv" in file or "compile" in file else {2})
