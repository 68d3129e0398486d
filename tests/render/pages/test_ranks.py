from __future__ import annotations

import re
from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.measured import Phase
from perfdoctor.model.note import Note
from perfdoctor.model.ranks import ScalePoint
from perfdoctor.render import terminal, text
from perfdoctor.render.pages import ranks
from tests.support import drawn as drawing
from tests.support import job_facts


def drawn(job, width=80, colour=False):
    return drawing.drawn(ranks.sections(job, "/home/ada/digits"), width, colour)


def flat(job):
    """The block with its line breaks folded away."""
    return " ".join(drawn(job, 200).split())


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize(("world", "nodes"), [(2, 1), (8, 2), (16, 2), (17, 1), (1024, 128)])
def test_no_line_is_wider_than_the_terminal_and_any_world_fits_a_screen_or_so(world, nodes, width):
    lines = drawn(job_facts.job(world, nodes, slow=1), width).splitlines()
    assert max(map(len, lines)) <= terminal.columns(width)
    assert len(lines) <= (36 if width >= 80 else 52)


def test_whom_the_others_wait_for_and_why_comes_before_all_figures():
    page = drawn(job_facts.job())
    places = [
        page.index(text)
        for text in (
            "The others wait for rank 3: its batches take longer",
            "the last to start 92% of 400 gradient syncs, 18 ms a step behind; 95% of",
            "· waiting for batches takes it 17.60 ms a step longer than the median rank",
            "· its loader workers keep 0.4 cores busy",
            "each step would take 17.3 ms less",
            "3 straggler",
        )
    ]
    assert places == sorted(places)


def test_the_late_rank_is_the_first_row_and_its_strip_shows_what_it_does_longer():
    rows = [line.split() for line in drawn(job_facts.job()).splitlines() if re.search("f{4}b{4}", line)]
    assert rows[0][:2] == ["3", "straggler"]
    late, *others = (row[-1] for row in rows)
    assert late.count("d") >= 4
    assert all(strip.count("w") > late.count("w") and strip.count("d") <= 1 for strip in others)


def test_a_late_rank_that_does_nothing_longer_is_given_no_cause():
    late = job_facts.culprit(excess_s=0.0, saved_s=0.0, why="none of its phases takes longer")
    page = drawn(job_facts.job(straggler=late))
    assert "The others wait for rank 3\n" in page
    assert "a step less" not in page


def test_without_a_late_rank_that_is_said_and_without_matches_nothing_is_said_about_it():
    calm = job_facts.job(slow=None)
    assert re.search("straggler +no single rank", drawn(calm))
    assert "straggler" not in drawn(job_facts.unmatched())
    turns = replace(calm, waits={Bottleneck.COMPUTE: 0.001, Bottleneck.DATA: 0.003}, shown=2)
    assert "rank 2 waits for ranks that are slower in data (75%), compute (25%)" in flat(turns)


def test_exchanges_that_were_not_matched_are_neither_waiting_nor_moving():
    page = drawn(job_facts.unmatched())
    assert "slowest first, gradient syncs left out" in page
    assert not re.search(r"\bwait +transfer\b", page)
    assert "last" not in page


def test_a_rank_that_could_not_be_compared_is_not_taken_for_one_that_never_waits():
    job = job_facts.job(4)
    odd = replace(job.ranks[0], waiting_s=0.0, moving_s=0.023, matched=0, last=0)
    page = drawn(replace(job, ranks=(odd, *job.ranks[1:])))
    rows = [line.split() for line in page.splitlines() if re.search("f{4}b{4}", line)]
    assert [row[0] for row in rows] == ["3", "0", "1", "2"]
    assert rows[1][-1].count("s") > 3
    assert "%" not in rows[1]


def test_the_host_of_the_late_rank_is_told_where_there_are_several():
    assert "wait for rank 3 (gpu-0000):" in drawn(job_facts.job(8, 2))
    assert "gpu-0000" not in drawn(job_facts.job(8, 1))


def test_a_node_that_is_late_as_a_whole_is_named_and_all_its_ranks_are_marked():
    job = job_facts.job(8, 2)
    page = drawn(replace(job, straggler=replace(job.straggler, whole_node=True)))
    assert "The others wait for all of gpu-0000, most for rank 3" in page
    assert len(re.findall(r"^  [0-3] straggler ", page, re.MULTILINE)) == 4


@pytest.mark.parametrize("cause", Bottleneck)
def test_every_cause_has_words(cause):
    job = job_facts.job()
    assert ranks.LONGER[cause] in flat(replace(job, straggler=replace(job.straggler, cause=cause)))


def test_ranks_that_hang_in_one_place_share_a_line_and_the_odd_one_comes_first():
    lines = [line.strip() for line in drawn(job_facts.hung()).splitlines() if line.startswith("  · ")]
    assert lines == [
        "· rank 1: in train.py:20 (evaluate)",
        "· ranks 0, 2–7: in all_reduce, step 120, for 61 s",
    ]


def test_of_two_ranks_the_one_that_waits_in_a_collective_comes_second():
    page = drawn(job_facts.hung(2))
    assert page.index("rank 1: in train.py:20") < page.index("rank 0: in all_reduce")


def test_how_a_rank_ended_stands_beside_where_it_was():
    job = job_facts.job()
    one = replace(job.ranks[5], ended="killed by signal 9", inside="backward")
    assert "rank 5: killed by signal 9, in backward" in drawn(
        replace(job, ranks=(*job.ranks[:5], one, *job.ranks[6:]))
    )


def test_many_different_ends_are_counted():
    job = job_facts.job(64)
    odd = tuple(replace(one, ended=f"exit code {one.rank}") for one in job.ranks[:20])
    assert "and 14 more ranks" in drawn(replace(job, ranks=(*odd, *job.ranks[20:])))


def test_missing_ranks_are_told_in_runs_and_a_long_list_is_cut():
    job = job_facts.job(6)
    assert "ranks 7–9, 11 left no record" in drawn(replace(job, world=12, missing=(7, 8, 9, 11)))
    every_other = tuple(range(1, 1024, 2))
    page = flat(replace(job, world=1024, missing=every_other))
    assert "ranks 1, 3, 5, 7, 9, 11 and 506 more left no record" in page


def test_a_job_none_of_whose_ranks_left_a_record_is_no_error():
    job = replace(job_facts.job(2, slow=None), ranks=(), nodes=(), missing=(0, 1), matched=0, skew=())
    assert "ranks 0–1 left no record" in drawn(job)


def test_the_exchange_is_told_by_how_much_how_fast_and_what_of_it_is_waited_for():
    text = flat(job_facts.job())
    assert "DistributedDataParallel: 102 MB a step, 4 buckets, bus bandwidth 8.5 GB/s, at train.py:31" in text
    assert "takes 42 ms: 45% hidden by computing, 5 ms exposed, 18 ms wait" in text


def test_several_exchanges_a_step_are_counted_and_several_kinds_told_apart():
    kinds = {"all_gather": (8.0, 80_000_000, 0.02), "reduce_scatter": (4.0, 40_000_000, 0.03)}
    exchange = replace(job_facts.EXCHANGE, kind="FSDP", exchanges=2.0, buckets=12.0, by_kind=kinds)
    text = flat(job_facts.job(gradient_sync=exchange))
    assert "102 MB a step, 2 syncs, 12 collectives, bus" in text
    assert "4 reduce_scatter of 10 MB: 30 ms, 8 all_gather of 10 MB: 20 ms" in text


def test_what_is_not_known_of_an_exchange_is_left_out():
    exchange = replace(job_facts.EXCHANGE, bus_bytes_per_s=None, at=None)
    assert "DistributedDataParallel: 102 MB a step, 4 buckets takes" in flat(
        job_facts.job(gradient_sync=exchange)
    )


def test_what_the_link_can_do_stands_beside_what_the_exchange_reached():
    exchange = replace(job_facts.EXCHANGE, link_bytes_per_s=12e9)
    assert "bus bandwidth 8.5 GB/s of the 12 GB/s measured" in flat(job_facts.job(gradient_sync=exchange))


def test_waiting_over_time_is_one_line_of_blocks():
    (line,) = (line for line in drawn(job_facts.job()).splitlines() if "█" in line)
    assert re.match(r"  wait       [▁▂▃▄▅▆▇]+█+  2% to 18% of the time, begin to end$", line)


def test_a_little_waiting_does_not_fill_the_line_and_none_is_the_lowest_block():
    assert "█" not in drawn(job_facts.job(skew=(0.004, 0.006, 0.005)))
    assert "▁▁▁" in drawn(job_facts.job(skew=(0.0, 0.0, 0.0)))


def test_clocks_matter_where_there_are_several_nodes():
    assert "can be off by 300 µs" in drawn(job_facts.job(8, 2))
    assert "off by" not in drawn(job_facts.job(8, 1))


def test_restarts_and_notes_are_told():
    page = drawn(job_facts.job(attempt=2, notes=("the file of rank 2 ends early",)))
    assert re.search("restarts +2 before this attempt, by the launcher", page)
    assert "· the file of rank 2 ends early" in page


def test_what_more_ranks_bring_is_told_against_one():
    points = tuple(
        ScalePoint(
            number,
            0.1,
            Gain(low, speedup, speedup * 1.05),
            Bottleneck.NETWORK,
            Note("gradient-sync-takes", {"share": 0.41}),
        )
        for number, low, speedup in ((1, 1.0, 1.0), (8, 6.7, 6.8), (16, 8.0, 11.2))
    )
    told = "of one rank: 8 ranks 6.8× (85%), 16 ranks 11× (50–74%); with 16 ranks, gradient sync takes 41% of the step"
    assert told in flat(job_facts.job(scale=points))


def test_letters_tell_phases_apart_without_colour_and_each_only_one():
    letters = [kind.letter for kind in ranks.PHASES.values()] + ["w", "m", "s"]
    assert len(set(letters)) == len(letters)
    assert set(ranks.PHASES) == set(Phase) - {Phase.GRAD_SYNC}


def test_an_ascii_terminal_gets_every_sign_it_can_show():
    assert drawn(job_facts.job(8, 2)).translate(text.ASCII).isascii()


def test_nothing_from_the_users_world_reaches_the_terminal_raw():
    evil = "[bold red]x[/]\x1b]0;owned\x07\x1b[2J"
    job = replace(
        job_facts.job(),
        straggler=job_facts.culprit(3, evil, why=evil),
        gradient_sync=replace(
            job_facts.EXCHANGE, kind=evil, by_kind={evil: (1.0, 1, 1.0), "b": (1.0, 1, 1.0)}
        ),
        nodes=(evil, "b"),
        notes=(evil,),
    )
    hostile = tuple(replace(one, node=f"{evil}{one.rank % 2}", inside=evil, ended=evil) for one in job.ranks)
    page = drawn(replace(job, ranks=hostile), 200)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", page)
    assert "[bold red]x[/]" in page
