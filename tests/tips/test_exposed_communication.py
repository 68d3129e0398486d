from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.tips.exposed_communication import exposed_communication as tip
from tests.support import facts

GPU = facts.run(device="A100")
TINY = {"bytes": 4_000_000, "buckets": 400.0, "busy_s": 0.04, "moving_s": 0.04}
SLOW = {"bytes": 10_000_000, "busy_s": 0.08, "moving_s": 0.08, "bus_bytes_per_s": 125e6}


def test_of_a_trace_it_says_what_is_exposed_and_what_is_hidden_already():
    advice = tip(GPU, facts.comm(exposed=0.2, all=0.5))
    assert advice.because == (
        "20.0% of the time is communication that no computation overlaps (20.00 ms a step)",
        "60% of all communication is overlapped",
    )
    assert not advice.same_result


def test_hiding_it_brings_no_more_than_it_takes():
    gain = facts.gain(tip(GPU, facts.comm(exposed=0.2)))
    assert gain.high <= 1 / 0.8
    assert gain.likely == pytest.approx(1 / 0.9)


def test_of_a_run_it_says_how_much_goes_over_the_link_and_where_the_model_was_wrapped():
    advice = tip(GPU, facts.exchanged(moving=10))
    assert advice.because == (
        "10.0% of the time is communication that no computation overlaps (10.00 ms a step)",
        "DistributedDataParallel of 2 ranks: 20 MB a step in 1 collective of 20 MB, 1 GB/s on the bus",
    )
    assert [at.line for at in advice.at] == [22]
    small = tip(GPU, facts.exchanged(moving=10, bytes=14_000, buckets=2.0)).because[1:]
    assert "14 kB a step in 2 collectives of 7 kB" in small[0]
    assert small[1] == (
        "so few bytes take longer to start than to transfer: fewer exchanges help, not smaller ones"
    )


def test_tiny_buckets_are_put_together():
    advice = tip(GPU, facts.exchanged(moving=30, **TINY))
    assert advice.tweak == "--ddp-bucket-mb 25"
    assert advice.same_result
    assert advice.change.step.likely == pytest.approx(
        0.30 * 0.85, rel=0.02
    )  # nearly all of it is setting out


def test_a_tiny_model_does_not_get_faster_by_half_the_bytes():
    advice = tip(GPU, facts.exchanged(moving=12, bytes=160_000, moving_s=0.012, bus_bytes_per_s=13e6))
    assert advice.tweak == "--accumulate 2"


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({**TINY, "bytes": 420_000_000}, id="buckets-of-a-megabyte"),
        pytest.param({**TINY, "buckets": 2.0, "bytes": 2_000}, id="a-small-model-in-two-buckets"),
    ],
)
def test_buckets_are_left_as_they_are(given):
    assert tip(GPU, facts.exchanged(moving=30, **given)).tweak != "--ddp-bucket-mb 25"


def test_on_a_slow_link_fewer_bytes_are_sent():
    advice = tip(GPU, facts.exchanged(moving=60, **SLOW))
    assert advice.tweak == "--ddp-compress bf16"
    assert not advice.same_result
    # half of what of 80 ms goes with the bytes, less what casting 10 MB at 2 GB/s takes
    assert advice.change.step.likely == pytest.approx(0.40 * (1 - 1.05 / 11.05) - 0.05, rel=0.01)


def test_where_casting_costs_as_much_as_it_saves_the_exchange_is_made_less_often():
    advice = tip(GPU, facts.exchanged(moving=10, bytes=40_000_000, moving_s=0.02, bus_bytes_per_s=2e9))
    assert advice.tweak == "--accumulate 2"
    assert advice.change.step.likely == pytest.approx(0.05)


def test_fsdp_gathers_ahead():
    advice = tip(GPU, facts.exchanged(kind="FSDP"))
    assert advice.tweak is None
    assert "set_modules_to_forward_prefetch" in advice.code
    older = tip(GPU, facts.exchanged(kind="FullyShardedDataParallel"))
    assert "forward_prefetch=True" in older.code
    assert "set_modules" not in older.code


def untimed(kind):
    return replace(facts.comm(exposed=0.2, all=0.5), kind=kind, at=facts.LOADER_LINE)


def test_on_a_device_each_wrapper_has_a_cure_of_its_own():
    sharded, replicated = (tip(GPU, untimed(kind)) for kind in ("FSDP", "DistributedDataParallel"))
    assert "prefetch" in sharded.code
    assert (sharded.tweak, sharded.same_result) == (None, True)
    assert replicated.tweak == "--ddp-compress bf16"
    assert [advice.at for advice in (sharded, replicated)] == [(facts.LOADER_LINE,)] * 2
    assert sharded.because[-1] == "60% of all communication is overlapped"


def test_one_process_that_drives_several_devices_has_no_gradients_to_compress():
    assert tip(GPU, untimed("DataParallel")) is None


def test_calls_of_the_script_itself_need_not_block():
    assert "async_op=True" in tip(GPU, facts.exchanged(kind="all_reduce")).code


def test_what_the_script_exchanges_beside_its_wrapper_comes_first_where_it_takes_most():
    given = {"own": 0.8, "own_calls": 50.0, "own_bytes": 10_000_000, "called_at": Location("train.py", 72)}
    advice = tip(GPU, facts.exchanged(moving=50, **given))
    assert [at.line for at in advice.at] == [72]
    assert advice.because[-1] == (
        "80% of that in 50 collectives a step, 10 MB together, which the script calls itself,"
        " beside DistributedDataParallel"
    )
    assert advice.tweak is None
    assert advice.change.step.high == pytest.approx(0.4)  # all of it may be needless
    lesser = tip(GPU, facts.exchanged(moving=50, **{**given, "own": 0.3}))
    assert [at.line for at in lesser.at] == [22]


def test_small_calls_of_the_script_itself_are_put_into_one():
    large = tip(GPU, facts.exchanged(moving=10, kind="all_reduce"))
    small = tip(GPU, facts.exchanged(moving=10, kind="all_reduce", **TINY))
    assert "torch.cat" in small.code
    assert (
        small.because[-1] == "such small ones take longer to start than to transfer: one of 4 MB starts once"
    )
    assert small.change.step.likely > large.change.step.likely
    assert small.same_result


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(facts.comm(exposed=0.02, all=0.4), id="computing-hides-it"),
        pytest.param(facts.exchanged(moving=4.9), id="just-under-the-threshold"),
        pytest.param(facts.exchanged(moving=1, waiting=60), id="it-waits-for-a-late-rank"),
    ],
)
def test_is_silent(found):
    assert tip(GPU, found) is None


def test_on_a_cpu_gradients_go_as_fp16_for_gloo_adds_up_no_bf16():
    advice = tip(facts.run(), facts.exchanged(moving=60, **SLOW))
    assert advice.tweak == "--ddp-compress fp16"
    assert "fp16_compress_hook" in advice.code


def test_what_the_script_sends_itself_is_no_bucket_of_the_wrappers():
    one = {**TINY, "buckets": 4.0, "bytes": 556_000, "exchanges": 1.0}
    assert tip(GPU, facts.exchanged(moving=30, **one)).tweak == "--ddp-bucket-mb 25"
    beside = {"own": 0.3, "own_calls": 3.0, "own_bytes": 140}
    assert tip(GPU, facts.exchanged(moving=30, **one, **beside)).tweak != "--ddp-bucket-mb 25"
