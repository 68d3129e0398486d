"""--drop-conv-bias: a bias that a batch normalisation takes out again is neither added nor trained."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.applying import applied

torch = pytest.importorskip("torch")
from torch import distributed, nn

STEPS = 50
PROVEN = 2  # steps after which a bias is dropped


class Net(nn.Module):
    """Convolution `a` feeds a normalisation alone; all others have a reason to keep their bias."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm_a = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.branch, self.norm_branch = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
        self.frozen, self.norm_frozen = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
        self.penalised, self.norm_penalised = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
        self.plain = nn.Conv2d(4, 4, 1)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        self.norm_frozen.eval()
        x = self.norm_a(self.a(x)).relu()
        branch = self.branch(x)
        x = self.norm_branch(branch).relu() + branch
        x = self.norm_frozen(self.frozen(x)).relu()
        x = self.norm_penalised(self.penalised(x)).relu()
        return self.head(self.plain(x).relu().mean((2, 3)))


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def losses(module: Any, steps: int = STEPS, autocast: bool = False) -> list[float]:
    """Plain SGD without weight decay: the bias that is dropped stays where it was, but for rounding."""
    optimizer = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9)
    found = []
    for _ in range(steps):
        images = torch.randn(8, 3, 6, 6)
        with torch.autocast("cpu", enabled=autocast):
            scores = module(images)
        loss = nn.functional.cross_entropy(scores.float(), images.mean((1, 2, 3)).gt(0).long())
        if isinstance(module, Net):
            loss = loss + 1e-3 * module.penalised.bias.square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("autocast", [False, True])
def test_only_a_bias_that_is_redundant_is_dropped(autocast: bool) -> None:
    with applied("drop_conv_bias") as told:
        module = net()
        losses(module, PROVEN + 1, autocast)
    trained = {name for name, p in module.named_parameters() if name.endswith("bias") and p.requires_grad}
    assert trained == {name for name, _ in net().named_parameters() if name.endswith("bias")} - {"a.bias"}
    (place,) = told.applied
    assert place["at"]["function"] == "__init__"
    assert {place["because"] for place in told.left_alone} == {
        "something else uses its output, too",
        "something else uses its bias, too",
    }


def test_losses_agree_within_rounding() -> None:
    original = losses(net())
    with applied("drop_conv_bias"):
        assert losses(net()) == pytest.approx(original, rel=1e-4)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_checkpoints_and_what_eval_mode_puts_out_stay_true(momentum: float | None) -> None:
    def trained() -> Any:
        module = net()
        module.norm_a.momentum = momentum
        losses(module)
        return module.eval()

    original = trained()
    images = torch.ones(2, 3, 6, 6)
    with applied("drop_conv_bias"):
        tweaked = trained()
        inside = tweaked(images)
    expected = original.state_dict()
    assert list(tweaked.state_dict()) == list(expected)
    for name, value in tweaked.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(tweaked(images), inside)  # without the tweak
    torch.testing.assert_close(inside, original(images), rtol=1e-3, atol=1e-4)


def test_the_bias_is_not_added_in_train_mode() -> None:
    seen: list[Any] = []
    with applied("drop_conv_bias"):
        module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
        losses(module, PROVEN)
        with torch.no_grad():
            module[0].weight.zero_()
            module[0].bias.fill_(1)
        module[0].register_forward_hook(lambda conv, args, output: seen.append(output.sum().item()))
        module(torch.ones(1, 3, 6, 6))
        module.eval()
        module(torch.ones(1, 3, 6, 6))
    assert seen == [0, 144]


def test_a_copy_keeps_its_bias() -> None:
    with applied("drop_conv_bias"):
        module = net()
        losses(module, PROVEN)
        twin = copy.deepcopy(module)
        assert torch.equal(twin.a.bias, module.a.bias)
        twin(torch.ones(2, 3, 6, 6))


def test_an_output_that_goes_elsewhere_later_gets_its_bias_back() -> None:
    with applied("drop_conv_bias") as told:
        module = net()
        losses(module, PROVEN)
        module.a(torch.ones(1, 3, 6, 6))
        losses(module, 1)
        with torch.no_grad():
            module.a.weight.zero_()
        assert torch.equal(module.a(torch.ones(1, 3, 3, 3)).flatten(), module.a.bias)
    assert told.withdrawn[-1]["because"] == "something else uses its output now"


def test_several_processes_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    with applied("drop_conv_bias") as told:
        module = net()
        losses(module, PROVEN)
        assert module.a.bias.requires_grad
    assert not told.applied
    assert any("gradient sync" in place["because"] for place in told.left_alone)


def test_convolutions_without_a_normalisation_are_no_place() -> None:
    with applied("drop_conv_bias") as told:
        losses(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)), PROVEN)
        losses(
            nn.Sequential(nn.Conv2d(3, 4, 1, bias=False), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2)),
            3,
        )
    assert not told.events
