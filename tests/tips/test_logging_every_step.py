from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.interval import Interval
from perfdoctor.tips.logging_every_step import logging_every_step as tip
from tests.support import facts
from tests.support.facts import line, run, stacks, step

SLOW = step(other=5, forward=2, backward=3)


def test_names_the_share_and_the_line():
    advice = tip(run(), SLOW, stacks(line(0.3, 50, "logging", text="print(loss)"), line(0.1, 51, "logging")))
    assert advice is not None
    assert advice.because == (
        "40% of each step (4.00 ms) goes into logging",
        "line 50 takes the most, 30% of the step: `print(loss)`",
    )
    assert advice.at[0].line == 50
    assert facts.gain(advice).likely == pytest.approx(1 / (1 - 0.4 * 0.98))
    assert facts.gain(advice).high == pytest.approx(1 / 0.6)


def test_no_more_than_logging_takes_is_likely_to_go_but_for_what_chance_hid_of_it():
    few = tip(run(), SLOW, stacks(line(0.04, kind="logging", samples=16)))
    assert few.takes == pytest.approx(0.06)
    assert tip(run(), SLOW, stacks(line(0.04, kind="logging", samples=400))).takes == pytest.approx(0.044)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((line(0.0299, kind="logging"),), id="just-under-the-threshold"),
        pytest.param((line(0.3, kind="logging", samples=4),), id="too-few-samples"),
        pytest.param((line(0.5, kind="data"), line(0.2)), id="other-work"),
    ],
)
def test_is_silent(lines):
    assert tip(run(), SLOW, stacks(*lines)) is None


def test_fires_just_above_the_threshold():
    assert tip(run(), SLOW, stacks(line(0.0301, kind="logging"))) is not None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("print(loss)", "if step % 50 == 0:\n    print(loss)"),
        ("for x, y in tqdm(loader):", "tqdm(..., mininterval=1)  # redraw once a second"),
        ("pbar.update(1)", "tqdm(..., mininterval=1)  # redraw once a second"),
        ("trainer.fit(model, data)", "Trainer(log_every_n_steps=50)  # and enable_progress_bar=False"),
        ("Trainer(model, args).train()", "TrainingArguments(logging_steps=50)"),
    ],
)
def test_the_cure_is_written_for_the_line(text, code):
    advice = tip(run(), SLOW, stacks(line(0.3, kind="logging", text=text)))
    assert advice is not None
    assert advice.code == code


@pytest.mark.parametrize(
    ("text", "function", "code"),
    [
        (
            'self.log("loss", loss)',
            "Net.training_step",
            'if (self.global_step + 1) % self.trainer.log_every_n_steps == 0:\n    self.log("loss", loss)',
        ),
        (
            'self.log("loss", loss)',
            "Net.on_train_batch_end",
            'if self.global_step % self.trainer.log_every_n_steps == 0:\n    self.log("loss", loss)',
        ),
        (
            'self.log("loss", loss)',
            "Net._common_step",  # validation and tests may call it, too
            (
                "if not self.trainer.training or (self.global_step + 1) % self.trainer.log_every_n_steps == 0:\n"
                '    self.log("loss", loss)'
            ),
        ),
        (
            'module.log("loss", loss)',
            "Meter.measure",
            (
                "if module.trainer.training and (module.global_step + 1) % module.trainer.log_every_n_steps:\n"
                "    return  # first in measure: no logger writes this step\n"
                "module.log_dict(values)  # and what it logs, in one call"
            ),
        ),
        (
            'module.log(f"norm/{name}", norm)',
            "Norms.on_before_optimizer_step",
            (
                "if (module.global_step + 1) % module.trainer.log_every_n_steps:\n"
                "    return  # first in on_before_optimizer_step: no logger writes this step\n"
                "module.log_dict(values)  # and what it logs, in one call"
            ),
        ),
    ],
)
def test_what_lightning_gathers_is_left_out_of_the_steps_that_it_does_not_write(text, function, code):
    each = Interval("name", of_updates=False, of_lightning=True)
    logged = replace(line(0.3, kind="logging", text=text), interval=each)
    logged = replace(logged, at=replace(logged.at, function=function))
    advice = tip(run(), SLOW, stacks(logged))
    assert advice.code == code
    assert advice.change.step.likely == pytest.approx(0.3 * 0.98)
    known = replace(logged, interval=replace(each, counted="step", period="10"))
    assert tip(run(), SLOW, stacks(known)).code.startswith("if step % 100 == 0:")


def test_a_line_that_training_may_need_is_not_skipped():
    text = "loss = train_and_log(batch)"
    advice = tip(run(), SLOW, stacks(line(0.3, kind="logging", text=text, only_reported=False)))
    assert advice is not None
    assert text not in (advice.code or "")


def test_on_a_device_a_line_that_reads_a_tensor_waits_and_others_may_run_beside_it():
    on_device = run(device="Tesla V100")
    lines = stacks(
        line(0.5, 50, "logging", text="bar.set_postfix(loss=loss.item())"), line(0.1, 51, "logging")
    )
    advice = tip(on_device, SLOW, lines)
    assert [at.line for at in advice.at] == [51]
    assert facts.gain(advice).low == 1.0
    assert tip(run(), SLOW, lines).at[0].line == 50


def test_on_a_device_a_line_that_hands_a_tensor_to_its_logger_waits():
    handed = replace(line(0.5, 50, "logging", text='wandb.log({"loss": loss})'), reads_tensor=True)
    assert tip(run(device="Tesla V100"), SLOW, stacks(handed)) is None
    assert tip(run(), SLOW, stacks(handed)) is not None


@pytest.mark.parametrize(
    ("interval", "header", "likely"),
    [
        (Interval("it", counted="it", period="200"), "if it % 2000 == 0:", 0.9),
        (Interval("it", counted="it", period="args.every"), "if it % (10 * args.every) == 0:", 0.9),
        (Interval("epoch", of_updates=False), "if epoch % 5 == 0:", 0.8),
    ],
)
def test_what_is_not_logged_every_step_is_logged_more_rarely_than_it_is(interval, header, likely):
    drawn = replace(line(0.3, kind="logging", text="writer.add_image(image)"), interval=interval)
    advice = tip(run(), SLOW, stacks(drawn))
    assert advice.code == f"{header}\n    writer.add_image(image)"
    share = advice.change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.15, 0.3 * likely, 0.3))
    assert advice.because[0] == "30% of the training time goes into logging"
    assert not any("step" in sentence for sentence in advice.because)


def test_each_line_goes_by_its_own_interval():
    often = line(0.2, 50, "logging", text="print(loss)")
    seldom = replace(line(0.3, 51, "logging"), interval=Interval("it", counted="it", period="50"))
    share = tip(run(), SLOW, stacks(seldom, often)).change.step
    assert share.likely == pytest.approx(0.2 * 0.98 + 0.3 * 0.9)


def test_the_name_that_counts_the_steps_is_the_scripts():
    counted = replace(line(0.3, kind="logging", text="print(loss)"), interval=Interval("it"))
    assert tip(run(), SLOW, stacks(counted)).code == "if it % 50 == 0:\n    print(loss)"


def test_a_line_in_another_function_than_its_loop_is_not_moved_there():
    apart = Interval("it", counted="it", period="50", is_in_caller=True)
    code = tip(run(), SLOW, stacks(replace(line(0.3, kind="logging"), interval=apart))).code
    assert code == "if it % 500 == 0:\n    ...  # only what prints or writes"


@pytest.mark.parametrize(
    ("text", "whole", "body"),
    [
        ("print(", "print(f'loss {loss:.3f}', flush=True)", "print(f'loss {loss:.3f}', flush=True)"),
        ("print(", f"print({'loss, ' * 30})", "...  # all of the statement at line 7"),
        ("print(", None, "...  # all of the statement at line 7"),
    ],
)
def test_a_statement_of_several_lines_is_repeated_whole_or_named(text, whole, body):
    logging = line(0.3, kind="logging", text=text)
    advice = tip(run(), SLOW, stacks(replace(logging, at=replace(logging.at, whole=whole))))
    assert advice.code == f"if step % 50 == 0:\n    {body}"


def test_where_the_interval_is_not_known_no_counter_is_made_up():
    logging = replace(line(0.3, kind="logging", text="print(1)"), interval=Interval("step", is_tested=True))
    advice = tip(run(), SLOW, stacks(logging))
    assert advice.code == "if ...:  # 10 times as rarely\n    print(1)"
    assert advice.because[0] == "30% of the training time goes into logging"
    assert advice.change.step.likely == pytest.approx(0.27)


@pytest.mark.parametrize(
    ("asks", "interval", "header"),
    [
        ("log.isEnabledFor(logging.DEBUG)", Interval("it"), "if log.isEnabledFor(logging.DEBUG):"),
        (
            "log.isEnabledFor(logging.INFO)",
            Interval("it"),
            "if it % 50 == 0 and log.isEnabledFor(logging.INFO):",
        ),
        (
            "log.isEnabledFor(logging.INFO)",
            Interval("it", is_tested=True),
            "if log.isEnabledFor(logging.INFO):",
        ),
    ],
)
def test_a_logger_is_asked_before_what_it_is_handed_is_computed(asks, interval, header):
    text = 'log.debug(f"{table(rows)}")'
    logging = replace(line(0.3, kind="logging", text=text), asks=asks, interval=interval)
    advice = tip(run(), SLOW, stacks(logging))
    assert advice.code == f"{header}\n    {text}"
    assert "computed before its logger is asked" in advice.because[2]
    more = tip(run(), SLOW, stacks(replace(logging, only_reported=False)))
    assert more.code == f"{header}\n    ...  # only what prints or writes"


def test_the_line_that_writes_is_named_behind_the_one_that_calls_it():
    called = replace(line(0.3, 50, "logging"), inner=replace(line(0.3).at, file="runlog.py", line=26))
    advice = tip(run(), SLOW, stacks(called, line(0.2, 51, "logging"), line(0.1, 52, "logging")))
    assert [(at.file, at.line) for at in advice.at] == [("train.py", 50), ("runlog.py", 26), ("train.py", 51)]
