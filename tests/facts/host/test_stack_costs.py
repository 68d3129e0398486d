from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.host.stack_costs import TRAINER, stack_costs
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.lines import WaitPart
from perfdoctor.model.measured import Phase
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.facts.host.test_stacks import PROBE, TORCH, at, stack, wrapper
from tests.support.facts import step
from tests.support.records import source_of

STANDARD = "/usr/lib/python3.11"
LOADER = f"{TORCH}/utils/data/dataloader.py"
FETCH = f"fetch ({TORCH}/utils/data/_utils/fetch.py:54)"
POLLS = (wrapper("data_wait"), f"Connection.poll ({STANDARD}/multiprocessing/connection.py:257)")
SCRIPT = dedent(
    """\
    for x, y in loader:
        out = model(x)
        stats = study(out)
        loss = criterion(out, y)
        loss.backward()
        clip(model)
        optimizer.step()
        history.append(look(loss))
    def look(loss):
        return slow(loss)
    class Data:
        def __getitem__(self, index):
            return self.rows[index]
    """
)
STEP = step(data_wait=20, forward=40, backward=20, optimizer=10, other=10)
TRAINING = (
    stack(at(2), wrapper("module_call"), f"Linear.forward ({TORCH}/nn/modules/linear.py:9)", count=40),
    stack(at(5), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward"), count=20),
    stack(at(7), wrapper("optimizer"), f"SGD.step ({TORCH}/optim/sgd.py:7)", count=10),
)


def facts(*stacks, of_step=STEP, events=(), script=SCRIPT):
    rank = RankRecords(0, None, None, tuple(events), tuple(stacks), "py-spy")
    return stack_costs(rank, of_step, Sources(source_of(train=script)))


def seconds(found):
    """Milliseconds by phase and by the numbers of the lines on the way."""
    together = {}
    for cost in found.costs:
        key = cost.phase, tuple(frame.line for frame in cost.path)
        together[key] = together.get(key, 0.0) + cost.seconds * 1e3
    return together


@pytest.mark.parametrize(("count", "share"), [(10, 2 / 3), (6, 1.0)], ids=["enough", "too few samples"])
def test_clipping_before_the_update_is_none_of_it(count, share):
    clips = stack(at(6), f"clip_grad_norm_ ({TORCH}/nn/utils/clip_grad.py:3)", count=count)
    stepping = f"wrapper ({TORCH}/optim/optimizer.py:516)", f"SGD.step ({TORCH}/optim/sgd.py:7)"
    steps = stack(at(7), *stepping, count=2 * count)
    assert facts(*TRAINING[:2], clips, steps).in_updates == pytest.approx(share)


def test_what_a_scaler_waits_for_before_the_update_is_none_of_it():
    scales = at(7), wrapper("optimizer"), f"GradScaler.step ({TORCH}/amp/grad_scaler.py:461)"
    steps = f"wrapper ({TORCH}/optim/optimizer.py:516)", f"SGD.step ({TORCH}/optim/sgd.py:7)"
    found = facts(*TRAINING[:2], stack(*scales, count=30), stack(*scales, *steps, count=10))
    assert found.in_updates == pytest.approx(1 / 4)


LIGHTNING = "/usr/lib/python3/dist-packages/lightning/pytorch"
STEPPING = f"wrapper ({TORCH}/optim/optimizer.py:516)", f"Adam.step ({TORCH}/optim/adam.py:227)"
CLOSURE = (*STEPPING, f"_wrap_closure ({LIGHTNING}/plugins/precision.py:110)")


@pytest.mark.parametrize(
    "called",
    [
        pytest.param((*CLOSURE, at(10, "look")), id="a-callback-of-the-users"),
        pytest.param((*CLOSURE, f"clip_grad_norm_ ({TORCH}/nn/utils/clip_grad.py:3)"), id="of-the-trainer"),
        pytest.param((*STEPPING, at(10, "look")), id="a-closure-of-the-users"),
    ],
)
def test_what_an_optimizer_calls_back_is_none_of_its_update(called):
    updates = f"_single_tensor_adam ({TORCH}/optim/adam.py:400)"
    found = facts(*TRAINING[:2], stack(at(7), *STEPPING, updates, count=30), stack(at(7), *called, count=10))
    assert found.in_updates == pytest.approx(3 / 4)
    assert sum(cost.seconds for cost in found.costs if cost.phase is Phase.OPTIMIZER) == pytest.approx(0.010)


def test_a_line_that_an_optimizer_calls_back_has_its_part_of_the_phase():
    steps, calls = stack(at(7), *STEPPING, count=30), stack(at(7), *CLOSURE, at(10, "look"), count=10)
    assert seconds(facts(*TRAINING[:2], steps, calls))[Phase.OPTIMIZER, (7, 10)] == pytest.approx(2.5)


def test_what_is_logged_below_a_wrapper_of_the_module_is_timed_as_its_forward():
    redirected = f"_ForwardRedirection.wrapped_forward ({LIGHTNING}/strategies/strategy.py:634)"
    logs = at(10, "look"), f"LightningModule.log ({LIGHTNING}/core/module.py:531)"
    found = facts(*TRAINING, stack(at(4), wrapper("module_call"), redirected, *logs))
    (cost,) = (one for one in found.costs if one.kind == "logging")
    assert (cost.phase, cost.line.line) == (Phase.FORWARD, 10)
    assert sum(one.seconds for one in found.costs if one.phase is Phase.FORWARD) == pytest.approx(0.040)


def test_backward_in_a_closure_is_backward():
    inner = wrapper("backward"), f"_engine_run_backward ({TORCH}/autograd/graph.py:3)"
    found = facts(TRAINING[0], stack(at(7), *CLOSURE, *inner, count=20), stack(at(7), *STEPPING, count=30))
    assert found.in_updates == 1.0
    assert sum(cost.seconds for cost in found.costs if cost.phase is Phase.BACKWARD) == pytest.approx(0.020)


def test_the_costs_of_each_phase_and_what_was_not_seen_of_it_add_up_to_it():
    found = facts(*TRAINING, stack(at(8), at(10, "look"), count=7), stack(at(3), count=5))
    for phase, whole_s in STEP.seconds.items():
        seen_s = sum(cost.seconds for cost in found.costs if cost.phase is phase)
        assert seen_s + found.unseen_s[phase] == pytest.approx(whole_s)
    assert found.unseen_s[Phase.DATA_WAIT] == pytest.approx(0.020)


def test_gradients_exchanged_inside_backward_are_at_its_line():
    exchanging = step(data_wait=20, forward=40, backward=20, optimizer=10, other=10, grad_sync=60)
    found = facts(*TRAINING, of_step=exchanging)
    assert seconds(found)[Phase.GRAD_SYNC, (5,)] == pytest.approx(60)
    assert seconds(found)[Phase.BACKWARD, (5,)] == pytest.approx(20)
    assert found.samples == 70  # none counts twice


def test_collectives_of_the_scripts_own_have_what_their_samples_stand_for():
    exchanging = step(data_wait=20, forward=40, backward=20, optimizer=10, other=10, grad_sync=60)
    few, many = (stack(at(7), wrapper("grad_sync"), count=count) for count in (1, 60))
    found = seconds(facts(*TRAINING, few, of_step=exchanging))
    assert found[Phase.GRAD_SYNC, (7,)] == pytest.approx(60 / 16)
    assert found[Phase.GRAD_SYNC, (5,)] == pytest.approx(60 * 15 / 16)
    assert seconds(facts(*TRAINING, many, of_step=exchanging))[Phase.GRAD_SYNC, (7,)] == pytest.approx(60)


def test_a_line_below_a_call_is_reached_through_it():
    found = seconds(facts(*TRAINING, stack(at(8), at(10, "look"))))
    assert found[Phase.OTHER, (8, 10)] == pytest.approx(10)
    assert found[Phase.BACKWARD, (5,)] == pytest.approx(20)


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        (3, Phase.FORWARD),  # between forward and backward
        (4, Phase.FORWARD),
        (6, Phase.OPTIMIZER),  # between backward and update
        (8, Phase.OTHER),
    ],
)
def test_what_no_wrapper_is_around_belongs_where_the_timers_put_it(line, phase):
    assert (phase, (line,)) in seconds(facts(*TRAINING, stack(at(line))))


def test_a_loss_on_the_line_of_all_of_it_is_forward():
    together = [
        stack(at(4), wrapper("module_call")),
        stack(at(4), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward")),
    ]
    found = facts(*together, stack(at(4), f"cross_entropy ({TORCH}/nn/functional.py:3)", count=5))
    assert {cost.phase for cost in found.costs if cost.samples == 5} == {Phase.FORWARD}


IN_ONE_LINE = "optimizer.zero_grad(); loss.backward(); optimizer.step()"
CROSS_ENTROPY = f"cross_entropy ({TORCH}/nn/functional.py:3)"
LAYER = wrapper("module_call"), f"Linear.forward ({TORCH}/nn/modules/linear.py:9)"
CLEARS = f"zeroing ({PROBE}:9)", f"Optimizer.zero_grad ({TORCH}/optim/optimizer.py:1060)"
LOGS, ELSEWHERE = at(6, "log"), at(3, "Meter.update", "/home/me/meters.py")


@pytest.mark.parametrize(
    ("line", "below", "phase", "kind"),
    [
        pytest.param(f"{IN_ONE_LINE}; time.sleep(1)", (), Phase.OTHER, "rest", id="in-C"),
        pytest.param(f"{IN_ONE_LINE}; log(loss.item())", (LOGS,), Phase.OTHER, "logging", id="logs"),
        pytest.param(
            f"loss.item(); log(loss); {IN_ONE_LINE}", (LOGS,), Phase.FORWARD, "logging", id="logs-before"
        ),
        pytest.param(
            f"{IN_ONE_LINE}; model = log(model)", (LOGS,), Phase.OTHER, "data", id="named-like-a-log"
        ),
        pytest.param(
            f"{IN_ONE_LINE}; meter.update(loss.item())",
            (ELSEWHERE,),
            Phase.OTHER,
            "rest",
            id="of-another-file",
        ),
        pytest.param(
            "optimizer.zero_grad(); loss.backward(); time.sleep(1); optimizer.step()",
            (),
            Phase.OPTIMIZER,
            "rest",
            id="before-the-update",
        ),
        pytest.param(f"time.sleep(1); {IN_ONE_LINE}", (), Phase.FORWARD, "rest", id="before-backward"),
        pytest.param(IN_ONE_LINE, CLEARS, Phase.FORWARD, "compute", id="clearing"),
        pytest.param(IN_ONE_LINE, (), Phase.OPTIMIZER, "compute", id="nothing-else"),
    ],
)
def test_what_shares_a_line_with_an_update_is_told_apart(line, below, phase, kind):
    found = on_one_line(line, (at(4), *below), before=[stack(at(3), *LAYER)])
    assert found == {(phase, kind)}


@pytest.mark.parametrize(
    ("line", "below", "other", "phase", "kind"),
    [
        pytest.param("; time.sleep(1)", (), 40, Phase.OTHER, "rest", id="the-timers-put-it-after"),
        pytest.param("; time.sleep(1)", (), 1, Phase.FORWARD, "compute", id="the-timers-put-it-before"),
        pytest.param("; time.sleep(1)", (CROSS_ENTROPY,), 40, Phase.FORWARD, "compute", id="a-loss"),
        pytest.param("; log(loss.item())", (LOGS,), 1, Phase.OTHER, "logging", id="logs"),
    ],
)
def test_a_loss_on_the_line_of_the_update_computes_as_the_timers_say(line, below, other, phase, kind):
    whole = f"loss = cross_entropy(model(x), y); {IN_ONE_LINE}{line}"
    of_step = step(forward=100 - other, backward=20, optimizer=10, other=other)
    found = on_one_line(whole, (at(4), *below), before=[stack(at(4), *LAYER)], of_step=of_step)
    assert found == {(phase, kind)}


def on_one_line(line, frames, before, of_step=STEP):
    """Phases and kinds of stacks on a line that runs backward and the update."""
    script = f"for x, y in loader:\n    pass\n    loss = model(x)\n    {line}\ndef log(loss):\n    slow(loss)"
    trains = [
        stack(at(4), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward")),
        stack(at(4), wrapper("optimizer"), f"SGD.step ({TORCH}/optim/sgd.py:7)"),
    ]
    found = facts(*before, *trains, stack(*frames, count=5), of_step=of_step, script=script)
    return {(cost.phase, cost.kind) for cost in found.costs if cost.samples == 5}


def test_calls_of_modules_within_one_that_validates_are_validation():
    of_step = step(forward=40, validation=10)
    inside = wrapper("module_call"), wrapper("validation"), at(10, "look"), wrapper("module_call")
    found = facts(*TRAINING, stack(at(8), *inside), of_step=of_step)
    assert seconds(found)[Phase.VALIDATION, (8, 10)] == pytest.approx(10)
    assert seconds(found)[Phase.FORWARD, (2,)] == pytest.approx(40)


def test_what_lies_between_a_validation_and_a_backward_is_no_forward():
    found = facts(stack(at(4), wrapper("validation")), *TRAINING[1:], stack(at(4), at(10, "look"), count=5))
    assert {cost.phase for cost in found.costs if cost.samples == 5} == {Phase.OTHER}


def test_profiling_of_our_own_is_no_time_of_the_scripts():
    ours = "Windows.open (/opt/tools/perfdoctor/probe/profiler/windows.py:9)"
    assert facts(*TRAINING, stack(at(7), wrapper("optimizer"), ours, count=500)).samples == 70


def test_a_wait_without_workers_is_divided_by_what_the_training_thread_does():
    found = facts(
        *TRAINING,
        stack(at(1), wrapper("data_wait"), FETCH, at(13, "Data.__getitem__"), count=15),
        stack(at(1), wrapper("data_wait"), f"_next_index ({LOADER}:715)", count=5),
    )
    assert seconds(found)[Phase.DATA_WAIT, (1, 13)] == pytest.approx(15)
    assert {cost.wait: cost.samples for cost in found.costs if cost.wait} == {
        WaitPart.DATASET: 15,
        WaitPart.SAMPLER: 5,
    }


def test_a_wait_for_workers_is_divided_by_what_the_workers_do():
    worker = stack(f"_worker_loop ({TORCH}/x.py:1)", FETCH, at(13, "Data.__getitem__"), root="worker 7")
    idle = stack(
        f"_worker_loop ({TORCH}/x.py:1)", f"get ({STANDARD}/multiprocessing/queues.py:1)", root="worker 7"
    )
    found = facts(*TRAINING, stack(at(1), *POLLS, count=30), worker, idle)
    (made,) = [cost for cost in found.costs if cost.phase is Phase.DATA_WAIT]
    assert (made.in_worker, made.wait, made.line.line) == (True, WaitPart.DATASET, 13)
    assert made.seconds == pytest.approx(0.020)


def test_a_wait_for_workers_that_were_not_sampled_is_the_loops():
    (waits,) = [c for c in facts(*TRAINING, stack(at(1), *POLLS)).costs if c.phase is Phase.DATA_WAIT]
    assert (waits.wait, waits.line.line, waits.in_worker) == (WaitPart.WORKERS, 1, False)


def test_start_up_before_the_loop_is_no_part_of_the_step():
    assert facts(*TRAINING, stack(at(10, "main"), count=500)).samples == 70


def test_what_a_trainer_does_in_its_own_loop_belongs_to_the_line_that_calls_it():
    def in_trainer(*frames, count=10):
        return stack(
            at(8),
            f"fit (/venv/lib/python3.11/site-packages/trainers/loop.py:{frames[0]})",
            *frames[1:],
            count=count,
        )

    found = facts(
        in_trainer(20, wrapper("module_call")),
        in_trainer(22, wrapper("backward")),
        in_trainer(24, wrapper("optimizer")),
        in_trainer(30, "call_hooks (/venv/lib/python3.11/site-packages/trainers/hooks.py:3)"),
    )
    assert {(cost.line.line, cost.kind) for cost in found.costs} == {(8, None), (8, TRAINER)}
    assert found.unseen_s[Phase.OTHER] == pytest.approx(0.0)


def test_without_stacks_nothing_is_known():
    assert isinstance(facts(), Missing)
    assert isinstance(facts(stack(at(2), wrapper("module_call"), count=4)), Missing)


ROLLOUT = dedent(
    """\
    for episode in range(9):
        while playing:
            policy = Categorical(model(state))
            state = world.step(policy.sample())
        loss = criterion(returns(rewards), chances)
        loss.backward()
        optimizer.step()
    """
)
PLAYING = (
    stack(at(3), wrapper("module_call"), f"Linear.forward ({TORCH}/nn/modules/linear.py:9)", count=40),
    stack(at(6), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward"), count=20),
    stack(at(7), wrapper("optimizer"), f"SGD.step ({TORCH}/optim/sgd.py:7)", count=10),
)


def test_of_a_rollout_only_the_last_forward_pass_has_its_loss_after_it():
    draws = f"Categorical.sample ({TORCH}/distributions/categorical.py:143)"
    found = facts(*PLAYING, stack(at(4), draws), stack(at(5), at(9, "returns")), script=ROLLOUT)
    assert {cost.line.line: cost.phase for cost in found.costs if cost.kind is not None} == {
        4: Phase.OTHER,
        9: Phase.FORWARD,
    }


ACTING = dedent(
    """\
    def act(state):
        probs = model(state)
        return Categorical(probs).sample()
    def learn():
        loss = criterion(chances)
        loss.backward()
        optimizer.step()
    for episode in range(9):
        while playing:
            state = world.step(act(state))
        learn()
    """
)


def test_a_rollout_may_play_in_a_function_and_learn_in_another():
    acts, learns = at(10), at(11)
    playing = (
        stack(acts, at(2, "act"), wrapper("module_call"), f"forward ({TORCH}/nn/modules/linear.py:9)"),
        stack(learns, at(6, "learn"), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward")),
        stack(learns, at(7, "learn"), wrapper("optimizer"), f"SGD.step ({TORCH}/optim/sgd.py:7)"),
    )
    draws = f"Categorical.sample ({TORCH}/distributions/categorical.py:143)"
    after = stack(acts, at(3, "act"), draws), stack(learns, at(5, "learn"))
    found = facts(*playing, *after, script=ACTING)
    assert {cost.line.line: cost.phase for cost in found.costs if cost.kind is not None} == {
        3: Phase.OTHER,
        5: Phase.FORWARD,
    }
