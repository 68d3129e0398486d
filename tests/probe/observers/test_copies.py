"""Copies of what the step before copied are told by their lines; batches and the model's work are not."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

LOOP = """
    import copy
    import numpy as np
    import torch
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    other = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    data = torch.randn(400, 64)
    array = np.random.rand(400, 64).astype(np.float32)
    states = [torch.randn(64) for _ in range(400)]
    window = [torch.randn(8, 64) for _ in range(50)]
    memory = torch.randn(400, 64)
    kept = torch.empty(8, 64)
    best = None
    average = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            while True:
                yield torch.stack(states)[:8]
    stream = iter(torch.utils.data.DataLoader(Stream(), batch_size=None))
    for step in range(300):
        x = data[torch.randint(400, (8,))]
        {line}
        loss = net(x).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
"""
LINE = 1 + LOOP[: LOOP.index("{line}")].count("\n")


def told(tmp_path, line: str) -> list[dict[int, tuple[int, list[str]]]]:
    """For each look, the lines that were told of: (bytes, functions)."""
    own = watched(tmp_path, LOOP.format(line=line)).ranks[0]
    looks = own.of("copies_look")
    assert [look["look"] for look in looks] == [1, 2, 3]
    seen = [
        {
            event["at"]["line"]: (event["bytes"], event["names"])
            for event in own.of("copies_line")
            if event["look"] == look["look"]
        }
        for look in looks
    ]
    assert [sum(size for size, _ in lines.values()) for lines in seen] == [look["bytes"] for look in looks]
    return seen


WEIGHTS = 4 * (64 * 64 + 64 + 64 * 8 + 8)  # bytes
DATA = 4 * 400 * 64


@pytest.mark.parametrize(
    ("line", "size", "name"),
    [
        ("best = copy.deepcopy(net)", WEIGHTS, "clone"),
        ("best = copy.deepcopy(net.state_dict())", WEIGHTS, "__deepcopy__"),
        ("best = {k: v.clone() for k, v in net.state_dict().items()}", WEIGHTS, "clone"),
        ("other.load_state_dict(net.state_dict())", WEIGHTS, "copy_"),
        ("x = torch.stack(states)[:8]", DATA, "stack"),
        ("x = torch.cat(window)[:8]", DATA, "cat"),
        ("x = torch.tensor(array)[:8]", DATA, "tensor"),
        ("x = torch.from_numpy(array).double().float()[:8]", 2 * DATA, "double"),
        ("x = data.double()[:8].float()", 2 * DATA, "double"),
        ("x = data.t().contiguous()[:, :8].t()", DATA, "contiguous"),
        ("x = data.repeat(2, 1)[:8]", 2 * DATA, "repeat"),
    ],
)
def test_what_each_step_copies_again_is_told_with_its_bytes(tmp_path, line, size, name):
    for lines in told(tmp_path, line):
        assert lines == {LINE: (size, [name])}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "weights"),
    [
        ("flat = torch.cat([p.data.view(-1) for p in net.parameters()])", True),
        ("old = [p.data.clone() for p in net.parameters()]", True),
        ("best = copy.deepcopy(net)", True),
        ("x = data.double()[:8].float()", False),
        ("x = torch.stack(states)[:8]", False),
    ],
)
def test_copies_of_trained_weights_are_told_as_such(tmp_path, line, weights):
    found = watched(tmp_path, LOOP.format(line=line)).ranks[0].of("copies_line")
    assert {event["weights"] for event in found} == {weights}


@pytest.mark.parametrize(
    "line",
    [
        "flat = torch.cat([p.grad.view(-1) for p in net.parameters()]) if step else None",
        "old = [p.grad.clone() for p in net.parameters()] if step else None",
    ],
)
def test_copies_of_gradients_that_are_set_to_zero_are_told_as_such(tmp_path, line):
    zeroing = LOOP.replace("zero_grad()", "zero_grad(set_to_none=False)")
    found = watched(tmp_path, zeroing.format(line=line)).ranks[0].of("copies_line")
    assert {(event["gradients"], event["weights"]) for event in found} == {(True, False)}


def test_a_buffer_that_grows_by_copying_all_of_it_is_told(tmp_path):
    first, second, third = told(tmp_path, "memory = torch.cat([memory, x]); x = memory[-8:]")
    assert set(first) == set(second) == set(third) == {LINE}
    assert DATA < first[LINE][0] < second[LINE][0] < third[LINE][0]


def test_a_list_that_moves_on_by_an_item_a_step_is_the_same(tmp_path):
    for lines in told(tmp_path, "window.append(x); window.pop(0); x = torch.cat(window)[-8:]"):
        assert lines == {LINE: (DATA, ["cat"])}


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        pytest.param("x = x.double().float()", id="a-batch"),
        pytest.param("x = data[8 * (step % 50) :][:8].double().float()", id="a-slice-of-the-data"),
        pytest.param("x = torch.stack([data[i] for i in range(step % 50, 400, 50)])", id="a-batch-of-items"),
        pytest.param("x = torch.tensor(array[np.random.permutation(400)[:8]])", id="a-batch-of-an-array"),
        pytest.param(
            "x = torch.from_numpy(array[np.random.permutation(400)[:8]]).double().float()", id="as-is"
        ),
        pytest.param("kept.copy_(x); x = kept", id="a-batch-into-one-place"),
        pytest.param(
            "[a.data.lerp_(b.data, 0.01) for a, b in zip(other.parameters(), net.parameters())]",
            id="an-average-in-place",
        ),
        pytest.param(
            "[a.data.copy_(0.99 * a.data + 0.01 * b.data) for a, b in zip(other.parameters(), net.parameters())]",
            id="a-soft-update",
        ),
        pytest.param(
            "with torch.no_grad(): x = torch.cat([net[0](x), other[0](x)], 1)[:, ::2]", id="feature-maps"
        ),
        pytest.param("x = torch.cat([net[0].weight[:8], net[0].weight[8:16]])", id="what-gets-gradients"),
        pytest.param("average.update_parameters(net)", id="an-average-of-torchs"),
        pytest.param("x = next(stream)", id="in-a-loader"),
        pytest.param("best = copy.deepcopy(net) if step % 10 == 0 else best", id="now-and-then"),
        pytest.param("x = data.float().contiguous().to('cpu')[:8]", id="nothing-to-copy"),
    ],
)
def test_what_is_new_in_each_step_is_not(tmp_path, line):
    assert told(tmp_path, line) == [{}, {}, {}]
