from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from perfdoctor.model.batch import Stage
from perfdoctor.model.concluded import Bottleneck, Confidence, Gain, NotJudged, OtherTime, Verdict
from perfdoctor.model.measured import Location, OperatorCost, Phase, WindowFacts
from perfdoctor.render import terminal, text
from perfdoctor.render.pages import report as report_page
from tests.support import job_facts, load_facts, reports
from tests.support.drawn import drawn
from tests.support.facts import line

WIDTHS = [40, 60, 80, 100, 200]


def shown(report, width=80, colour=False):
    return drawn(report_page.page(report), width, colour)


def bar_rows(page):
    return [line for line in page.splitlines() if "█" in line]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["STARVED", "HEALTHY", "NO_STEPS", "OUT_OF_MEMORY"])
def test_no_line_is_wider_than_the_terminal_or_than_one_can_read(name, width):
    page = shown(getattr(reports, name), width)
    assert max(len(line) for line in page.splitlines()) <= min(width, terminal.WIDEST)


def test_the_verdict_and_its_ceiling_come_before_everything_measured():
    page = shown(reports.STARVED, 80)
    verdict, ceiling, step, change = (
        page.index(part)
        for part in ("Training waits for data: 61%", "2.6× as fast", "One step:", "What to change")
    )
    assert verdict < ceiling < step < change


def test_a_finding_shows_line_evidence_gain_and_what_to_type():
    page = shown(reports.STARVED, 80)
    for part in (
        "Prepare batches in more worker processes",
        "2.3× faster (1.8–2.6×)",
        "train.py:41  loader = DataLoader(digits, batch_size=64, shuffle=True)",
        "· num_workers is 0; 3 of 4 cores are idle",
        "perfdoctor try --workers 3",
        "num_workers=3, persistent_workers=True)",
    ):
        assert part in page


def test_a_change_of_the_result_is_said():
    page = shown(replace(reports.STARVED, findings=(reports.DATASET,)), 80)
    assert "can change what the training learns" in page
    assert "can change" not in shown(replace(reports.STARVED, findings=(reports.WORKERS,)), 80)


def test_a_bottleneck_without_a_finding_sends_the_reader_to_the_phases():
    lost = replace(reports.STARVED, findings=())
    assert "No known cause fits" in shown(lost, 80)
    assert "No tip fits" not in shown(reports.HEALTHY, 80)


def test_every_headline_fits_a_line_of_eighty_columns_beside_its_confidence():
    for verdict in Verdict:
        diagnosis = replace(reports.DIAGNOSIS, verdict=verdict, confidence=Confidence.MEDIUM)
        page = shown(replace(reports.STARVED, diagnosis=diagnosis), 80)
        assert any(line.strip().startswith(text.headline(diagnosis)) for line in page.splitlines()), verdict


def test_a_long_command_has_a_line_of_its_own():
    page = shown(reports.ended(command=("python", "train.py", "--name", "x" * 40)), 80)
    title, facts = page.splitlines()[1:3]
    assert title.endswith("x" * 40)
    assert facts.strip().startswith("finished")


def test_each_bar_begins_where_the_one_above_ends():
    rows = bar_rows(shown(reports.STARVED, 80))
    spans = [(row.index("█"), len(row)) for row in rows]
    assert [row.split("  ")[1] for row in rows] == [
        "data wait",
        "forward",
        "backward",
        "optimizer",
        "checkpoint",
        "other",
    ]
    assert all(abs(begin - end) <= 1 for (_, end), (begin, _) in pairwise(spans))
    assert spans[-1][1] == 78


def test_a_phase_that_takes_next_to_no_time_has_no_row_and_a_short_one_still_a_mark():
    seconds = dict.fromkeys(Phase, 0.0) | {Phase.FORWARD: 0.0608, Phase.OTHER: 1e-4, Phase.CHECKPOINT: 5e-5}
    rows = bar_rows(shown(replace(reports.STARVED, steps=replace(reports.STEPS, seconds=seconds)), 80))
    assert [row.split("  ")[1] for row in rows] == ["forward", "other"]
    assert rows[1].count("█") == 1


def test_what_was_not_judged_is_counted_by_its_reason_and_named_only_where_that_is_asked_for():
    page = shown(reports.STARVED)
    assert "Not judged (perfdoctor report --all names the tips)" in page
    assert "2 tips: there is no accelerator" in page
    assert "pageable-memory-copies" not in page
    page = drawn(report_page.page(reports.STARVED, name_all=True))
    assert "pageable-memory-copies, blocking-copies: there is no accelerator" in page


@pytest.mark.parametrize(
    ("because", "remedy"),
    [
        ("only 3 stack samples of batch preparation were taken", "watch it for longer"),
        (
            "no stack samples were taken; no sample was taken while training stepped",
            "watch it for longer; with --no-stacks none are taken",  # whether it was given is not known here
        ),
        ("no stack samples of batch preparation were taken", "(watch it for longer)"),
        ("no watched process imported torch", "watch the command that trains"),
        ("no torch.profiler window was recorded", "--profiler-share"),
    ],
)
def test_how_to_get_judged_what_was_not_is_said(because, remedy):
    page = shown(replace(reports.STARVED, not_judged=(NotJudged("slow-collate", because),)), 100)
    told = " ".join(page[page.index("1 tip: ") :].split())
    assert remedy in told[: told.index(")") + 1]


@pytest.mark.shows("cost")
def test_what_watching_cost_is_said_where_it_was_measured():
    assert "Watching cost 20 µs to 60 µs a step (0.03% to 0.09% of it)." in shown(reports.STARVED)
    unsampled = replace(reports.STARVED.overhead, high_seconds_per_step=None)
    least = replace(reports.STARVED, overhead=unsampled)
    assert "Watching cost at least 20 µs a step (0.03% of it)." in shown(least)
    assert "Watching cost" not in shown(replace(reports.STARVED, overhead=None))
    narrow = replace(reports.STARVED.overhead, low_seconds_per_step=59.8e-6)
    alike = shown(replace(reports.STARVED, overhead=narrow))
    assert "Watching cost 59.8 µs to 60 µs a step (0.09% of it)." in alike


def test_a_speedup_bound_is_said_only_where_one_is_known():
    computing = replace(reports.DIAGNOSIS, verdict=Verdict.COMPUTE)
    endless = replace(reports.DIAGNOSIS, bound=100.0)
    between = replace(reports.DIAGNOSIS, verdict=Verdict.NETWORK, waits_for_ranks=True)
    assert "If batches were always ready: about 2.6× as fast" in shown(reports.STARVED)
    assert "If no rank waited: about 2.6× as fast" in shown(replace(reports.STARVED, diagnosis=between))
    for diagnosis in (computing, endless):
        assert "as fast" not in shown(replace(reports.STARVED, diagnosis=diagnosis))


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            OtherTime({Bottleneck.HOST: 0.02, Bottleneck.COMPUTE: 0.4}),
            "other (42% of the step) counts as compute 40%, host 2%; with the other phases: data 61%, compute",
        ),
        (
            OtherTime({Bottleneck.HOST: 0.3, Bottleneck.COMPUTE: 0.02}, 0.25),
            "other (7% of the step) and 25% between the passes count as host 30%, compute 2%; with",
        ),
        (OtherTime({Bottleneck.HOST: 0.4, Bottleneck.COMPUTE: 0.04}), None),
        (None, None),
    ],
    ids=["computes", "timed-in-the-passes", "the-hosts-as-it-looks", "a-device-tells"],
)
def test_what_other_is_charged_to_is_said_where_phases_and_verdict_seem_to_disagree(other, told):
    diagnosis = replace(reports.DIAGNOSIS, other=other)
    page = " ".join(shown(replace(reports.STARVED, diagnosis=diagnosis)).split())
    assert told is None or told in page
    assert ("of the step)" in page) is (told is not None)


@pytest.mark.shows("terminal-text")
def test_nothing_from_the_users_world_reaches_the_terminal_raw():
    evil = "[bold red]x[/]\x1b]0;owned\x07\x1b[2J"
    advice = replace(
        reports.WORKERS.advice,
        because=(evil,),
        at=(Location(f"/home/ada/digits/{evil}.py", 1, None, evil),),
        tweak=evil,
        code=f"{evil}\nsecond line",
    )
    report = replace(
        reports.ended(command=("python", evil), device=evil),
        findings=(replace(reports.WORKERS, title=evil, advice=advice),),
        not_judged=(NotJudged(evil, evil),),
        notes=(evil,),
        path=evil,
    )
    page = shown(report, 200)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", page)
    assert "[bold red]x[/]\\x1b]0;owned\\x07" in page


@pytest.mark.shows("plain-terminal")
def test_colours_are_escape_sequences_only_where_they_are_wanted():
    assert "\x1b[" in shown(reports.STARVED, 80, colour=True)
    assert "\x1b" not in shown(reports.STARVED, 80, colour=False)


@pytest.mark.shows("plain-terminal")
def test_an_ascii_terminal_gets_every_sign_it_can_show():
    page = shown(reports.STARVED, 80).translate(text.ASCII)
    assert page.isascii()


def test_many_lines_of_one_file_name_it_once_and_count_the_rest():
    places = tuple(
        Location("/home/ada/digits/train.py", line, None, f"statement {line}") for line in (8, 9, 10, 11)
    )
    finding = replace(reports.WORKERS, advice=replace(reports.WORKERS.advice, at=places))
    page = shown(replace(reports.STARVED, findings=(finding,)), 80)
    assert "train.py:8  statement 8" in page
    assert "        :9  statement 9" in page
    assert "statement 11" not in page
    assert "and 1 more line" in page


def test_a_long_path_keeps_its_line_number():
    file = "/srv/" + "very-long-folder-name/" * 3 + "train.py"
    finding = replace(
        reports.WORKERS, advice=replace(reports.WORKERS.advice, at=(Location(file, 41, None, "x = 1"),))
    )
    page = shown(replace(reports.STARVED, findings=(finding,)), 100)
    assert f"{file}:41" in page
    assert ":41  x = 1" in page


def test_the_operators_of_a_window_take_one_line_and_the_page_says_how_to_see_more():
    operators = (
        OperatorCost("aten::convolution_backward", 0.4, 3.0),
        OperatorCost("[bold]x\x1b[2J", 0.1, 1.0),
    )
    window = WindowFacts("trace.rank0.0.json.gz", 4, False, operators)
    page = shown(replace(reports.STARVED, window=window))
    assert "in operators: convolution_backward 40%, [bold]x" in page
    assert "\x1b" not in page
    assert "Inside the step:\n    perfdoctor trace " in page
    assert "Inside the step" not in shown(reports.STARVED)


def test_where_it_is_kept_can_be_typed_in_the_folder_of_who_reads_it():
    window = WindowFacts("trace.rank0.0.json.gz", 4, False, (OperatorCost("aten::mm", 0.4, 3.0),))
    run = reports.STARVED.run
    report = replace(reports.STARVED, window=window, path=f"{run.cwd}/my runs/a")
    for here, path in ((run.cwd, "my runs/a"), ("/elsewhere", f"{run.cwd}/my runs/a")):
        page = drawn(report_page.page(report, here=here), 100)
        assert f"Kept in {path}" in page
        assert f"perfdoctor trace '{path}'" in page


def test_what_a_batch_costs_is_told_by_stage_and_where_most_of_it_is():
    batch = load_facts.batch(
        load_facts.cost(Stage.DECODING, 0.61, line(0.61, 31), kind="image"),
        load_facts.cost(Stage.READING, 0.2),
        load_facts.cost(Stage.COLLATING, 0.19),
        transfer_s=0.002,
    )
    page = " ".join(shown(replace(reports.STARVED, batch=batch), 100).split())
    assert "a batch: 12 ms in a worker: reading 20%, decoding 61% (train.py:31), collating 19%" in page
    assert "; worker transfer: 2 ms" in page
    assert "a batch:" not in shown(reports.STARVED)


def test_several_findings_are_predicted_together():
    page = shown(replace(reports.STARVED, together=Gain(2.0, 2.4, 2.5)))
    assert "together (gains do not add)" in page
    assert "2.4× faster (2.0–2.5×)" in page


def test_a_finding_about_something_else_than_time_is_a_risk():
    risky = replace(
        reports.STARVED.findings[0],
        advice=replace(reports.STARVED.findings[0].advice, change=None),
        gain=Gain(),
    )
    page = shown(replace(reports.STARVED, findings=(risky,)))
    assert "risk" in page
    assert "no speed to gain" not in page


def test_a_finding_about_the_start_says_how_long_it_takes():
    first = reports.STARVED.findings[0]
    slow = replace(first, advice=replace(first.advice, change=None, start_s=17.2), gain=Gain())
    assert "up to 17.2 s at each start" in shown(replace(reports.STARVED, findings=(slow,)))


def test_the_ranks_of_a_job_come_before_the_step_which_says_whose_it_is():
    joined = replace(reports.ended(ranks=8), job=job_facts.job(8, 2, shown=3))
    page = shown(joined, 80)
    assert "8 ranks on 2 nodes" in page.splitlines()[2]
    assert page.index("Training waits for data") < page.index("The others wait for rank 3")
    assert page.index("The others wait for rank 3") < page.index("One step of rank 3: 61 ms")


def test_one_rank_has_no_part_about_ranks():
    assert "rank" not in shown(reports.STARVED, 80)


def test_the_end_for_want_of_memory_comes_first_with_its_line_and_what_would_fit():
    page = shown(reports.OUT_OF_MEMORY, 100)
    for part in (
        "Out of memory on cuda:0, in step 13",
        "train.py:50  loss.backward()",
        "It asked for 2 GB more.",
        "70 GB  88%",
        "batches of 96 would have fitted up to here (instead of 128): accumulate gradients over 2 of them",
    ):
        assert part in " ".join(page.split()) or part in page
    assert page.index("Out of memory") < page.index("Training waits for data")
