from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Gain
from perfdoctor.model.trial import Scaled
from perfdoctor.render.pages import scaling, trial
from tests.support import trial_results as made
from tests.support.drawn import drawn

HERE = "/home/ada/digits"
ALONE, TWO, FOUR = made.CURVE


def test_the_page_shows_the_curve_what_bounds_it_and_what_to_type() -> None:
    page = drawn(trial.page(made.scaled(), HERE))
    lines = [line.strip() for line in page.splitlines() if line.strip()]
    assert lines[0] == "perfdoctor try --ranks 1,2,4  train.py --epochs 3"
    assert lines[2] == "2 ranks: 1.7× as fast as 1 rank, 85% of what they could"
    rows = [line.split() for line in lines if line[0].isdigit() and "ranks" not in line]
    assert rows[1] == ["1", "60", "ms", "533", "-", "-"]
    assert rows[2] == ["2", "70", "ms", "914", "1.7×", "(1.6–1.8×)", "85%", "(80–90%)"]
    assert rows[3] == ["4", "-", "-", "-", "-"]
    assert "· 2 ranks: 14% is moving gradients" in lines
    assert "· 4 ranks: RuntimeError: no port" in lines
    assert max(map(len, page.splitlines())) <= 80


def test_in_a_narrow_terminal_the_table_has_ranks_and_speedups() -> None:
    rows = [line.split() for line in drawn(trial.page(made.scaled(), HERE), 40).splitlines()]
    assert ["2", "1.7×", "(1.6–1.8×)", "85%", "(80–90%)"] in rows


def test_a_number_of_ranks_that_was_not_measured_is_no_result() -> None:
    more = Scaled(8, 0.09, None, Gain(4.0, 5.0, 6.0), Gain(0.5, 0.6, 0.7), bound="no cores", expected=True)
    page = drawn(trial.page(made.scaled(scaling=(ALONE, TWO, more)), HERE))
    assert "perfdoctor try --ranks 1,2  train.py" in page
    assert "2 ranks: 1.7× as fast as 1 rank" in page
    assert "8, expected" in page
    assert "8 ranks, expected: no cores" in page


@pytest.mark.parametrize("width", [40, 100])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    assert max(map(len, drawn(trial.page(made.scaled(), HERE), width).splitlines())) <= width


def test_ranks_that_are_no_faster_are_said() -> None:
    slower = replace(TWO, speedup=Gain(0.5, 0.6, 0.7), efficiency=Gain(0.25, 0.3, 0.35))
    assert scaling.headline(made.scaled(scaling=(ALONE, slower))) == "More ranks are no faster than 1 rank"
    unclear = replace(TWO, speedup=Gain(0.9, 1.2, 1.6), efficiency=Gain(0.45, 0.6, 0.8))
    assert scaling.headline(made.scaled(scaling=(ALONE, unclear))) == (
        "2 ranks: no difference seen, 0.90× to 1.6× as fast as 1 rank"
    )
    failed = made.scaled(scaling=(ALONE, FOUR))
    assert scaling.headline(failed) == "No other number of ranks could be measured"


def test_a_curve_that_loses_little_is_good_news() -> None:
    good = made.scaled(scaling=(ALONE, replace(TWO, efficiency=Gain(0.95, 0.97, 0.99))))
    assert (scaling.colour(good), scaling.colour(made.scaled())) == ("green", "yellow")
    sentences = [sentence for sentence, _ in scaling.next_steps(good, HERE)]
    assert sentences == ["a longer trial makes the ranges narrower"]


def test_what_to_do_next_holds_where_it_is_typed() -> None:
    run, net, longer = (typed for _, typed in scaling.next_steps(made.scaled(), HERE))
    own = "torchrun --standalone --nproc-per-node 2 train.py --epochs 3"
    assert run == f"perfdoctor run {own}"
    assert net == "perfdoctor net --ranks 2"
    assert longer == "perfdoctor try --ranks 1,2,4 --rounds 10 --seconds 370 -- train.py --epochs 3"
    elsewhere = [typed for _, typed in scaling.next_steps(made.scaled(), "/tmp")]
    assert elsewhere[0] == f"cd {HERE} && perfdoctor run {own}"


def test_a_trial_of_elsewhere_names_its_command_as_it_was() -> None:
    strange = made.scaled(command=("no-such-program", "--x"), rank_commands={})
    assert next(scaling.next_steps(strange, HERE))[1] == "perfdoctor run no-such-program --x"
