from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.tips.retained_graph import retained_graph as tip
from tests.support.facts import gain, step
from tests.support.host_facts import retained

STEP = step(forward=5, backward=5, count=2048)


def test_names_what_holds_them_and_how_fast_memory_grows():
    advice = tip(STEP, retained(growth=4096))
    assert advice is not None
    assert advice.because == (
        "12 of the sampled graphs were alive at once, one from 1,000 steps ago: `total` holds them",
        "the process's memory grew by 4.0 KiB per step, 8.0 MiB in this run",
    )
    assert advice.at[0].line == 21
    assert advice.change is None


def test_growth_on_the_device_is_told_beside_that_of_the_process():
    advice = tip(STEP, replace(retained(growth=-1.0), device_bytes_per_step=2048.0))
    assert advice.because[1:] == ("the device's memory grew by 2.0 KiB per step, 4.0 MiB in this run",)


def test_where_steps_become_slower_the_lost_time_is_the_change():
    advice = tip(STEP, retained(slower=0.2))
    assert gain(advice).high == pytest.approx(1 / 0.8)
    assert gain(advice).low == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("total += loss", "total += loss.detach()"),
        ("losses.append(loss)", "losses.append(loss.detach())"),
        ("meter.update(out.mean(), n)", "meter.update(out.mean().detach(), n)"),
        ("total = total + loss", "total = total + loss  # detach what is kept"),
        ("history.append((step, loss))", "history.append((step, loss))  # detach what is kept"),
        ("kept.insert(0, loss)", "kept.insert(0, loss)  # detach what is kept"),
        ("self.losses += [loss]", "self.losses += [loss]  # detach what is kept"),
        ("metrics.update(loss=loss)", "metrics.update(loss=loss)  # detach what is kept"),
        ("for total in (", "for total in (  # detach what is kept"),
    ],
)
def test_the_users_own_line_is_mended(text, code):
    advice = tip(STEP, retained(text=text))
    assert advice is not None
    assert advice.code == code


@pytest.mark.parametrize(
    "of_retained",
    [
        pytest.param(retained(graphs=4), id="too-few-graphs"),
        pytest.param(retained(steps=31), id="unrolled-over-a-few-steps"),
    ],
)
def test_is_silent(of_retained):
    assert tip(STEP, of_retained) is None


def test_fires_at_the_threshold():
    assert tip(STEP, retained(graphs=5, steps=32)) is not None
