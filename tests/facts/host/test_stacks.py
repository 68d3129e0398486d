from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.host.stacks import sampled_lines
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.interval import Interval
from perfdoctor.model.measured import Phase
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import step
from tests.support.records import no_source, source_of

TRAIN = "/home/me/train.py"
PROBE = "/opt/tools/perfdoctor/probe/steps.py"
TORCH = "/home/me/.venv/lib/python3.11/site-packages/torch"
SCRIPT = dedent(
    """\
    data = load()
    for step in range(1000):
        x, y = get_batch(step)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        ema.update(model)
        print(step, loss.item())
        writer.add(step, accuracy(x))
        torch.save(model.state_dict(), "last.pt")
    def get_batch(i):
        rows = [table[j] for j in range(32)]
        return torch.tensor(rows), labels[i]
    def log_all(values):
        total = sum(values)
    """
)


def at(line, function="<module>", file=TRAIN):
    return f"{function} ({file}:{line})"


def wrapper(phase):
    return f"{phase} ({PROBE}:100)"


def stack(*frames, count=10, root="main"):
    return (root, *frames), count


TRAINING = (
    stack(at(4), wrapper("module_call"), f"forward ({TORCH}/nn/modules/linear.py:9)"),
    stack(
        at(5), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward"), f"run ({TORCH}/autograd/graph.py:8)"
    ),
    stack(at(6), wrapper("optimizer"), f"step ({TORCH}/optim/sgd.py:7)"),
)
STEP = step(other=50, forward=10, backward=30, optimizer=10)


def facts(*stacks, source=None, events=(), of_step=STEP):
    records = RankRecords(0, None, None, tuple(events), tuple(stacks), "py-spy")
    return sampled_lines(records, of_step, Sources(source or source_of(train=SCRIPT)))


def other(*stacks, **given):
    return {
        (line.at.line, line.kind): line
        for line in facts(*TRAINING, *stacks, **given).phases.get(Phase.OTHER, ())
    }


def test_a_line_below_a_wrapper_belongs_to_its_phase():
    found = facts(*TRAINING)
    assert {phase: [line.at.line for line in lines] for phase, lines in found.phases.items()} == {
        Phase.FORWARD: [4],
        Phase.BACKWARD: [5],
        Phase.OPTIMIZER: [6],
    }


def test_shares_are_of_wall_time_and_add_up_to_the_phase():
    found = other(stack(at(3), at(12, "get_batch"), count=30), stack(at(8), count=10))
    assert found[12, "data"].share == pytest.approx(0.375)
    assert found[8, "logging"].share == pytest.approx(0.125)


def test_what_the_timers_charge_to_the_forward_pass_is_told_by_its_samples():
    sampled = other(stack(at(8), count=300), of_step=step(other=5, forward=80, backward=10, optimizer=5))
    assert sampled[8, "logging"].share == pytest.approx(300 / 330)
    few = other(stack(at(8), count=3), of_step=step(other=5, forward=80, backward=10, optimizer=5))
    assert few[8, "logging"].share == pytest.approx(0.05)


def test_a_log_inside_a_closure_of_an_optimizer_is_no_part_of_the_update():
    optimizer, adam = f"wrapper ({TORCH}/optim/optimizer.py:530)", f"Adam.step ({TORCH}/optim/adam.py:227)"
    assert (8, "logging") in other(stack(at(6), optimizer, adam, at(8)))
    found = facts(*TRAINING, stack(at(6), optimizer, at(8, "MyAdam.step")))
    assert Phase.OTHER not in found.phases


LIGHTNING = "/venv/lib/python3.11/site-packages/lightning/pytorch"
LOGS = (
    f"LightningModule.log ({LIGHTNING}/core/module.py:531)",
    f"_fn ({TORCH}/_dynamo/eval_frame.py:1446)",
    f"_ResultCollection.log ({LIGHTNING}/trainer/connectors/logger_connector/result.py:412)",
)
IN_CLOSURE = (
    f"wrapper ({TORCH}/optim/optimizer.py:530)",
    f"Adam.step ({TORCH}/optim/adam.py:227)",
    f"Precision._wrap_closure ({LIGHTNING}/plugins/precision/precision.py:110)",
)


@pytest.mark.parametrize("below", [LOGS, LOGS[:1], LOGS[2:]])
def test_what_lightning_gathers_is_logging_and_not_computing_in_a_callback_too(below):
    found = other(stack(at(6), *IN_CLOSURE, at(16, "on_before_optimizer_step"), *below))
    (line,) = found.values()
    assert (line.kind, line.interval.of_lightning) == ("logging", True)


PERCENTILE = "percentile (/venv/lib/python3.11/site-packages/numpy/lib/_function_base_impl.py:4246)"


@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        pytest.param(f"_call_callback_hooks ({LIGHTNING}/trainer/call.py:228)", None, id="a-callback"),
        pytest.param(
            f"_call_lightning_module_hook ({LIGHTNING}/trainer/call.py:177)", "compute", id="a-hook"
        ),
    ],
)
def test_what_a_trainers_callback_calculates_is_no_part_of_the_update(calls, kind):
    found = other(stack(at(6), *IN_CLOSURE, calls, at(16, "on_after_backward"), PERCENTILE))
    assert list(found) == [(16, kind)]


def test_a_callback_that_computes_with_torch_computes():
    called = f"CallbackHandler.call_event ({LIGHTNING.replace('lightning/pytorch', 'transformers')}/trainer_callback.py:543)"
    average = f"lerp_ ({TORCH}/_foreach.py:9)"
    assert list(other(stack(at(6), *IN_CLOSURE, called, at(16, "on_step_end"), average))) == [(16, "compute")]


MODULE = f"Module._call_impl ({TORCH}/nn/modules/module.py:1800)"
REDIRECTED = (
    at(4),
    f"_ForwardRedirection.__call__ ({LIGHTNING}/strategies/strategy.py:641)",
    wrapper("module_call"),
    MODULE,
    f"DistributedDataParallel.forward ({TORCH}/nn/parallel/distributed.py:1700)",
    MODULE,
    f"_ForwardRedirection.wrapped_forward ({LIGHTNING}/strategies/strategy.py:634)",
)


def test_what_logs_in_a_hook_below_a_wrapper_of_the_module_is_logging_as_it_is_without_one():
    found = facts(*TRAINING, stack(*REDIRECTED, at(16, "training_step"), *LOGS, count=50))
    (line,) = found.phases[Phase.OTHER]
    assert (line.at.line, line.kind, line.interval.of_lightning) == (16, "logging", True)
    assert line.share == pytest.approx(0.625)  # as sampled: the timers charge it to the forward pass


@pytest.mark.parametrize(
    "below",
    [
        pytest.param((at(16, "training_step"), MODULE, at(12, "forward")), id="a-module-in-the-hook"),
        pytest.param((at(16, "training_step"), MODULE, at(12, "forward"), *LOGS), id="a-log-of-a-module"),
        pytest.param((at(16, "training_step"), f"cross_entropy ({TORCH}/nn/functional.py:3)"), id="the-loss"),
    ],
)
def test_the_rest_below_a_wrapper_is_forward(below):
    found = facts(*TRAINING, stack(*REDIRECTED, *below))
    assert Phase.OTHER not in found.phases
    assert below[0] == at(16, "training_step")


@pytest.mark.parametrize(("name", "kind"), [("optimizer_step", None), ("log_hyperparams", None)])
def test_other_functions_of_lightnings_module_do_not_log(name, kind):
    (line,) = other(
        stack(at(8), f"LightningModule.{name} ({LIGHTNING}/core/module.py:9)"), source=PLAIN
    ).values()
    assert line.kind == kind


PLAIN = source_of(train=SCRIPT.replace("print(step, loss.item())", "tell(step)"))


def test_a_function_that_compiling_passes_over_computes_nothing_by_that():
    passed = f"_fn ({TORCH}/_dynamo/eval_frame.py:1446)"
    (line,) = other(stack(at(8), passed), source=PLAIN).values()
    assert line.kind is None


def test_timers_tell_how_long_an_optimizer_calls_back_where_samples_of_it_are_few():
    timed = step(other=2, forward=20, backward=20, optimizer=58)
    called = stack(at(6), *IN_CLOSURE, at(16, "on_before_optimizer_step"), *LOGS, count=10)
    update = stack(at(6), wrapper("optimizer"), f"step ({TORCH}/optim/sgd.py:7)", count=10)
    many = stack(at(4), wrapper("module_call"), f"forward ({TORCH}/nn/modules/linear.py:9)", count=60)
    found = facts(*TRAINING[:2], update, called, many, of_step=timed)
    assert sum(line.share for line in found.phases[Phase.OTHER]) == pytest.approx(0.29)
    assert sum(line.share for line in found.phases[Phase.OPTIMIZER]) == pytest.approx(0.29)


def test_a_helper_that_builds_the_batch_is_named_by_its_own_line():
    line = other(stack(at(3), at(12, "get_batch")))[12, "data"]
    assert (line.at.file, line.at.function, line.at.text) == (
        TRAIN,
        "get_batch",
        "rows = [table[j] for j in range(32)]",
    )


def test_the_line_that_takes_a_batch_gives_the_one_before_it_back_and_makes_none():
    script = "data = load()\nmodel = make()\nfor x, y in loader:\n    {}\n    loss.backward()\n    optimizer.step()"
    source = source_of(train=script.format("loss = criterion(model(x), y)"))
    takes, bare = stack(at(3), wrapper("data_wait"), count=5), stack(at(3))
    assert set(other(takes, bare, source=source)) == {(3, "freed")}
    assert set(other(bare, source=source)) == {(3, "data")}  # whatever it goes through


def test_a_print_is_logging_though_it_has_no_frame():
    assert (8, "logging") in other(stack(at(8)))


@pytest.mark.parametrize(
    "library",
    [
        "tqdm/std.py",
        "torch/utils/tensorboard/writer.py",
        "wandb/sdk/wandb_run.py",
        "rich/progress.py",
        "mlflow/tracking/fluent.py",
    ],
)
def test_a_logging_library_below_the_line_is_logging(library):
    found = other(stack(at(9), f"add (/home/me/.venv/lib/python3.11/site-packages/{library}:5)"))
    assert found[9, "logging"].leaf == "add"


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        ("raw_decode (/usr/lib/python3.11/json/decoder.py:353)", "data"),
        ("loads (/usr/lib/python3.11/json/__init__.py:299)", "data"),
        ("DictReader.__next__ (/usr/lib/python3.11/csv.py:110)", "data"),
        ("_dict_to_list (/usr/lib/python3.11/csv.py:147)", "logging"),
        ("dumps (/usr/lib/python3.11/json/__init__.py:183)", "logging"),
        ("_iterencode_dict (/usr/lib/python3.11/json/encoder.py:353)", "logging"),
    ],
)
def test_what_reads_json_or_csv_is_no_logging_and_what_writes_it_is(frame, kind):
    assert set(other(stack(at(3), at(12, "get_batch"), frame))) == {(12, kind)}


@pytest.mark.parametrize(
    "name",
    ["log_prob", "log_probs", "compute_log_likelihood", "log_softmax", "log_mel", "log_abs_det_jacobian"],
)
def test_a_function_that_takes_a_logarithm_does_not_log(name):
    found = other(stack(at(9), at(3, f"Flow.{name}", "/home/me/flow.py")))
    assert set(found) == {(3, None)}


@pytest.mark.parametrize("name", ["log_step", "log_loss_to_file", "print_log", "catalog_log"])
def test_a_function_that_writes_a_log_does(name):
    assert set(other(stack(at(9), at(3, name, "/home/me/notes.py")))) == {(9, "logging")}


def test_a_name_that_logs_does_not_make_logging_of_what_an_update_depends_on():
    script = SCRIPT.replace("ema.update(model)", "scale = progress(model)").replace(
        "criterion(model(x), y)", "scale * criterion(model(x), y)"
    )
    found = other(stack(at(7), at(3, "progress", "/home/me/curriculum.py")), source=source_of(train=script))
    assert set(found) == {(3, "data")}


def test_what_is_drawn_by_the_errors_of_the_last_update_is_drawn_for_the_next_batch():
    script = """\
import torch
for step in range(900):
    rows, x, weights = memory.sample(64)
    gap = model(x) - target(x)
    loss = (weights * gap.pow(2)).mean()
    loss.backward()
    optimizer.step()
    memory.update(rows, gap.detach())
"""
    found = other(stack(at(3), at(15, "sample", "/home/me/replay.py")), source=source_of(train=script))
    assert {kind for _, kind in found} == {"drawn"}


PROJECTING = """\
def main():
    for step in range(900):
        x, reward = memory.sample(64)
        loss = learn(x, reward)
        print(loss)
def learn(x, reward):
    goal = project(x, reward)
    loss = -(goal * model(x)).sum()
    loss.backward()
    optimizer.step()
    hits = counted(goal)
    return loss.item()
def project(x, reward):
    chances = target(x).exp().numpy()
    out = np.zeros_like(chances)
    for i in range(len(chances)):
        for at in range(51):
            out[i, at] += chances[i, at] * reward[i]
    entropy = -(chances * np.log(chances)).sum()
    return torch.from_numpy(out)
main()
"""


@pytest.mark.parametrize(
    ("needed", "kind"),
    [("goal = project(x, reward)", "compute"), ("_ = project(x, reward)", None)],
)
def test_what_a_function_calculates_of_results_is_computed_where_training_needs_what_it_returns(needed, kind):
    script = PROJECTING.replace("goal = project(x, reward)", needed)
    learns = at(21), at(4, "main")
    linear = f"forward ({TORCH}/nn/modules/linear.py:9)"
    found = facts(
        stack(*learns, at(7, "learn"), at(14, "project"), wrapper("module_call"), linear),
        stack(*learns, at(8, "learn"), wrapper("module_call"), linear),
        stack(*learns, at(9, "learn"), wrapper("backward"), f"run ({TORCH}/autograd/graph.py:8)"),
        stack(*learns, at(10, "learn"), wrapper("optimizer"), f"step ({TORCH}/optim/sgd.py:7)"),
        stack(*learns, at(7, "learn"), at(18, "project")),
        stack(*learns, at(7, "learn"), at(19, "project")),
        source=source_of(train=script),
    )
    assert {line.at.line: line.kind for line in found.phases[Phase.OTHER]} == {18: kind, 19: None}


MARCHING = """
from marching import march
for step in range(500):
    start = draw(step)
    loss = (march(model, start, 0.1) - goals).square().mean()
    loss.backward()
"""
MARCH = """
def march(rate, y, width):
    for part in range(12):
        ahead = lifted(y)
        slope = rate(part * width, ahead)
        y = y + width * slope
    return y
def lifted(y):
    return [convert(row) for row in y]
"""


@pytest.mark.parametrize("seen", ["root", None])
def test_what_a_solver_computes_between_two_calls_of_the_model_is_no_batch(seen):
    calls, solves = at(5), at(5, "march", "/home/me/marching.py")
    converts = at(9, "lifted", "/home/me/marching.py")
    linear = f"forward ({TORCH}/nn/modules/linear.py:9)"
    event = {"event": seen, "at": {"file": "/home/me/marching.py", "line": 5, "function": "march"}}
    found = facts(
        stack(calls, solves, wrapper("module_call"), linear, count=30),
        stack(at(6), wrapper("backward"), f"run ({TORCH}/autograd/graph.py:8)"),
        stack(calls, at(4, "march", "/home/me/marching.py"), converts),
        stack(at(4)),
        source=source_of(train=MARCHING, marching=MARCH),
        events=[event] if seen else (),
    )
    assert {(line.at.line, line.kind) for line in found.phases[Phase.OTHER]} == {(9, "compute"), (4, "data")}


def test_a_function_that_logs_is_named_by_the_line_that_calls_it():
    assert (9, "logging") in other(stack(at(9), at(15, "log_all")))


def test_a_method_called_by_a_name_that_logs_is_logging_down_to_its_last_line():
    script = SCRIPT.replace("writer.add(", "log.write(")
    found = other(stack(at(9), at(3, "RunLog.write", "/home/me/runlog.py")), source=source_of(train=script))
    assert set(found) == {(9, "logging")}


@pytest.mark.parametrize(
    ("mode", "body", "kind"),
    [("w", "f.write(row)", "logging"), ("wb", "pickle.dump(row, f)", "checkpoint"), ("rb", "print(f)", None)],
)
def test_what_opens_and_closes_a_file_belongs_to_what_is_written_to_it(mode, body, kind):
    script = SCRIPT.replace(
        "    print(step, loss.item())", f"    with open(path, '{mode}') as f:\n        {body}"
    )
    assert set(other(stack(at(8)), source=source_of(train=script))) == {(8, kind)}


def test_what_is_computed_to_be_printed_is_not_logging():
    script = SCRIPT.replace("print(step, loss.item())", "print(step, evaluate(model))")
    found = other(stack(at(8), at(3, "evaluate", "/home/me/evaluate.py")), source=source_of(train=script))
    assert set(found) == {(3, None)}


HOOKED = """\
import logging
from hooks import hooks
for step in range(1000):
    loss = model(x)
    loss.backward()
    optimizer.step()
    for hook in hooks:
        hook.after_step(step, x)
"""
HOOKS = """\
import logging
log = logging.getLogger("project")
class Log:
    def after_step(self, step, x):
        log.debug(f"{step} {table(x)}")
        log.debug(f"{step} {self.engine.learn(x)}")
def table(x):
    return " ".join(text(row) for row in x.tolist())
def text(row):
    return f"{row}"
"""


def hooked(*frames):
    """What is found at these frames of hooks.py below the loop."""
    trains = (
        stack(at(4), wrapper("module_call"), f"forward ({TORCH}/nn/modules/linear.py:9)"),
        stack(at(5), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward")),
        stack(at(6), wrapper("optimizer"), f"step ({TORCH}/optim/sgd.py:7)"),
    )
    source = source_of(train=HOOKED, hooks=HOOKS)
    below = (frame.replace(TRAIN, "/home/me/hooks.py") for frame in frames)
    found = facts(*trains, stack(at(8), *below), source=source).phases[Phase.OTHER]
    return next(line for line in found if line.samples == 10)


def test_what_is_computed_for_a_log_in_a_hook_is_logging_and_named_by_the_call_to_the_logger():
    table = at(5, "after_step"), at(8, "table"), at(8, "<genexpr>"), at(10, "text")
    for depth in range(1, len(table) + 1):
        found = hooked(*table[:depth])
        assert (found.at.file, found.at.line, found.kind) == ("/home/me/hooks.py", 5, "logging")
        assert found.only_reported
        assert found.asks == "log.isEnabledFor(logging.DEBUG)"
        assert (found.inner.line if found.inner else None) == (None, 8, 8, 10)[depth - 1]


def test_a_call_in_a_log_that_may_do_more_is_no_logging():
    found = hooked(at(6, "after_step"), at(3, "Engine.learn"))
    assert (found.at.line, found.kind) == (3, None)


def test_a_step_that_is_made_within_a_log_is_no_logging():
    script = PROJECTING.replace("loss = learn(x, reward)", "log.info('%f', learn(x, reward))")
    learns = at(21), at(4, "main")
    found = facts(
        stack(*learns, at(8, "learn"), wrapper("module_call"), f"forward ({TORCH}/nn/modules/linear.py:9)"),
        stack(*learns, at(9, "learn"), wrapper("backward"), f"run ({TORCH}/autograd/graph.py:8)"),
        stack(*learns, at(10, "learn"), wrapper("optimizer"), f"step ({TORCH}/optim/sgd.py:7)"),
        stack(*learns, at(7, "learn"), at(19, "project")),
        stack(*learns, at(11, "learn"), at(3, "counted", "/home/me/counts.py")),
        source=source_of(train=script),
    )
    assert {line.at.line: line.kind for line in found.phases[Phase.OTHER]} == {19: "data", 3: None}


def test_a_logger_that_is_at_work_itself_writes_what_it_is_handed():
    emit = "Logger.debug (/usr/lib/python3.11/logging/__init__.py:1477)"
    assert hooked(at(5, "after_step"), emit).asks is None


def test_a_loop_that_is_a_comprehension():
    script = (
        "losses = [train(x) for x in batches()]\ndef train(x):\n    x = augment(x)\n    model(x).backward()"
    )
    trains = stack(
        at(1), at(1, "<listcomp>"), at(4, "train"), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward")
    )
    found = facts(trains, stack(at(1), at(1, "<listcomp>"), at(3, "train")), source=source_of(train=script))
    assert [(line.at.line, line.kind) for line in found.phases[Phase.OTHER]] == [(3, "data")]


def test_saving_is_told_by_its_frames():
    assert (10, "checkpoint") in other(stack(at(10), f"_save ({TORCH}/serialization.py:1)"))


def test_tensor_work_around_the_step_is_compute():
    found = other(stack(at(4), f"cross_entropy ({TORCH}/nn/functional.py:3)"), stack(at(5)))
    assert set(found) == {(4, "compute"), (5, "compute")}


def test_metrics_are_the_hosts():
    assert (1, None) in other(stack(at(9), at(1, "accuracy", "/home/me/metrics.py")))


def test_an_argument_made_within_the_call_is_data():
    script = SCRIPT.replace("model(x)", "model(make(x))")
    found = other(stack(at(4), at(12, "make")), source=source_of(train=script))
    assert set(found) == {(12, "data")}


def test_a_generator_that_is_resumed_within_the_call_makes_data():
    script = SCRIPT.replace("criterion(model(x), y)", "update(model, *next(batches))")
    below = stack(at(4), at(12, "chunks"), count=20), stack(at(4), at(30, "update"), count=20)
    found = other(*below, source=source_of(train=script))
    assert (12, "data") in found
    assert (30, "data") not in found


def test_a_line_that_calls_a_module_prepares_no_batch_unless_that_is_a_transform():
    called = f"_call_impl ({TORCH}/nn/modules/module.py:9)"
    assert set(other(stack(at(3), at(12, "get_batch"), called))) == {(12, "compute")}
    transform = f"forward ({TORCH.replace('torch', 'torchvision')}/transforms/v2/_transform.py:9)"
    assert set(other(stack(at(3), at(12, "get_batch"), called, transform))) == {(12, "data")}


def test_an_argument_converted_within_the_call_is_data_though_it_has_no_frame():
    script = SCRIPT.replace("model(x)", "model(torch.tensor(x))")
    assert set(other(stack(at(4)), source=source_of(train=script))) == {(4, "data")}
    assert set(other(stack(at(5)), source=source_of(train=script))) == {(5, "compute")}


def test_a_function_of_the_models_result_is_compute():
    script = SCRIPT.replace("criterion(model(x), y)", "own_loss(model(x), y)")
    found = other(stack(at(4), at(12, "own_loss")), source=source_of(train=script))
    assert set(found) == {(12, "compute")}


def test_a_few_stacks_torn_between_two_lines_make_no_training_of_the_longer_one():
    short = [stack(*frames, count=1) for frames, _ in TRAINING]
    torn = stack(at(7), wrapper("optimizer"), f"step ({TORCH}/optim/sgd.py:7)", count=2)
    copies = stack(at(7), "deepcopy (/usr/lib/python3.11/copy.py:9)", count=200)
    found = facts(*short, torn, copies).phases[Phase.OTHER]
    assert [(line.at.line, line.kind) for line in found] == [(7, None)]


def test_the_one_line_that_training_passes_through_leads_to_it_however_long_it_does_else():
    script = SCRIPT.replace("        loss.backward()", "        train(model)").replace(
        "def log_all(values):",
        "def train(model):\n    connect()\n    loss(model).backward()\ndef log_all(values):",
    )
    once = stack(at(5), at(16, "train"), wrapper("backward"), f"run ({TORCH}/autograd/graph.py:8)", count=1)
    waits = stack(at(5), at(15, "train"), count=200)
    found = facts(once, waits, source=source_of(train=script)).phases[Phase.OTHER]
    assert [(line.at.line, line.kind) for line in found] == [(15, None)]


def test_start_up_outside_the_loop_is_left_out():
    assert other(stack(at(1), at(99, "load", "/home/me/data.py"), count=1000)) == {}


THEN_TESTED = dedent(
    """\
    def train(model):
        for x in loader:
            model(x).backward()
            optimizer.step()
    def test(model):
        for x in held_out:
            y = model(x)
            print(y)
    train(model)
    test(model)
    for epoch in range(9):
        train(model)
        test(model)
    """
)


def trained_at(line):
    inside = f"run ({TORCH}/autograd/graph.py:8)"
    update = stack(at(line), at(4, "train"), wrapper("optimizer"), f"step ({TORCH}/optim/sgd.py:7)")
    return (
        stack(at(line), at(3, "train"), wrapper("module_call"), f"forward ({TORCH}/nn/modules/linear.py:9)"),
        stack(at(line), at(3, "train"), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward"), inside),
        update,
    )


def validated_at(line):
    passes = stack(
        at(line), at(7, "test"), wrapper("validation"), f"forward ({TORCH}/nn/modules/linear.py:9)"
    )
    return passes, stack(at(line), at(8, "test"), count=30)


@pytest.mark.parametrize(("train", "test", "counts"), [(9, 10, False), (12, 13, True)])
def test_a_test_after_the_last_step_is_no_part_of_a_step(train, test, counts):
    found = facts(*trained_at(train), *validated_at(test), source=source_of(train=THEN_TESTED))
    lines = {line.at.line for line in found.phases.get(Phase.OTHER, ())}
    assert lines == ({8} if counts else set())


def test_frames_of_libraries_are_not_the_users():
    found = other(stack(at(3), at(12, "get_batch"), "roll (/usr/lib/python3.11/random.py:5)"))
    assert found[12, "data"].leaf == "roll"


def test_a_package_installed_in_place_is_the_users():
    found = other(stack(at(3), at(44, "get_batch", "/home/me/src/mylib/batches.py")))
    assert {(line.at.file, line.kind) for line in found.values()} == {
        ("/home/me/src/mylib/batches.py", "data")
    }


def test_events_name_the_model_call_where_no_sample_hit_it():
    event = {"event": "root", "at": {"file": TRAIN, "line": 4, "function": "<module>"}}
    found = facts(TRAINING[1], stack(at(3)), events=[event])
    assert found.phases[Phase.OTHER][0].kind == "data"


def test_a_step_in_a_function_is_known_where_no_sample_met_training():
    in_a_function = """\
        def one(batch):
            loss = model(batch)
            loss.backward()
            note(loss)
        for step in range(1000):
            one(step)
        finish()
        """
    event = {"event": "root", "at": {"file": TRAIN, "line": 2, "function": "one"}}
    slow, after = stack(at(6), at(4, "one")), stack(at(7), count=2)
    found = facts(slow, after, source=source_of(train=dedent(in_a_function)), events=[event])
    assert [line.at.line for line in found.phases[Phase.OTHER]] == [4]
    assert found.phases[Phase.OTHER][0].samples == 10


def test_without_the_source_lines_are_counted_and_not_named():
    found = other(stack(at(3), at(12, "get_batch")), source=no_source)
    assert set(found) == {(12, None)}


def test_a_line_that_waits_for_what_threads_make_is_a_queue():
    queue = "Queue.get (/usr/lib/python3.11/queue.py:171)"
    wait = "Condition.wait (/usr/lib/python3.11/threading.py:320)"
    assert (12, "queue") in other(stack(at(3), at(12, "get_batch"), queue, wait))


def test_a_line_that_waits_inside_a_library_that_reads_with_threads_reads():
    read = "read_csv (/opt/site-packages/pandas/io/parsers/readers.py:812)"
    wait = "Condition.wait (/usr/lib/python3.11/threading.py:320)"
    assert (12, "data") in other(stack(at(3), at(12, "get_batch"), read, wait))


def test_the_probe_is_at_work_in_frames_of_its_own_not_in_what_it_lets_through():
    look = "Looking.__torch_function__ (/opt/tools/perfdoctor/probe/looks/mode.py:34)"
    let_through = stack(at(4), wrapper("module_call"), look, count=50)
    at_work = stack(at(4), wrapper("module_call"), look, f"StepCalls.before ({PROBE}:10)", count=3)
    assert facts(*TRAINING, let_through, at_work).own_samples == 3


def test_too_few_samples_are_a_reason():
    assert facts(stack(at(3), count=4)) == Missing("only 4 stack samples of the training thread were taken")
    assert facts() == Missing("no stack samples were taken")


def test_lines_that_cannot_be_read_are_passed_over():
    found = facts(*TRAINING, (("main", "garbage", at(3)), 10), (("thread x", at(3)), 10))
    assert found.samples == 40


def test_a_loop_in_a_library_that_logs_is_named_by_the_users_line_that_started_it():
    site = "/venv/lib/python3.11/site-packages"
    trainer = f"{site}/transformers/trainer.py"
    below = (f"_inner ({trainer}:9)", f"on_step_end ({trainer}:5)", f"update ({site}/tqdm/std.py:7)")
    root = {"event": "root", "at": {"file": trainer, "line": 8, "function": "_inner"}}
    trained = stack(at(9), f"_inner ({trainer}:8)", wrapper("module_call"))
    found = facts(trained, stack(at(9), *below), events=(root,))
    assert [line.at.line for line in found.phases[Phase.OTHER]] == [9]


def test_what_a_buffer_of_samples_keeps_is_neither_logged_nor_saved():
    script = SCRIPT.replace("print(step, loss.item())", "replay.write(x)")
    script = script.replace("writer.add(step, accuracy(x))", "replay.save_state(y)")
    script = script.replace("x, y = get_batch(step)", "x, y = replay.sample(32)")
    source = source_of(train=script.replace("data = load()", "replay = Replay()"))
    assert {kind for _, kind in other(stack(at(8)), stack(at(9)), source=source)} == {None}


@pytest.mark.parametrize(
    ("call", "frame", "reads"),
    [
        ("print(f'{acc:.3f}')", f"Tensor.__format__ ({TORCH}/_tensor.py:1129)", True),
        ("print(acc)", f"_str_intern ({TORCH}/_tensor_str.py:500)", True),
        (
            "writer.add_scalar('a', acc)",
            f"_prepare_pytorch ({TORCH}/utils/tensorboard/_convert_np.py:22)",
            True,
        ),
        ("writer.add_scalar('a', acc)", f"flush ({TORCH}/utils/tensorboard/writer.py:22)", False),
        (
            "wandb.log({'loss': loss})",
            "json_friendly (/venv/lib/python3.11/site-packages/wandb/util.py:5)",
            True,
        ),
        (
            "wandb.log({'loss': 2})",
            "json_friendly (/venv/lib/python3.11/site-packages/wandb/util.py:5)",
            False,
        ),
    ],
)
def test_a_line_that_logs_tells_whether_it_is_handed_a_tensor(call, frame, reads):
    source = source_of(train=SCRIPT.replace("print(step, loss.item())", call))
    assert other(stack(at(8), frame), source=source)[8, "logging"].reads_tensor is reads


def test_a_line_that_logs_tells_its_interval():
    logs = (stack(at(8), f"write ({TORCH}/utils/tensorboard/writer.py:4)"),)
    assert other(*logs)[8, "logging"].interval == Interval("step")
    rarely = SCRIPT.replace("print(step, loss.item())", "if step % 20 == 0: print(step)")
    found = other(*logs, source=source_of(train=rarely))[8, "logging"].interval
    assert found == Interval("step", counted="step", period="20")


def test_a_function_that_logs_tells_the_interval_it_has_inside():
    script = SCRIPT.replace("print(step, loss.item())", "log_all(step)").replace(
        "    total = sum(values)\n", "    if values % 20 == 0:\n        print(values)\n"
    )
    logs = (stack(at(8), at(16, "log_all")),)
    found = other(*logs, source=source_of(train=script))[8, "logging"].interval
    assert found == Interval("step", counted="values", period="20", is_in_caller=True)


PREFETCH = "BackgroundGenerator"
GET = "wait (/usr/lib/python3.11/threading.py:327)"
ON_ONE_LINE = dedent(
    """\
    for epoch in range(9):
        for x, y in loader: train(x, y)
    def train(x, y):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    def augment(batch):
        return blurred(batch)
    """
)


@pytest.mark.parametrize(
    ("below", "found"),
    [
        pytest.param(
            (f"{PREFETCH}.__next__ (/venv/lib/python3.11/site-packages/prefetch.py:9)", GET),
            (2, "queue"),
            id="thread",
        ),
        pytest.param(
            (at(30, "Augmenting.__iter__", "/home/me/loaders.py"), at(8, "augment")),
            (8, "data"),
            id="generator",
        ),
    ],
)
def test_what_a_loop_on_one_line_takes_its_batches_from_is_data(below, found):
    """A DataLoader's own `__iter__` runs on the line that trains."""
    loop = at(2)
    training = (
        stack(loop, at(4, "train"), wrapper("module_call"), f"forward ({TORCH}/nn/modules/linear.py:9)"),
        stack(loop, at(5, "train"), wrapper("backward"), f"run ({TORCH}/autograd/graph.py:8)"),
        stack(loop, at(6, "train"), wrapper("optimizer"), f"step ({TORCH}/optim/sgd.py:7)"),
    )
    lines = facts(*training, stack(loop, *below, count=30), source=source_of(train=ON_ONE_LINE))
    assert [(line.at.line, line.kind) for line in lines.phases[Phase.OTHER]] == [found]
