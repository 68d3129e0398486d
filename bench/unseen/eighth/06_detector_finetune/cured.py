"""Fine-tune only the head of a toy single-shot detector (one square per cell) on a fixed backbone.

python train.py [--steps N]
"""
import argparse
import os
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

GRID, SIZE, KINDS = 6, 96, 3


class Shapes(Dataset):
    """Images with one to four coloured squares. Target: GRID x GRID x (obj, cx, cy, w, kind)."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.images = torch.rand(n, 3, SIZE, SIZE, generator=g) * 0.3
        self.targets = torch.zeros(n, 5, GRID, GRID)
        cell = SIZE // GRID
        for i in range(n):
            for _ in range(int(torch.randint(1, 5, (1,), generator=g))):
                w = int(torch.randint(8, 25, (1,), generator=g))
                x, y = torch.randint(0, SIZE - w, (2,), generator=g).tolist()
                kind = int(torch.randint(KINDS, (1,), generator=g))
                self.images[i, kind, y:y + w, x:x + w] += 0.6
                cx, cy = x + w / 2, y + w / 2
                gx, gy = int(cx // cell), int(cy // cell)
                self.targets[i, :, gy, gx] = torch.tensor(
                    [1.0, cx / cell - gx, cy / cell - gy, w / SIZE, float(kind)])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.targets[i]


class ConvGN(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        super().__init__(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.GroupNorm(8, cout), nn.SiLU())


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(ConvGN(3, 24, 2), ConvGN(24, 48), ConvGN(48, 64, 2),
                                    ConvGN(64, 64), ConvGN(64, 128, 2), ConvGN(128, 128), ConvGN(128, 128, 2))

    def forward(self, x):
        return self.layers(x)


class Head(nn.Module):
    def __init__(self, cin=128):
        super().__init__()
        self.conv = ConvGN(cin, 64)
        self.out = nn.Conv2d(64, 4 + KINDS, 1)

    def forward(self, f):
        return self.out(self.conv(f))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.head = Head()

    def forward(self, x):
        return self.head(self.backbone(x))


def pretrained_backbone(path):
    """Stands in for a download: weights saved by an earlier project."""
    torch.save(Backbone().state_dict(), path)
    return torch.load(path, weights_only=True)


def detection_loss(pred, target):
    obj = target[:, 0]
    hit = obj.bool()
    loss_obj = F.binary_cross_entropy_with_logits(pred[:, 0], obj, pos_weight=torch.tensor(4.0))
    box = torch.sigmoid(pred[:, 1:4]).permute(0, 2, 3, 1)[hit]
    loss_box = F.smooth_l1_loss(box, target[:, 1:4].permute(0, 2, 3, 1)[hit])
    loss_kind = F.cross_entropy(pred[:, 4:].permute(0, 2, 3, 1)[hit], target[:, 4][hit].long())
    return loss_obj + 5 * loss_box + loss_kind


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total = sum(detection_loss(model(x), t).item() for x, t in loader)
    model.train()
    return total / len(loader)


def build_optimizer(model, lr):
    # The backbone is pretrained and stays as it is.
    model.backbone.requires_grad_(False)
    return torch.optim.AdamW(model.head.parameters(), lr=lr, weight_decay=1e-4)


def endless(loader):
    while True:
        yield from loader


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=100)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=21)
    args = ap.parse_args()
    torch.manual_seed(args.seed)

    train = DataLoader(Shapes(480, args.seed), args.batch, shuffle=True, drop_last=True)
    val = DataLoader(Shapes(64, args.seed + 1), 32)
    model = Detector()
    with tempfile.TemporaryDirectory() as tmp:
        model.backbone.load_state_dict(pretrained_backbone(os.path.join(tmp, "backbone.pt")))
    optimizer = build_optimizer(model, args.lr)

    batches = endless(train)
    for step in range(1, args.steps + 1):
        images, targets = next(batches)
        loss = detection_loss(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step} train {loss.item():.3f} val {validate(model, val):.3f}", flush=True)


if __name__ == "__main__":
    main()
