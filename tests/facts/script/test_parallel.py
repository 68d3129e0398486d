from __future__ import annotations

import pytest

from perfdoctor.facts.script.parallel import one_more, parallel_facts, searching, syncing, torchrun
from tests.support import facts, script_facts
from tests.support.records import records

STEP = facts.step(forward=20, backward=60, grad_sync=16, optimizer=4)


def at(line):
    return {"file": "/home/me/train.py", "line": line, "function": "main"}


def own(*events):
    return records(events=events).ranks[0]


GROUP = {"event": "process_group", "backend": "gloo", "world": 2, "at": at(3)}
DDP = {
    "event": "wrapper",
    "kind": "DistributedDataParallel",
    "world": 2,
    "backend": "gloo",
    "find_unused": True,
    "static_graph": False,
    "devices": 1,
    "buffer_bytes": 4096,
    "at": at(5),
}
SETTINGS = {"event": "settings", "device": "cuda", "devices": 4, "at": at(9)}


def look(number, **given):
    return {"event": "calls", "look": number, "seconds": 0.1, "synced": 4, "unsynced": 0, **given}


def test_one_process_with_one_device_has_nothing_to_spread():
    assert parallel_facts(own({**SETTINGS, "devices": 1}), None) is None


def test_wrapper_group_and_backward_are_told_with_their_lines():
    facts = parallel_facts(own(GROUP, DDP, SETTINGS), None)
    assert (facts.wrapper, facts.world, facts.backend, facts.devices, facts.device) == (
        "DistributedDataParallel", 2, "gloo", 4, "cuda",
    )  # fmt: skip
    assert (facts.group_at.line, facts.wrapped_at.line, facts.backward_at.line) == (3, 5, 9)
    assert facts.find_unused
    assert facts.buffer_bytes == 4096
    assert (facts.exposed_s, facts.unused) == (None, None)


def test_static_graphs_are_not_searched():
    assert not parallel_facts(own(GROUP, {**DDP, "static_graph": True}), None).find_unused


def test_exchange_is_exposed_as_far_as_backward_does_not_hide_it():
    looks = [look(n, comm_ns=30_000_000, hidden_ns=10_000_000, unused=0) for n in (1, 2, 3)]
    facts = parallel_facts(own(GROUP, DDP, *looks), None)
    assert facts.exposed_s == pytest.approx(0.02)
    assert (facts.synced, facts.unsynced, facts.unused) == (4, 0, 0)


def test_one_pass_with_unused_parameters_shows_that_there_are_some():
    looks = [look(1, unused=0), look(2, unused=3), look(3, unused=0)]
    assert parallel_facts(own(DDP, *looks), None).unused == 3


def test_a_search_costs_what_all_of_them_took_over_their_number():
    facts = parallel_facts(own(DDP, look(1), look(2, search_calls=20, search_s=0.01)), None)
    assert facts.search_s == pytest.approx(0.0005)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("train.py", "--lr", "1"), "torchrun --nproc-per-node 4 train.py --lr 1"),
        (("python3.11", "train.py"), "torchrun --nproc-per-node 4 train.py"),
        (("/usr/bin/python", "-m", "pkg.train"), "torchrun --nproc-per-node 4 -m pkg.train"),
        (("bash", "train.sh"), "torchrun --nproc-per-node 4 train.py"),
        ((), "torchrun --nproc-per-node 4 train.py"),
        (("torchrun", "--nproc-per-node", "2", "t.py"), "torchrun --nproc-per-node 4 t.py"),
        (("/env/bin/torchrun", "--nproc_per_node=2", "t.py"), "/env/bin/torchrun --nproc_per_node=4 t.py"),
        (("torchrun", "t.py"), "torchrun --nproc-per-node 4 t.py"),
        (
            ("python", "-m", "torch.distributed.run", "--nproc-per-node=1", "t.py"),
            "python -m torch.distributed.run --nproc-per-node=4 t.py",
        ),
        (("accelerate", "launch", "t.py"), "accelerate launch --num_processes 4 t.py"),
        (("uv", "run", "python", "t.py"), "uv run torchrun --nproc-per-node 4 t.py"),
    ],
)
def test_the_command_for_several_processes(command, told):
    assert torchrun(command, 4) == told


def timed(**given):
    return script_facts.parallel(
        own=facts.among(moving=10.0, waiting=6.0),
        gradient_sync=facts.exchange(**{"busy_s": 0.036, "exposed_s": 0.010, "waiting_s": 0.006, **given}),
        synced=4.0,
        exposed_s=0.5,
    )


def test_exchanges_that_were_timed_are_at_least_what_moves_and_at_most_all_that_goes_with_it():
    # 10 ms move, 6 ms are waited; 20 ms are hidden behind a backward that is 20 ms longer than two forwards
    assert syncing(STEP, timed()) == pytest.approx((0.10, 0.10 + 0.26 / 2, 0.36))


def test_backward_loses_no_more_than_is_exchanged_behind_it():
    assert syncing(STEP, timed(busy_s=0.018))[2] == pytest.approx(0.10 + 0.06 + 0.02)


def test_where_they_were_not_timed_torchs_own_count_has_to_do():
    counted = script_facts.parallel(device="cuda", synced=1.0, exposed_s=0.02)
    assert syncing(STEP, counted) == pytest.approx((0.2, 0.2, 0.2))
    assert syncing(STEP, script_facts.parallel(exposed_s=None)) == (0.0, 0.0, 0.0)


def test_a_step_of_no_length_has_no_shares():
    nothing = facts.step()
    assert syncing(nothing, timed()) == (0.0, 0.0, 0.0)
    assert (searching(nothing, timed()), one_more(nothing, timed())) == (0.0, 0.0)
