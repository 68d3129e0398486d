from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

from perfdoctor.probe.ranks.ddp import EVERY, Gradients
from perfdoctor.probe.ranks.sync_estimate import ALL_OF
from perfdoctor.wire.collective_rows import DDP, ESTIMATED
from tests.support.watched import together, updates

pytestmark = [pytest.mark.clock, pytest.mark.process]

PLANTED_NS = 100_000_000
LATE = """
    import time, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    torch.set_num_threads(1); torch.manual_seed(0)
    dist.init_process_group("gloo")
    net = torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(8)])
    ddp = DistributedDataParallel(net, bucket_cap_mb=0.1)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for step in range(40):
        if dist.get_rank() == 1 and step % 4 == 3:
            time.sleep(0.1)
        opt.zero_grad(); ddp(torch.randn(4, 128)).square().mean().backward(); opt.step()
    dist.destroy_process_group()
    time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
"""


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    return together(tmp_path_factory.mktemp("late"), LATE)


def exchanges(records, rank=0):
    rows = records.ranks[rank].collectives
    return rows[rows["flags"] & DDP > 0]


def planted(values):
    """Medians of the steps that the other rank was late to, and of the others."""
    values = np.asarray(values)
    late = np.arange(len(values)) % 4 == 3
    return float(np.median(values[late])), float(np.median(values[~late]))


def test_a_rank_that_waits_for_a_late_one_shows_it_as_grad_sync(late):
    with_late, without = planted(updates(late)["grad_sync"])
    assert with_late - without == pytest.approx(PLANTED_NS, rel=0.2)
    with_late, without = planted(updates(late)["backward"])
    assert with_late - without < 0.2 * PLANTED_NS


def test_the_late_rank_itself_does_not_wait(late):
    with_late, without = planted(updates(late, 1)["grad_sync"])
    assert with_late - without < 0.2 * PLANTED_NS


def test_phases_still_partition_each_row(late):
    phases = ("data_wait", "host_to_device", "forward", "backward", "grad_sync", "optimizer_ns",
              "validation", "checkpoint")  # fmt: skip
    for rank in (0, 1):
        rows = updates(late, rank)
        spent = sum(rows[name] for name in phases)
        assert (rows["backward"] >= 0).all()
        assert (spent <= rows["end_ns"] - rows["begin_ns"]).all()
        assert (rows["begin_ns"][1:] == rows["end_ns"][:-1]).all()


def test_each_exchange_is_a_row_with_its_number_step_and_size(late):
    for rank in (0, 1):
        rows = exchanges(late, rank)
        assert list(rows["sequence"]) == list(range(40))
        assert list(rows["step"]) == list(range(40))
        assert set(rows["bytes"]) == {8 * (128 * 128 + 128) * 4}
        assert (set(rows["op"]), set(rows["ranks"]), set(rows["group"])) == ({1}, {2}, {0})
        assert set(rows["buckets"][:1]) == {1}  # torch learns from the first backward how to fill several
        assert (rows["buckets"][1:] > 1).all()
        assert (rows["wait_ns"] <= rows["end_ns"] - rows["begin_ns"]).all()
        assert late.ranks[rank].steps["grad_sync"].sum() == rows["wait_ns"].sum()


def test_a_pass_that_waits_for_the_other_rank_is_timed_not_estimated(late):
    flags = exchanges(late)["flags"]
    late_ones = np.arange(len(flags)) % 4 == 3
    assert not (flags[late_ones] & ESTIMATED).any()
    assert not (flags[:ALL_OF] & ESTIMATED).any()


def test_an_exchange_ends_at_the_same_time_in_both_ranks(late):
    apart = np.abs(exchanges(late)["end_ns"] - exchanges(late, 1)["end_ns"])
    assert np.median(apart) < 0.2 * PLANTED_NS


def test_sizes_of_buckets_are_told_again_once_torch_has_filled_them_anew(late):
    first, rebuilt = late.ranks[0].of("buckets")
    assert (first["model"], first["group"], first["timed"], first["searches"]) == (1, 0, True, False)
    assert sum(first["sizes"]) == sum(rebuilt["sizes"]) == 8 * (128 * 128 + 128) * 4
    assert rebuilt["count"] == len(rebuilt["sizes"]) > 1


MANY = """
    import time, torch, torch.distributed as dist
    from contextlib import nullcontext
    from torch.nn.parallel import DistributedDataParallel as DDP
    torch.set_num_threads(1); torch.manual_seed(0)
    dist.init_process_group("gloo")

    class Sometimes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        def forward(self, x):
            return self.a(x)

    def train(forward, *parameters):
        opt = torch.optim.SGD([p for net in parameters for p in net.parameters()], lr=0.01)
        for step in range(4):
            opt.zero_grad(); forward(step); opt.step()

    def accumulated(step):
        for micro in range(3):
            with accumulating.no_sync() if micro < 2 else nullcontext():
                accumulating(x).mean().backward()

    def twice(step):
        first(x).mean().backward()
        second(first(x)).mean().backward()

    x = torch.randn(4, 8)
    accumulating = DDP(torch.nn.Linear(8, 8))
    train(accumulated, accumulating)
    searching = DDP(Sometimes(), find_unused_parameters=True)
    train(lambda step: searching(x).mean().backward(), searching)
    static = DDP(Sometimes(), static_graph=True)
    train(lambda step: static(x).mean().backward(), static)
    first, second = DDP(torch.nn.Linear(8, 8)), DDP(torch.nn.Linear(8, 8))
    train(twice, first, second)
    hooked = DDP(torch.nn.Linear(8, 8))
    seen = []
    def hook(state, bucket):
        seen.append(bucket.index())
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0] / 2)
    hooked.register_comm_hook(None, hook)
    train(lambda step: hooked(x).mean().backward(), hooked)
    assert len(seen) == 4
    evaluated = DDP(torch.nn.Linear(8, 8))
    evaluated.eval()
    with torch.no_grad():
        evaluated(x)
    uneven = DDP(torch.nn.Linear(8, 8))
    opt = torch.optim.SGD(uneven.parameters(), lr=0.01)
    with uneven.join():
        for step in range(4 + dist.get_rank()):
            opt.zero_grad(); uneven(x).mean().backward(); opt.step()
    dist.destroy_process_group()
    time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return together(tmp_path_factory.mktemp("many"), MANY)


def per_step(records, begin, count, rank=0):
    """Exchanges in each of `count` steps."""
    steps = exchanges(records, rank)["step"]
    return [int(np.sum(steps == step)) for step in range(begin, begin + count)]


def test_micro_steps_without_exchange_have_none(many):
    assert per_step(many, 0, 4) == [1, 1, 1, 1]


def test_a_search_for_unused_parameters_exchanges_one_map_more(many):
    rows = exchanges(many)[4:8]
    assert set(rows["buckets"]) == {2}
    assert set(rows["bytes"]) == {2 * 72 * 4 + 4 * 4}


def test_a_static_graph_is_seen_from_its_first_backward_on(many):
    assert per_step(many, 8, 4) == [1, 1, 1, 1]


def test_a_backward_through_two_models_has_an_exchange_of_each(many):
    assert per_step(many, 12, 4) == [3, 3, 3, 3]


def test_hooks_of_the_scripts_own_stay_in_use(many):
    assert per_step(many, 16, 4) == [1, 1, 1, 1]


def test_a_rank_with_more_steps_than_the_others_goes_on_alone(many):
    assert per_step(many, 20, 5, rank=1) == [1, 1, 1, 1, 1]
    assert per_step(many, 20, 5) == [1, 1, 1, 1, 0]


def test_all_exchanges_have_the_same_numbers_in_both_ranks(many):
    first, second = exchanges(many), exchanges(many, 1)
    assert list(first["sequence"]) == list(second["sequence"])[: len(first)]


@pytest.mark.parametrize(
    ("device", "level", "rates"), [("cpu", "OFF", [EVERY]), ("cpu", "DETAIL", []), ("cuda", "OFF", [])]
)
def test_torch_is_asked_for_times_where_it_neither_waits_for_a_device_nor_prints(device, level, rates):
    asked = []
    parameter = SimpleNamespace(requires_grad=True)

    class Model:
        device_type, process_group = device, None
        find_unused_parameters = static_graph = False
        require_forward_param_sync = True
        reducer = SimpleNamespace(_set_ddp_runtime_logging_sample_rate=asked.append)

        def parameters(self):
            return [parameter]

    levels = SimpleNamespace(OFF="OFF", DETAIL="DETAIL")
    distributed = SimpleNamespace(DebugLevel=levels, get_debug_level=lambda: level)
    exchange = SimpleNamespace(
        distributed=distributed, group=lambda group: (0, 2), sequences={}, show=lambda *what: None
    )
    known = Gradients(exchange)
    model = Model()
    known.watch(model)
    known.before_backward(SimpleNamespace(since=0))
    assert asked == rates
    assert [one.timed for one in known.models] == [bool(rates)]
