from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.model.concluded import Bottleneck, Gain, Verdict
from perfdoctor.model.measured import Location
from perfdoctor.render import text
from tests.support import reports


@pytest.mark.parametrize(
    ("value_s", "written"),
    [
        (0.0, "0 s"),
        (2.5e-8, "25 ns"),
        (0.00002, "20 µs"),
        (0.0372, "37.2 ms"),
        (0.9996, "1 s"),
        (31.2, "31.2 s"),
        (-0.002, "-2 ms"),
    ],
)
def test_seconds_come_with_the_unit_that_fits(value_s, written):
    assert text.seconds(value_s) == written


@pytest.mark.parametrize(
    ("value_s", "written"), [(31.2, "31.2 s"), (59.97, "1:00 min"), (247, "4:07 min"), (7511, "2:05:11 h")]
)
def test_longer_times_read_like_a_clock(value_s, written):
    assert text.duration(value_s) == written


@pytest.mark.parametrize(
    ("value_bytes", "written"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (11_500, "11.5 kB"),
        (999_600, "1 MB"),
        (1.16e8, "116 MB"),
        (8.5e10, "85 GB"),
    ],
)
def test_an_amount_of_memory_comes_with_the_unit_that_fits(value_bytes, written):
    assert text.size(value_bytes) == written


@pytest.mark.parametrize(
    ("share", "written"),
    [
        (0, "0%"),
        (0.00001, "<0.01%"),
        (0.0003, "0.03%"),
        (0.0099, "1%"),
        (0.61, "61%"),
        (0.9972, "99.7%"),
        (0.9997, ">99.9%"),
        (1 - 2**-53, "100%"),  # a sum of all shares
        (1, "100%"),
    ],
)
def test_a_share_is_never_rounded_to_all_or_nothing(share, written):
    assert text.percent(share) == written


@pytest.mark.parametrize(
    ("predicted", "written"),
    [
        (Gain(1.8, 2.3, 2.6), "2.3× faster (1.8–2.6×)"),
        (Gain(1.02, 1.05, 1.08), "1.05× faster (1.02–1.08×)"),
        (Gain(1.0, 1.03, 1.46), "1.03× faster (1.00–1.46×)"),
        (Gain(8.2, 11.6, 24.3), "12× faster (8–24×)"),
        (Gain(1.5, 1.5, 1.5), "1.5× faster"),
        (Gain(1.0, 1.0, 1.0), "no speed to gain"),
    ],
)
def test_a_gain_is_written_with_its_range(predicted, written):
    assert text.gain(predicted) == written


def test_a_file_below_the_folder_of_the_run_is_named_from_there():
    assert text.place(Location("/home/ada/digits/src/data.py", 7), "/home/ada/digits") == "src/data.py:7"
    assert text.place(Location("/opt/lib/data.py", 7), "/home/ada/digits") == "/opt/lib/data.py:7"
    assert (
        text.place(Location("/home/ada/digits2/data.py", 7), "/home/ada/digits")
        == "/home/ada/digits2/data.py:7"
    )


@pytest.mark.shows("terminal-text")
def test_escape_sequences_line_breaks_and_text_direction_are_written_out():
    assert text.escape_control("a\x1b[31mb\nc\td\u202ee") == "a\\x1b[31mb\\nc d\\u202ee"
    assert text.escape_control("größer 大きい 🙂 [bold]") == "größer 大きい 🙂 [bold]"


@pytest.mark.shows("terminal-text")
@given(st.text())
def test_nothing_that_was_escaped_can_steer_a_terminal(raw):
    written = text.escape_control(raw)
    assert "\n" not in written
    assert all(letter == " " or letter.isprintable() for letter in written)


@pytest.mark.shows("raises", "killed")
@pytest.mark.parametrize(
    ("how", "written"),
    [
        ({"exit_code": 0}, "finished"),
        ({"exit_code": 3, "outcome": "failed"}, "failed with 3"),
        ({"exit_code": -9, "outcome": "signalled"}, "ended by SIGKILL"),
        ({"exit_code": -250, "outcome": "signalled"}, "ended by signal 250"),
        ({"exit_code": None, "outcome": "lost"}, "end not seen"),
        ({"exit_code": None, "outcome": "running"}, "still running"),
        ({"exit_code": -15, "outcome": "stopped"}, "stopped with the watch"),
    ],
)
def test_the_ending_is_said_in_words(how, written):
    assert text.ending(reports.ended(**how).run) == written


@pytest.mark.parametrize(
    ("command", "written"),
    [
        (("/usr/bin/python3.11", "/home/ada/train.py", "--lr", "1"), "train.py --lr 1"),
        (("python", "-m", "pkg.train"), "-m pkg.train"),
        (("torchrun", "train.py"), "torchrun train.py"),
        (("python",), "python"),
        ((), "20260102-030405-train"),
    ],
)
def test_the_command_is_named_without_interpreter_and_folders(command, written):
    assert text.script(reports.ended(command=command).run) == written


def test_every_verdict_has_a_headline_without_a_full_stop():
    for verdict in Verdict:
        headline = text.headline(replace(reports.DIAGNOSIS, verdict=verdict))
        assert headline
        assert not headline.endswith(".")


def test_a_balanced_headline_names_the_two_largest_classes():
    level = {Bottleneck.HOST: 0.02, Bottleneck.COMPUTE: 0.48, Bottleneck.DATA: 0.5}
    balanced = replace(reports.DIAGNOSIS, verdict=Verdict.BALANCED, classes=level)
    assert text.headline(balanced) == "No single cause: data 50% and compute 48%"


def test_what_is_avoidable_is_not_said_to_bind_where_other_time_is_larger():
    less = {Bottleneck.HOST: 0.11, Bottleneck.COMPUTE: 0.89}
    avoidable = replace(reports.DIAGNOSIS, verdict=Verdict.HOST, share=0.11, classes=less)
    assert text.headline(avoidable) == "Training could save most in Python code: 11% of its time"
    most = replace(avoidable, share=0.89, classes={Bottleneck.HOST: 0.89, Bottleneck.COMPUTE: 0.11})
    assert text.headline(most) == "Training is bound by Python code: 89% of its time"


def test_ranks_that_wait_for_one_with_more_to_compute_do_not_wait_for_the_network():
    most = replace(
        reports.DIAGNOSIS,
        verdict=Verdict.NETWORK,
        share=0.6,
        classes={Bottleneck.NETWORK: 0.6, Bottleneck.COMPUTE: 0.4},
        waits_for_ranks=True,
    )
    assert text.headline(most) == "Training waits for one of its ranks: 60% of its time"
    less = replace(most, share=0.33, classes={Bottleneck.NETWORK: 0.33, Bottleneck.COMPUTE: 0.67})
    assert text.headline(less) == "Training could save most in waiting between ranks: 33% of its time"


def test_the_summary_is_one_line_with_verdict_best_change_and_place():
    line = text.summary(reports.STARVED)
    assert "\n" not in line
    assert line.startswith("Training waits for data: 61% of its time")
    assert "2.3× faster (1.8–2.6×)" in line
    assert line.endswith(reports.STARVED.path)
