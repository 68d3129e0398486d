"""Detects boats in small pictures of a harbour camera: a one-stage detector with anchors on one level."""

# expect: verdict=host finding=tensor-loops

import common
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

KINDS = 5
STRIDE = 8
SHAPES = ((12.0, 12.0), (28.0, 16.0), (44.0, 40.0))


def anchor_boxes(side):
    """Left, top, right, bottom of every anchor: cells of the output grid times shapes."""
    centres = (torch.arange(side // STRIDE) + 0.5) * STRIDE
    y, x = torch.meshgrid(centres, centres, indexing="ij")
    halves = torch.tensor(SHAPES) / 2
    middle = torch.stack([x, y], -1).reshape(-1, 1, 2)
    return torch.cat([middle - halves, middle + halves], -1).reshape(-1, 4)


def pictures(count, side, boxes_each, device):
    """Pictures with boats, as bytes on the device, their boxes and kinds."""
    images = torch.randint(0, 120, (count, 3, side, side), dtype=torch.uint8, device=device)
    corner = torch.rand(count, boxes_each, 2, device=device) * (side - 48)
    size = 8 + torch.rand(count, boxes_each, 2, device=device) * 40
    kinds = torch.randint(1, KINDS + 1, (count, boxes_each), device=device)
    return images.contiguous(memory_format=torch.channels_last), torch.cat([corner, corner + size], -1), kinds


def centre_and_size(boxes):
    return (boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]


def assign(anchors, boxes, kinds):
    """For every anchor: its kind (0 is the sea) and the offsets that turn it into its box."""
    corner = torch.maximum(anchors[:, None, :2], boxes[None, :, :2])
    opposite = torch.minimum(anchors[:, None, 2:], boxes[None, :, 2:])
    common_area = (opposite - corner).clamp(min=0).prod(-1)
    area = centre_and_size(anchors)[1].prod(-1)[:, None] + centre_and_size(boxes)[1].prod(-1)
    overlap = common_area / (area - common_area)
    best, which = overlap.max(1)
    closest = overlap == overlap.max(0, keepdim=True).values
    taken = (best > 0.5) | (closest & (overlap > 0.1)).any(1)
    middle, size = centre_and_size(boxes.index_select(0, which))
    anchor_middle, anchor_size = centre_and_size(anchors)
    offsets = torch.cat([(middle - anchor_middle) / anchor_size, (size / anchor_size).log()], -1)
    return kinds.index_select(0, which) * taken, offsets


class Down(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
        )


class Detector(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.body = nn.Sequential(
            Down(3, width // 4),
            Down(width // 4, width // 2),
            common.Residual(width // 2),
            Down(width // 2, width),
            *(common.Residual(width) for _ in range(blocks)),
        )
        self.kind = nn.Conv2d(width, len(SHAPES) * (KINDS + 1), 1)
        self.offset = nn.Conv2d(width, len(SHAPES) * 4, 1)

    def forward(self, images):
        x = self.body(images)
        kinds = self.kind(x).permute(0, 2, 3, 1).reshape(len(x), -1, KINDS + 1)
        offsets = self.offset(x).permute(0, 2, 3, 1).reshape(len(x), -1, 4)
        return kinds.float(), offsets.float()


class DetectionLoss(nn.Module):
    def __init__(self, anchors):
        super().__init__()
        self.register_buffer("anchors", anchors)

    def forward(self, kind_logits, offsets, boxes, kinds):
        targets = [assign(self.anchors, b, k) for b, k in zip(boxes, kinds, strict=True)]  # <- finding
        # cured: targets = torch.vmap(assign, in_dims=(None, 0, 0))(self.anchors, boxes, kinds)
        wanted_kinds, wanted_offsets = (torch.stack(t) for t in zip(*targets, strict=True))
        # cured: wanted_kinds, wanted_offsets = targets
        found = (wanted_kinds > 0).float()
        classes = F.cross_entropy(kind_logits.flatten(0, 1), wanted_kinds.flatten(), reduction="none")
        places = F.smooth_l1_loss(offsets, wanted_offsets, reduction="none").sum(-1)
        return classes.mean() + (places * found).sum() / found.sum().clamp(min=1)


def main():
    args = common.arguments()
    torch.backends.cudnn.benchmark = True
    side, batch = common.sized(args, 160, 64), common.sized(args, 96, 4)
    images, boxes, kinds = pictures(
        common.sized(args, 8192, 32), side, common.sized(args, 12, 3), args.device
    )
    model = Detector(common.sized(args, 256, 16), common.sized(args, 3, 1))
    model.to(args.device, memory_format=torch.channels_last)
    criterion = DetectionLoss(anchor_boxes(side)).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
    losses = []
    for _ in common.steps(args, losses, batch):
        chosen = torch.randint(len(images), (batch,), device=args.device)
        pixels = images[chosen].float() / 127.5 - 1
        with torch.autocast(args.device, torch.bfloat16):
            kind_logits, offsets = model(pixels)
        loss = criterion(kind_logits, offsets, boxes[chosen], kinds[chosen])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())


if __name__ == "__main__":
    main()
