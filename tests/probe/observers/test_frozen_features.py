from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfdoctor.wire.events.frozen import FrozenCallsEvent, FrozenRowsEvent
from tests.support.watched import watched

pytestmark = [pytest.mark.process, pytest.mark.slow]

SCRIPT = """
    import copy, os
    import torch
    from torch import nn
    torch.set_num_threads(1)
    torch.manual_seed(0)
    def body(width): return [nn.Linear(width, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh()]
    class Encoder(nn.Sequential):
        pass
    class Net(nn.Module):
        def __init__(self, encoder):
            super().__init__()
            self.encoder, self.head = encoder, nn.Linear(256, 1)
        def forward(self, x): return self.head(self.encoder(x))
    encoder = Encoder(*body(64), nn.Dropout(0.5)).eval().requires_grad_(False)
    head = nn.Linear(256, 1)
    net = Net(encoder)
    optimizer = torch.optim.SGD([*head.parameters(), *net.head.parameters()], lr=0.01)
    items, validation = torch.randn(256, 64), torch.randn(32, 64)
    def noise(x): return x
    def encode(x):
        with torch.no_grad():
            return encoder(x)
    def loss_of(x): return head(encode(x)).pow(2).mean()
    def shuffled(): return torch.randperm(256)
    def drawn(): return torch.randint(256, (256,))
    def in_order(): return torch.arange(256)
    order, epochs, at_epoch, at_step = shuffled, 8, lambda: None, lambda: None
    exec(os.environ["CHANGED"])
    for epoch in range(epochs):
        for batch in order().split(32):
            optimizer.zero_grad()
            loss_of(noise(items[batch])).backward()
            optimizer.step()
            at_step()
        at_epoch()
"""


def seen(tmp_path, changed: str = "") -> tuple[list[FrozenCallsEvent], FrozenRowsEvent | None]:
    """The sampled calls of frozen modules, and the last totals of the first of them."""
    own = watched(tmp_path, SCRIPT, CHANGED=changed).ranks[0]
    totals = [event for event in own.of(FrozenRowsEvent) if event.number == 0]
    return own.of(FrozenCallsEvent), totals[-1] if totals else None


@pytest.mark.parametrize("order", ["shuffled", "in_order"])
def test_rows_of_later_epochs_are_known_again(tmp_path, order):
    calls, last = seen(tmp_path, f"order = {order}")
    assert {(event.module, event.at["line"]) for event in calls} == {("Encoder", 23)}
    assert all(0 < event.seconds < event.step_s and event.calls == 1 for event in calls)
    assert not last.changed
    assert not last.by_chance
    assert (last.part, last.different <= 256) == (1.0, True)  # how many steps are seen is the budget's to say
    assert last.counted == last.rows == 32 * last.updates
    assert last.pairs >= last.hits >= 3
    assert last.compared == last.alike
    assert last.row_bytes == 256 * 4


def test_rows_drawn_with_replacement_are_known_again_and_return_the_same(tmp_path):
    _, last = seen(tmp_path, "order = drawn")
    assert last.counted > last.different > 200
    assert last.compared == last.alike > 20


IN_ORDER = """
items = torch.randn(31 * 32, 64)  # sampled steps never meet the same rows
order, epochs = lambda: torch.arange(31 * 32), 4
"""


@pytest.mark.parametrize(
    "changed",
    [
        "loss_of = lambda x: net(x).pow(2).mean()",
        """net.forward = lambda batch: net.head(encoder(batch['x']))
loss_of = lambda x: net({'y': x[:, :3], 'x': x}).pow(2).mean()""",
    ],
    ids=["tensor", "dictionary"],
)
def test_a_frozen_part_that_is_given_what_its_model_is_given_is_followed_from_step_to_step(tmp_path, changed):
    calls, last = seen(tmp_path, IN_ORDER + changed)
    assert {event.module for event in calls} == {"Encoder"}
    assert last.updates > len({event.look for event in calls})  # how many more is the budget's to say
    assert last.hits >= 3
    assert last.counted == last.rows == 32 * last.updates
    assert last.seconds > 0


def test_noise_that_the_model_adds_is_none_of_its_inputs(tmp_path):
    changed = f"""{IN_ORDER}
net.forward = lambda given: net.head(encoder(given + 0.01 * torch.randn_like(given)))
loss_of = lambda x: net(x).pow(2).mean()
"""
    calls, last = seen(tmp_path, changed)
    assert last.updates == len({event.look for event in calls})
    assert last.hits == 0


def test_a_frozen_part_that_is_given_other_tensors_is_seen_in_sampled_steps(tmp_path):
    changed = "net.forward = lambda x: net.head(encoder(2 * x))\nloss_of = lambda x: net(x).pow(2).mean()"
    calls, last = seen(tmp_path, changed)
    assert {event.module for event in calls} == {"Encoder"}
    assert last.hits >= 1
    assert last.updates == len({event.look for event in calls})
    assert last.compared == last.alike > 0


@pytest.mark.parametrize(
    "changed",
    [
        "noise = lambda x: x + 0.01 * torch.randn_like(x)",  # augmentation
        "epochs, items = 1, torch.randn(2048, 64)\norder = lambda: torch.randperm(2048)",
    ],
    ids=["augmented", "one epoch"],
)
def test_rows_that_never_come_again_are_no_hits(tmp_path, changed):
    _, last = seen(tmp_path, changed)
    assert (last.hits, last.pairs) == (0, 0)
    assert last.counted == last.different > 0


def test_validation_between_updates_does_not_count(tmp_path):
    changed = "epochs, at_epoch = 1, lambda: [encode(validation) for _ in range(5)]"
    assert seen(tmp_path, changed + "\norder = lambda: torch.randperm(2048)\nitems = torch.randn(2048, 64)")[
        1
    ].hits == 0  # fmt: skip


def test_an_average_of_the_weights_that_goes_past_versions_is_seen_to_change(tmp_path):
    changed = """
source = Encoder(*body(64))
def average():
    with torch.no_grad():
        for kept, now in zip(encoder.parameters(), source.parameters()):
            kept.data.mul_(0.999).add_(now.data, alpha=0.001)
at_step = average
"""
    assert seen(tmp_path, changed)[1].changed


def test_calls_that_gradients_go_through_are_left_out(tmp_path):
    changed = """
encoder.requires_grad_(False)
tail = nn.Linear(64, 64)
optimizer = torch.optim.SGD(tail.parameters(), lr=0.01)
loss_of = lambda x: (encoder(x) - encoder(tail(x))).pow(2).mean()
"""
    calls, last = seen(tmp_path, changed)
    assert {event.calls for event in calls} == {1}
    assert last.counted == last.rows == 32 * last.updates
    assert last.hits >= 3


def test_active_dropout_is_chance_and_what_it_returns_differs(tmp_path):
    _, last = seen(tmp_path, "encoder.train()")
    assert last.by_chance


def test_an_encoder_that_is_trained_is_none_and_neither_is_what_follows_it(tmp_path):
    changed = """
encoder.requires_grad_(True)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)
tail = nn.Linear(256, 256).requires_grad_(False)
loss_of = lambda x: tail(encoder(x)).pow(2).mean()
"""
    assert seen(tmp_path, changed) == ([], None)


def test_the_scripts_random_numbers_stay_as_they_were(tmp_path):
    code = SCRIPT + "    print(torch.rand(1).item())\n"
    import subprocess
    import sys

    from tests.support.watched import prepared

    env = prepared(tmp_path, code, CHANGED="")
    plain = {name: value for name, value in env.items() if not name.startswith(("PERFDOCTOR", "PYTHONPATH"))}
    printed = [
        subprocess.run(
            [sys.executable, "script.py"], cwd=tmp_path, env=one, check=True, capture_output=True
        ).stdout
        for one in (env, plain)
    ]
    assert printed[0] == printed[1]
