"""A one-stage detector: each cell of a grid says whether it lies on an object, on which, and in what box."""

# expect: verdict=host finding=tensor-loops

import itertools

import common
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


def overlap(boxes, others):
    """Intersection over union, each box against each of the others."""
    low = torch.maximum(boxes[..., :, None, :2], others[..., None, :, :2])
    high = torch.minimum(boxes[..., :, None, 2:], others[..., None, :, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    areas, other_areas = ((each[..., 2:] - each[..., :2]).prod(-1) for each in (boxes, others))
    return both / (areas[..., :, None] + other_areas[..., None, :] - both + 1e-6)


class GridLoss(nn.Module):
    """Boxes, kinds and presence in cells, against the objects of an image, of which some are padding."""

    def __init__(self, side):
        super().__init__()
        grid = torch.arange(side) / side
        corners = torch.stack(torch.meshgrid(grid, grid, indexing="xy"), -1).flatten(0, 1)
        self.register_buffer("cells", torch.cat([corners - 0.1, corners + 0.1], -1))

    def one(self, said, boxes, kinds, present):
        overlaps, nearest = overlap(self.cells, boxes).mul(present[..., None, :]).max(-1)
        on = (overlaps > 0.3).float()
        wanted = boxes.gather(-2, nearest[..., None].expand(*nearest.shape, 4)) - self.cells
        boxed = F.smooth_l1_loss(said[..., 1:5], wanted, reduction="none").mean(-1)
        chances = said[..., 5:].log_softmax(-1)
        named = -chances.gather(-1, kinds.gather(-1, nearest)[..., None])[..., 0]
        seen = F.binary_cross_entropy_with_logits(said[..., 0], on, reduction="none")
        count = on.sum(-1).clamp(min=1)
        return seen.mean(-1) + ((boxed + named) * on).sum(-1) / count

    def forward(self, said, boxes, kinds, present):
        images = zip(said, boxes, kinds, present, strict=True)
        each = [self.one(*image) for image in images]  # <- finding
        # cured: each = list(self.one(said, boxes, kinds, present)[None])
        return torch.stack(each).mean()


def down(ins, outs):
    """Half the size."""
    return [nn.Conv2d(ins, outs, 3, 2, 1, bias=False), nn.BatchNorm2d(outs), nn.ReLU(inplace=True)]


class Detector(nn.Module):
    def __init__(self, width, kinds):
        super().__init__()
        sizes = (width, 2 * width, 4 * width, 8 * width)
        stages = [[*down(a, b), common.Residual(b)] for a, b in itertools.pairwise(sizes)]
        self.body = nn.Sequential(*down(3, width), *(part for stage in stages for part in stage))
        self.head = nn.Conv2d(8 * width, 5 + kinds, 1)

    def forward(self, images):
        return self.head(self.body(images)).flatten(2).transpose(1, 2).float()


args = common.arguments()
size, side, width, objects = common.sized(args, (24, 512, 48, 24), (2, 64, 8, 3))
with torch.device(args.device):
    model = Detector(width, 20).to(torch.bfloat16, memory_format=torch.channels_last)
    criterion = GridLoss(side // 16)
    photos = torch.randint(256, (4, size, 3, side, side), dtype=torch.uint8)
    corners = torch.rand(4, size, objects, 2) * 0.8
    boxes = torch.cat([corners, corners + torch.rand_like(corners) * 0.15 + 0.05], -1)
    kinds, present = torch.randint(20, (4, size, objects)), (torch.rand(4, size, objects) < 0.6).float()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4, fused=True)
total = torch.zeros((), device=args.device)
for step in common.steps(args, samples=size):
    batch = step % len(photos)
    images = photos[batch].to(torch.bfloat16, memory_format=torch.channels_last).div_(128).sub_(1)
    loss = criterion(model(images), boxes[batch], kinds[batch], present[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach()
    if step % 100 == 99:
        print(f"step {step}: loss {total.item() / (step + 1):.3f}")
