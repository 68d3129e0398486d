from __future__ import annotations

import pytest

from perfdoctor.facts.host.gathered_outputs import gathered_outputs
from perfdoctor.facts.host.stack_costs import stack_costs
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.runs.types import RankRecords
from tests.facts.host.test_stacks import TORCH, at, stack, wrapper
from tests.support.facts import run, step
from tests.support.records import source_of

LIBRARY = "/home/me/.venv/lib/python3.11/site-packages/transformers"
STEP = step(forward=30, backward=30, optimizer=20, other=20)
MAKES = "config = BertConfig(num_labels=3, output_hidden_states=True)"
SCRIPT = f"{MAKES}\ntrainer = Trainer(model=Net(config), args=args)\ntrainer.train()\n"


def within(line):
    return at(3), f"Trainer.train ({LIBRARY}/trainer.py:{line})"


TRAIN = within(20)
LOOP = f"Trainer.evaluation_loop ({LIBRARY}/trainer.py:40)"
ADD = f"EvalLoopContainer.add ({LIBRARY}/trainer_pt_utils.py:76)"
CONCAT = f"nested_concat ({LIBRARY}/trainer_pt_utils.py:26)"
ARRAYS = f"numpy_pad_and_concatenate ({LIBRARY}/trainer_pt_utils.py:9)"
TRAINING = (
    stack(*within(10), wrapper("module_call"), f"Linear.forward ({TORCH}/nn/modules/linear.py:9)", count=30),
    stack(*within(11), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward"), count=30),
    stack(*within(12), wrapper("optimizer"), f"SGD.step ({TORCH}/optim/sgd.py:7)", count=20),
)
JOINING = (stack(*TRAIN, LOOP, ADD, count=6), stack(*TRAIN, LOOP, ADD, CONCAT, count=9))
ELSE = stack(*TRAIN, f"Trainer.log ({LIBRARY}/trainer.py:90)", count=5)


def facts(*stacks, source=SCRIPT, device=None):
    sources = Sources(source_of(train=source))
    rank = RankRecords(0, None, None, (), (*TRAINING, *stacks), "py-spy")
    of_run = run(device=device) if device else run()
    return gathered_outputs(stack_costs(rank, STEP, sources), STEP, of_run, sources)


def test_what_joins_outputs_in_evaluations_is_told_of_the_rest_between_the_phases():
    found = facts(*JOINING, ELSE)
    assert found.share == pytest.approx(0.15)
    assert found.samples == 15
    assert (found.called.line, found.called.text) == (3, "trainer.train()")


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param((LOOP, f"Trainer.prediction_step ({LIBRARY}/trainer.py:70)"), id="the pass"),
        pytest.param((CONCAT,), id="outside an evaluation"),
        pytest.param((LOOP, "Stack.add (/home/me/.venv/lib/python3.11/site-packages/own/a.py:3)"), id="else"),
        pytest.param((LOOP, f"__iter__ ({LIBRARY}/trainer_pt_utils.py:200)"), id="its sampler"),
    ],
)
def test_nothing_is_told_where_no_outputs_are_joined(frames):
    assert facts(ELSE, stack(*TRAIN, *frames)) is None


def test_on_a_device_only_arrays_are_joined_on_the_host():
    waits = stack(*TRAIN, LOOP, ADD, f"nested_numpify ({LIBRARY}/trainer_pt_utils.py:60)", count=15)
    assert facts(*JOINING, waits, device="Tesla V100") is None
    arrays = stack(*TRAIN, LOOP, ADD, CONCAT, ARRAYS, count=5)
    assert facts(*JOINING, arrays, device="Tesla V100").share == pytest.approx(0.05)


def test_a_configuration_that_adds_outputs_is_named_and_where_the_trainer_is_made():
    found = facts(*JOINING, ELSE)
    assert [(kept.name, kept.at.line, kept.at.text) for kept in found.kept] == [("hidden_states", 1, MAKES)]
    assert found.trainer.text.startswith("trainer = Trainer(")
    assert not found.reduces


@pytest.mark.parametrize(
    ("first", "names"),
    [
        ("config.output_attentions = True", ["attentions"]),
        ("net = AutoModel.from_pretrained(name, output_attentions=True)", ["attentions"]),
        ("config = BertConfig(output_hidden_states=False)", []),
        ("features = net(x, output_hidden_states=True)", []),
        ("config = (", []),
    ],
)
def test_what_adds_outputs_is_told_by_the_source(first, names):
    found = facts(*JOINING, source=SCRIPT.replace(MAKES, first))
    assert [kept.name for kept in found.kept] == names


def test_outputs_that_the_source_leaves_out_are_not_named():
    source = SCRIPT.replace("train()", "train(ignore_keys_for_eval=['hidden_states'])")
    assert facts(*JOINING, source=source).kept == ()


def test_a_trainer_may_make_predictions_already():
    source = SCRIPT.replace("args=args", "preprocess_logits_for_metrics=best")
    assert facts(*JOINING, source=source).reduces


TEACHER = "teacher = AutoModel.from_pretrained(where, output_hidden_states=True)"


def test_what_another_model_returns_is_not_joined():
    student = "config = BertConfig(num_labels=3)\nnet = Net(config)"
    made = "trainer = Distiller(model=net, teacher=teacher)\n"
    script = f"{TEACHER}\n{student}\n{made.replace('Distiller', 'DistillingTrainer')}"
    assert facts(*JOINING, ELSE, source=script).kept == ()
    own = script.replace("num_labels=3", "output_attentions=True")
    assert [kept.name for kept in facts(*JOINING, ELSE, source=own).kept] == ["attentions"]


def test_where_the_file_does_not_show_what_is_trained_any_setting_counts():
    script = f"{TEACHER}\ntrainer = Trainer(make(), args)\ntrainer.train()\n"
    assert [kept.name for kept in facts(*JOINING, ELSE, source=script).kept] == ["hidden_states"]


@pytest.mark.parametrize("setting", ["num_labels=1", "predict_with_generate=True"])
def test_predictions_are_not_always_the_largest_logit(setting):
    assert facts(*JOINING, ELSE).classifies
    assert not facts(*JOINING, ELSE, source=SCRIPT.replace("num_labels=3", setting)).classifies
