from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = [pytest.mark.process, pytest.mark.slow]

# How many looks a run has is not for the budget of their time to say: beside other work each takes longer.
NET = """
    import sys, torch; sys.modules["_perfdoctor.probe.observers.module_calls"].FREE_NS = 1 << 62
    from torch import nn
    torch.set_num_threads(1)
    torch.manual_seed(0)
    class Net(nn.Module):
        def __init__(self, *extra):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), *extra, nn.Linear(256, 64))
        def forward(self, x, mask=None):
            return self.body(x if mask is None else x * 0.5)
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(20):
        x = torch.randn(512, 64)
        opt.zero_grad()
"""


def repeats(tmp_path, loop: str, setting: str = "") -> set[tuple[str, int, int]]:
    """(module, first line, second line) of what was seen twice; the loop's first line is 17."""
    records = watched(tmp_path, NET + loop, **({"SETTING": setting} if setting else {}))
    own = records.ranks[0]
    assert len(own.of("calls")) >= 3
    return {(event["module"], event["first"]["line"], event["at"]["line"]) for event in own.of("repeat")}


def test_one_input_twice_is_seen_with_both_lines(tmp_path):
    found = repeats(
        tmp_path,
        """
        loss = net(x).mean()
        with torch.no_grad():
            shown = net(x).mean()
        loss.backward(); opt.step()
        """,
    )
    assert found == {("Net", 18, 20)}


def test_inside_another_module_it_is_seen_as_well(tmp_path):
    found = repeats(
        tmp_path,
        """
        class Twice(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
            def forward(self, x):
                return self.inner(x) + self.inner(x)
        if not step: twice = Twice(net)
        twice(x).mean().backward(); opt.step()
        """,
    )
    assert found == {("Net", 23, 23)}


def test_parametrized_weights_that_are_made_again_are_seen_and_cached_ones_are_not(tmp_path):
    loop = """
        from torch.nn.utils import parametrize, parametrizations
        if not step:
            layer = parametrizations.orthogonal(nn.Linear(64, 64, bias=False))
        def unrolled(h):
            for _ in range(4):
                h = layer(h)
            return h
        {around}
            loss = unrolled(x).mean()
        loss.backward(); opt.step()
        """
    assert repeats(tmp_path, loop.format(around="if True:")) == {("ParametrizationList", 23, 23)}
    (tmp_path / "cached").mkdir()
    assert repeats(tmp_path / "cached", loop.format(around="with parametrize.cached():")) == set()


PARAMETRIZED = """
        from torch.nn.utils import parametrize, parametrizations
        if not step:
            layer = parametrizations.orthogonal(nn.Linear(64, 64, bias=False))
"""


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(
            "for micro in range(4): layer(torch.randn(512, 64)).mean().backward()", id="accumulated-gradients"
        ),
        pytest.param("layer(x).mean().backward(); layer(x + 1).mean().backward()", id="a-backward-each"),
        pytest.param(
            "with torch.no_grad(): target = layer(x + 1)\n        (layer(x) - target).mean().backward()",
            id="first-without-gradients",
        ),
    ],
)
def test_parametrized_weights_that_another_backward_needs_are_not_accused(tmp_path, loop):
    assert repeats(tmp_path, f"{PARAMETRIZED}        {loop}; opt.step()\n") == set()


def test_in_each_of_several_backwards_weights_that_are_made_again_are_seen(tmp_path):
    loop = """
        for micro in range(2):
            (layer(x + 1) + layer(x + 2)).mean().backward()
        opt.step()
    """
    own = watched(tmp_path, NET + PARAMETRIZED + loop).ranks[0]
    assert {(event["module"], event["count"]) for event in own.of("repeat")} == {("ParametrizationList", 2)}


PROMPTED = """
        if not step:
            class Prompted(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.query = nn.Parameter(torch.randn(512, 64))
                    self.register_buffer("places", torch.arange(512) % 32)
                    self.encode, self.place, self.body = Net(), nn.Embedding(32, 64), Net()
                def forward(self, x):
                    return self.body(x) + self.encode(self.query) + self.place(self.places)
            prompted = Prompted()
            mine = torch.optim.SGD(prompted.parameters(), lr=0.01)
        mine.zero_grad()
"""


def test_what_is_given_parts_of_the_model_alone_is_not_accused_of_other_micro_batches(tmp_path):
    loop = """
        for micro in range(2):
            prompted(torch.randn(512, 64)).mean().backward()
        mine.step()
    """
    assert repeats(tmp_path, PROMPTED + loop) == set()


def test_within_one_backward_what_is_given_parts_of_the_model_is_seen_twice(tmp_path):
    loop = """
        (prompted(x) + prompted(x + 1)).mean().backward()
        mine.step()
    """
    assert "Net" in {module for module, _, _ in repeats(tmp_path, PROMPTED + loop)}


def test_what_a_gan_computes_again_after_the_other_update_is_seen(tmp_path):
    found = repeats(
        tmp_path,
        """
        if not step:
            critic = Net(); critic_opt = torch.optim.SGD(critic.parameters(), lr=0.01)
        noise = torch.randn(512, 64)
        critic_opt.zero_grad()
        fake = net(noise)
        critic(fake.detach()).mean().backward(); critic_opt.step()
        critic(net(noise)).mean().backward(); opt.step()
        """,
    )
    assert found == {("Net", 22, 24)}


NOISY = """
        if not step:
            noisy = Net(nn.Dropout(0.5))
            opt = torch.optim.SGD(noisy.parameters(), lr=0.01)
"""


@pytest.mark.parametrize(
    ("loop", "needed", "needless"),
    [
        pytest.param("loss = noisy(x).mean()\n        hit = noisy(x).detach()", 21, 22, id="for-a-metric"),
        pytest.param("hit = noisy(x).sum() > 0\n        loss = noisy(x).mean()", 22, 21, id="metric-first"),
        pytest.param(
            "loss = noisy(x).mean()\n        kept = {'logits': [noisy(x)]}", 21, 22, id="kept-until-the-next"
        ),
    ],
)
def test_of_two_that_differ_by_chance_the_one_without_a_backward_is_seen(tmp_path, loop, needed, needless):
    loop = f"{NOISY}        {loop}\n        loss.backward(); opt.step()\n"
    own = watched(tmp_path, NET + loop).ranks[0]
    found = {(event["first"]["line"], event["at"]["line"], event["by_chance"]) for event in own.of("repeat")}
    assert found == {(needed, needless, True)}


def test_lines_that_lead_to_the_pass_in_vain_alone_are_told(tmp_path):
    loop = """
        def again(): return noisy(x).detach()
        def loss(): return noisy(x).mean(), again()
        loss()[0].backward(); opt.step()
    """
    own = watched(tmp_path, NET + NOISY + loop).ranks[0]
    assert {tuple(line["line"] for line in event["lines"]) for event in own.of("repeat")} == {(22,)}


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param("loss = (noisy(x) - noisy(x)).pow(2).mean()", id="backward-through-both"),
        pytest.param(
            "a = noisy(x)\n        loss = noisy(x).mean(); a.mean().backward()",
            id="one-backward-after-another",
        ),
        pytest.param(
            "loss = noisy(x).mean()\n        with torch.no_grad(): target = noisy(x)", id="not-recorded"
        ),
        pytest.param(
            "loss = net(x).mean()\n        votes = [noisy(x).detach() for _ in range(3)]",
            id="none-by-backward",
        ),
        pytest.param(
            "held = []\n        hook = noisy.body[2].register_forward_hook(lambda m, i, o: held.append(o))\n"
            "        noisy(x); hook.remove()\n        loss = (noisy(x) + held[0].sum()).mean()",
            id="what-a-hook-took-from-inside",
        ),
        pytest.param(
            "loss = noisy(x).mean()\n        g = torch.autograd.grad(noisy(x).sum(), noisy.body[0].weight)",
            id="by-autograd-grad",
        ),
    ],
)
def test_of_two_that_differ_by_chance_neither_is_accused(tmp_path, loop):
    assert repeats(tmp_path, f"{NOISY}        {loop}\n        loss.backward(); opt.step()\n") == set()


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param("(net(x).mean() - net(x + 1).mean()).backward(); opt.step()", id="two-inputs"),
        pytest.param("net(x).mean().backward(); opt.step(); net(x)", id="after-the-update"),
        pytest.param(
            "with torch.no_grad(): net(x)\n        x.mul_(0.9); net(x).mean().backward(); opt.step()",
            id="changed-in-place",
        ),
        pytest.param(
            "net(x).mean().backward(); w = net.body[0].weight.data; w += 0.1; net(x).mean().backward(); opt.step()",
            id="parameters-moved-through-data",
        ),
        pytest.param("(net(x) + net(x, mask=x)).mean().backward(); opt.step()", id="another-argument"),
        pytest.param(
            "(net(x) + net(x, mask=object())).mean().backward(); opt.step()", id="an-unknown-argument"
        ),
        pytest.param(
            "a = net(x); b = (net.eval()(x), net.train()); (a + b[0]).mean().backward(); opt.step()",
            id="another-mode-still-counts-as-another-call",
        ),
        pytest.param(
            "from torch.utils.checkpoint import checkpoint as c\n        "
            "c(net, x, use_reentrant=False).mean().backward(); opt.step()",
            id="recomputed-for-backward",
        ),
        pytest.param(
            "if not step: noisy = Net(nn.Dropout(0.5))\n        "
            "(noisy(x) - noisy(x)).pow(2).mean().backward(); net(x).mean().backward(); opt.step()",
            id="dropout-differs-on-purpose",
        ),
        pytest.param(
            "if not step: cell = nn.GRUCell(64, 64)\n        h = torch.zeros(512, 64)\n        "
            "for _ in range(3): h = cell(x, h)\n        (net(x) + h).mean().backward(); opt.step()",
            id="a-recurrent-cell",
        ),
        pytest.param(
            "if not step:\n            critic = Net(); critic_opt = torch.optim.SGD(critic.parameters(), lr=0.1)\n"
            "        fake = net(torch.randn(512, 64))\n        critic(fake.detach()).mean().backward()\n"
            "        critic_opt.step()\n        critic(fake).mean().backward(); opt.step()",
            id="a-critic-of-one-fake-before-and-after-its-update",
        ),
    ],
)
def test_is_not_accused(tmp_path, loop):
    assert repeats(tmp_path, f"\n        {loop}\n") == set()


def test_a_bias_before_batch_normalisation_is_seen_only_where_nothing_lies_between(tmp_path):
    records = watched(
        tmp_path,
        """
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Conv2d(3, 4, 3)
            self.two = nn.Conv2d(4, 4, 3)
            self.three = nn.Conv2d(4, 4, 3, bias=False)
            self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(3))
        def forward(self, x):
            x = self.norms[0](self.one(x))
            x = self.norms[1](torch.relu(self.two(x)))
            return self.norms[2](self.three(x))
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(12):
        net(torch.randn(2, 3, 9, 9)).mean().backward(); opt.step(); opt.zero_grad()
    """,
    )
    (biased,) = records.ranks[0].of("biased")
    assert (biased["path"], biased["at"]["line"], biased["elements"]) == ("one", 7, 2 * 4 * 7 * 7)


def test_exchanges_of_gradients_are_counted_per_update(tmp_path):
    records = watched(
        tmp_path,
        """
    import contextlib, torch, torch.distributed as dist
    dist.init_process_group("gloo", init_method="file://" + __file__ + ".store", rank=0, world_size=1)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(12):
        for micro in range(4):
            with net.no_sync() if micro < 2 else contextlib.nullcontext():
                net(torch.randn(2, 4)).mean().backward()
        opt.step(); opt.zero_grad()
    """,
    )
    looks = records.ranks[0].of("calls")
    assert {(look["synced"], look["unsynced"]) for look in looks} == {(2, 2)}


def test_the_looks_grow_rarer(tmp_path):
    records = watched(
        tmp_path,
        NET.replace("range(20)", "range(300)") + "\n        net(x[:2]).mean().backward(); opt.step()\n",
    )
    assert 5 <= len(records.ranks[0].of("calls")) <= 9
