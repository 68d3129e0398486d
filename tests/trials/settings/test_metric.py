from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.errors import PerfdoctorError
from perfdoctor.trials.settings import metric


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_the_group_is_the_figure(log: Path) -> None:
    log.write_text("epoch 1 acc: 0.50\nepoch 2 acc: 0.75 loss: 3\n")
    assert metric.values(log, metric.pattern("acc: ([0-9.]+)")) == (0.5, 0.75)


def test_without_a_group_the_whole_match_is_the_figure(log: Path) -> None:
    log.write_text("acc 0.5\nacc 0.75\n")
    assert metric.values(log, metric.pattern(r"(?<=acc )\S+")) == (0.5, 0.75)


def test_several_figures_of_a_line_all_count(log: Path) -> None:
    log.write_text("acc=1e-3 acc=-inf acc=nan")
    first, second, third = metric.values(log, metric.pattern(r"acc=(\S+)"))
    assert (first, second) == (0.001, float("-inf"))
    assert third != third


def test_progress_bars_and_colours_do_not_hide_figures(log: Path) -> None:
    log.write_bytes(b"10%|# | acc=\x1b[32m0.10\x1b[0m\r20%|## | acc=\x1b[32m0.20\x1b[0m\r\xff done\n")
    assert metric.values(log, metric.pattern("acc=([0-9.]+)")) == (0.1, 0.2)


def test_what_matches_and_is_no_number_is_left_out(log: Path) -> None:
    log.write_text("acc: unknown\nacc: 0.5\nacc:\n")
    assert metric.values(log, metric.pattern(r"acc:(?: (\S+))?")) == (0.5,)


def test_a_log_that_is_not_there_has_no_figures(log: Path) -> None:
    assert metric.values(log, metric.pattern("acc: (.*)")) == ()


@pytest.mark.parametrize("words", ["acc", "acc: ", "acc: ([0-9.]+", "(acc|accuracy): ([0-9.]+)"])
def test_an_expression_that_cannot_tell_a_figure_is_refused_with_one_that_can(words: str) -> None:
    with pytest.raises(PerfdoctorError, match="--metric") as raised:
        metric.pattern(words)
    assert raised.value.exit_code == 2
    assert raised.value.hint is not None
    assert "--metric 'acc: ([0-9.]+)'" in raised.value.hint
