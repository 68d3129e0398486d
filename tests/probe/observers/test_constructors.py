import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

TRAIN = """
    import torch
    torch.set_num_threads(1)
    def train(net, opt, x, steps=2):
        for _ in range(steps):
            net(x).mean().backward(); opt.step(); opt.zero_grad()
"""


def test_a_layer_is_known_by_the_line_that_built_it_and_a_copy_by_the_one_around_it(tmp_path):
    records = watched(
        tmp_path,
        """
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            layer = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
            self.blocks = torch.nn.TransformerEncoder(layer, 2)
            self.conv = torch.nn.Sequential(
                torch.nn.Conv1d(4, 4, 1),
                torch.nn.BatchNorm1d(4),
            )
        def forward(self, x):
            return self.conv(self.blocks(x))
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(12):
        net(torch.randn(2, 4, 8)).mean().backward(); opt.step(); opt.zero_grad()
    """,
    )
    (root,) = records.ranks[0].of("root")
    assert (root["built"]["line"], root["at"]["line"]) == (14, 17)
    (biased,) = records.ranks[0].of("biased")
    assert (biased["path"], biased["at"]["line"], biased["at"]["function"]) == ("conv.0", 9, "__init__")


def test_a_constructor_keeps_what_it_took_from_its_locals(tmp_path):
    records = watched(
        tmp_path,
        TRAIN
        + """
    class Net(torch.nn.Module):
        def __init__(self, width, inner=None):
            given = locals()
            del given["self"], given["__class__"]
            super().__init__()
            assert set(given) == {"width", "inner"}, given
            self.body = torch.nn.Linear(width, 4)
            self.inner = inner or Net(width, self.body)
        def forward(self, x):
            return self.body(x)
    net = Net(4)
    train(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.randn(2, 4))
    """,
    )
    (root,) = records.ranks[0].of("root")
    assert root["built"]["line"] == 18


def test_a_model_tells_its_number_types(tmp_path):
    records = watched(
        tmp_path,
        TRAIN
        + """
    net = torch.nn.Linear(4, 4).double()
    train(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.randn(2, 4, dtype=torch.float64))
    """,
    )
    (root,) = records.ranks[0].of("root")
    assert (root["parameters"], root["parameter_bytes"], root["float64"], root["float16"]) == (
        20,
        160,
        1.0,
        0.0,
    )
    (double,) = records.ranks[0].of("float64")
    assert (double["what"], double["at"]["line"]) == ("Module.double", 8)


def test_a_frozen_base_is_none_of_the_number_types_that_are_trained(tmp_path):
    records = watched(
        tmp_path,
        TRAIN
        + """
    net = torch.nn.Sequential(torch.nn.Linear(4, 4).half().requires_grad_(False), torch.nn.Linear(4, 4))
    net[0].forward = lambda x: x
    train(net, torch.optim.SGD(net[1].parameters(), lr=0.1), torch.randn(2, 4))
    """,
    )
    (root,) = records.ranks[0].of("root")
    assert (root["float16"], root["float16_trained"]) == (0.5, 0.0)


def test_an_optimizer_tells_how_it_acts_and_where_it_was_built(tmp_path):
    records = watched(
        tmp_path,
        TRAIN
        + """
    net = torch.nn.Linear(4, 4)
    def built():
        yield torch.optim.Adam(net.parameters())
        yield torch.optim.SGD(net.parameters(), fused=True, momentum=0.9)
        yield torch.optim.AdamW(net.parameters(), foreach=True)
        yield torch.optim.LBFGS(net.parameters(), max_iter=1)
    for opt in built():
        net(torch.randn(2, 4)).mean().backward()
        opt.step(lambda: torch.zeros(()))
    """,
    )
    events = records.ranks[0].of("optimizer")
    assert [event["way"] for event in events] == ["for-loop", "fused", "foreach", None]
    assert [event["momentum"] for event in events] == [False, True, False, False]
    assert [event["built"]["line"] for event in events] == [10, 11, 12, 13]
    assert {event["at"]["line"] for event in events} == {16}
    assert {(event["tensors"], event["elements"], event["device"]) for event in events} == {(2, 20, "cpu")}


def test_a_default_of_double_precision_is_noted_with_its_line(tmp_path):
    records = watched(
        tmp_path,
        TRAIN
        + """
    torch.set_default_dtype(torch.float32)
    torch.set_default_dtype(torch.float64)
    net = torch.nn.Linear(4, 4)
    train(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.randn(2, 4))
    """,
    )
    (event,) = records.ranks[0].of("float64")
    assert (event["what"], event["at"]["line"]) == ("torch.set_default_dtype", 9)


def test_process_group_and_wrapper_are_noted_and_the_search_is_timed(tmp_path):
    records = watched(
        tmp_path,
        TRAIN
        + """
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method="file://" + __file__ + ".store", rank=0, world_size=1)
    net = torch.nn.Linear(4, 4)
    net.register_buffer("mean", torch.zeros(4))
    ddp = torch.nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    train(ddp, torch.optim.SGD(net.parameters(), lr=0.1), torch.randn(2, 4), 40)
    """,
    )
    (group,) = records.ranks[0].of("process_group")
    assert (group["backend"], group["world"], group["at"]["line"]) == ("gloo", 1, 9)
    (wrapper,) = records.ranks[0].of("wrapper")
    assert (wrapper["kind"], wrapper["at"]["line"]) == ("DistributedDataParallel", 12)
    assert (wrapper["find_unused"], wrapper["static_graph"], wrapper["device"]) == (True, False, "cpu")
    assert wrapper["buffer_bytes"] == 16
    last = records.ranks[0].of("calls")[-1]
    assert (last["synced"], last["unsynced"], last["unused"]) == (1, 0, 0)
    assert last["search_calls"] > 30
    assert 0 < last["search_s"] / last["search_calls"] < 0.1


def test_data_parallel_is_noted(tmp_path):
    records = watched(
        tmp_path,
        TRAIN
        + """
    net = torch.nn.DataParallel(torch.nn.Linear(4, 4))
    train(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.randn(2, 4))
    """,
    )
    (wrapper,) = records.ranks[0].of("wrapper")
    assert (wrapper["kind"], wrapper["devices"], wrapper["at"]["line"]) == ("DataParallel", 0, 8)
