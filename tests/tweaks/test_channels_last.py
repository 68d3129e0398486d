"""--channels-last: images and convolutions lie in memory with the channels innermost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.applying import applied
from tests.support.surroundings import alone, hidden_from_compiler

torch = pytest.importorskip("torch")

from torch import _dynamo as dynamo
from torch import nn

STEPS = 50
NHWC = torch.channels_last


class Images(nn.Module):
    """Notes how its images and feature maps lie in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.last = nn.Linear(8, 4)

    def forward(self, images: Any) -> Any:
        features = torch.relu(self.norm(self.first(images)))
        self.in_order = images.is_contiguous(memory_format=NHWC), features.is_contiguous(memory_format=NHWC)
        return self.last(features.mean((2, 3)))


def model() -> Images:
    torch.manual_seed(0)
    return Images()


def losses(module: Any) -> list[float]:
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    found = []
    for _ in range(STEPS):
        images = torch.randn(8, 3, 8, 8, generator=generator)
        loss = nn.functional.cross_entropy(module(images), images.sum((1, 2, 3)).gt(0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def changed(told: Any) -> list[str]:
    return [place["what"] for place in told.applied]


def test_images_weights_and_feature_maps_are_channels_last() -> None:
    module = model()
    weight, shape = module.first.weight, module.first.weight.shape
    with applied("channels_last") as told:
        module(torch.ones(2, 3, 8, 8))
    assert module.in_order == (True, True)
    assert weight.is_contiguous(memory_format=NHWC)
    assert module.first.weight is weight
    assert weight.shape == shape
    assert changed(told) == ["Images", "argument 1 of Images"]
    for place in told.applied:
        assert (place["was"], place["now"], place["at"]["file"]) == ("NCHW", "NHWC", __file__)


def test_weights_of_three_dimensional_convolutions_stay_as_they_are() -> None:
    module = model()
    module.depth = nn.Conv3d(3, 2, 1)
    with applied("channels_last") as told:
        module(torch.ones(2, 3, 8, 8))
    assert module.first.weight.is_contiguous(memory_format=NHWC)
    assert module.depth.weight.is_contiguous()
    assert changed(told) == ["Images, but for its 5-D tensors", "argument 1 of Images"]


def test_after_fifty_steps_the_losses_differ_by_rounding_only() -> None:
    original = losses(model())
    with applied("channels_last"):
        tweaked = losses(model())
    assert tweaked == pytest.approx(original, rel=1e-3)


def test_checkpoints_hold_the_same_values_under_the_same_names() -> None:
    module = model()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    module.eval()
    with applied("channels_last"), torch.no_grad():
        module(torch.ones(2, 3, 8, 8))
    after = module.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_what_is_no_batch_of_images_goes_in_as_it_is() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Conv2d(3, 2, 1)

        def forward(self, images: Any, words: Any, masks: Any) -> Any:
            return self.part(images).sum() + words.sum(), masks

    words, masks = torch.ones(2, 5), torch.ones(2, 3, 4, 4, dtype=torch.int64)
    with applied("channels_last") as told:
        _, given = Both()(images=torch.ones(2, 3, 4, 4), words=words, masks=masks)
    assert given is masks
    assert changed(told) == ["Both", "argument images of Both"]


def test_images_in_a_container_are_told_by_it() -> None:
    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Conv2d(3, 2, 1)

        def forward(self, batch: Any) -> Any:
            return self.part(batch[0])

    with applied("channels_last") as told:
        First()([torch.ones(2, 3, 4, 4)])
    assert changed(told) == ["First", "list given to First"]


def test_a_compiled_model_keeps_its_graphs() -> None:
    hidden_from_compiler()
    dynamo.reset()
    dynamo.utils.counters.clear()
    module = model()
    with applied("channels_last"):
        losses(torch.compile(module, backend="eager"))
    assert module.first.weight.is_contiguous(memory_format=NHWC)
    assert dict(dynamo.utils.counters["stats"])["unique_graphs"] == 1
    assert not dynamo.utils.counters["graph_break"]


def test_ddp_finds_weights_that_are_channels_last() -> None:
    expected = losses(model())
    with alone(), applied("channels_last") as told:
        module = model()
        wrapper = nn.parallel.DistributedDataParallel(module)
        assert module.first.weight.is_contiguous(memory_format=NHWC)
        assert losses(wrapper) == pytest.approx(expected, rel=1e-3)
    assert module.in_order == (True, True)
    assert changed(told) == ["Images", "argument 1 of Images"]


def test_a_model_without_shapes_yet_is_changed_once_it_has_them() -> None:
    module = nn.LazyConv2d(4, 3)
    with applied("channels_last") as told:
        for _ in range(2):
            module(torch.ones(1, 3, 8, 8))
    assert module.weight.is_contiguous(memory_format=NHWC)
    assert changed(told) == ["Conv2d", "argument 1 of Conv2d"]


@pytest.mark.parametrize(
    ("module", "shape", "because"),
    [
        (nn.Linear(3, 3), (1, 3), "it has no 2-D convolution"),
        (nn.Conv1d(3, 3, 3), (1, 3, 8), "it has no 2-D convolution"),
        (nn.Conv2d(3, 3, 3).to(memory_format=NHWC), (1, 3, 8, 8), "it is already channels-last"),
    ],
    ids=["no convolution", "1-D", "already"],
)
def test_other_models_are_left_alone(module: Any, shape: tuple[int, ...], because: str) -> None:
    x = torch.ones(shape)
    with applied("channels_last") as told:
        module(x)
    assert not told.applied
    assert [place["because"] for place in told.left_alone] == [because]


def test_kernels_of_one_pixel_lie_both_ways_and_their_images_are_converted() -> None:
    module = nn.Conv2d(3, 4, 1)
    with applied("channels_last") as told:
        out = module(torch.ones(2, 3, 8, 8))
    assert out.is_contiguous(memory_format=NHWC)
    assert changed(told) == ["Conv2d", "argument 1 of Conv2d"]
