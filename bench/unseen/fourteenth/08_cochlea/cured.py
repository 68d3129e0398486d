"""3D U-Net for the fluid spaces of the inner ear (scala tympani, scala vestibuli, semicircular canals) in CT volumes.

Patches of 24^3 voxels are drawn so that a given part is centred on one of the structures, as usual with such small targets.
"""
import argparse
import os
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

STRUCTURES = ["background", "tympani", "vestibuli", "canals"]


def spiral(turns, radius, height, points=400, phase=0.0):
    t = np.linspace(0, 1, points)
    r = radius * (1 - 0.7 * t)
    return np.stack([r * np.cos(2 * np.pi * turns * t + phase), r * np.sin(2 * np.pi * turns * t + phase), height * t], 1)


def paint(label, path, width, value):
    """Writes a tube of `width` voxels round the path."""
    offsets = np.stack(np.meshgrid(*[np.arange(-width, width + 1)] * 3, indexing="ij"), -1).reshape(-1, 3)
    offsets = offsets[(offsets ** 2).sum(1) <= width ** 2]
    voxels = (path.round().astype(int)[:, None] + offsets[None]).reshape(-1, 3)
    voxels = np.clip(voxels, 0, np.array(label.shape) - 1)
    label[tuple(voxels.T)] = value


def make_case(rng, shape):
    label = np.zeros(shape, np.uint8)
    centre = np.array(shape) / 2 + rng.uniform(-8, 8, 3)
    paint(label, centre + spiral(2.5, 24, 22), 3, 1)
    paint(label, centre + np.array([0, 0, 6]) + spiral(2.5, 24, 22, phase=0.15), 3, 2)
    angle = np.linspace(0, 2 * np.pi, 300)
    for axis in range(3):
        ring = np.zeros((300, 3))
        ring[:, axis], ring[:, (axis + 1) % 3] = 15 * np.cos(angle), 15 * np.sin(angle)
        paint(label, centre + np.array([28, 20, -12]) + ring, 2, 3)
    grey = np.array([0.1, 0.55, 0.7, 0.85], np.float32)[label]
    image = grey + rng.standard_normal(shape, dtype=np.float32) * 0.25
    return image, label


class PatchDataset(Dataset):
    """Random patches; two thirds of them contain a structure in the middle."""

    def __init__(self, cases, patch=24, length=640, foreground=0.67, seed=0):
        self.cases = cases
        self.places = [
            [np.argwhere(label == c).astype(np.int16) for c in range(1, len(STRUCTURES))]
            for _, label in cases
        ]
        self.patch = patch
        self.length = length
        self.foreground = foreground
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.length

    def pick_centre(self, case):
        image, label = self.cases[case]
        if self.rng.random() < self.foreground:
            wanted = self.rng.integers(1, len(STRUCTURES))
            voxels = self.places[case][wanted - 1]
            return voxels[self.rng.integers(len(voxels))].astype(np.int64)
        return np.array([self.rng.integers(s) for s in label.shape])

    def __getitem__(self, index):
        case = index % len(self.cases)
        image, label = self.cases[case]
        half = self.patch // 2
        low = np.clip(self.pick_centre(case) - half, 0, np.array(label.shape) - self.patch)
        box = tuple(slice(a, a + self.patch) for a in low)
        x, y = image[box], label[box]
        for axis in range(3):
            if self.rng.random() < 0.5:
                x, y = np.flip(x, axis), np.flip(y, axis)
        x = (x * self.rng.uniform(0.9, 1.1) + self.rng.uniform(-0.1, 0.1)).astype(np.float32)
        return torch.from_numpy(np.ascontiguousarray(x))[None], torch.from_numpy(y.astype(np.int64))


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv3d(cin, cout, 3, padding=1, bias=False), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01, inplace=True),
        nn.Conv3d(cout, cout, 3, padding=1, bias=False), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01, inplace=True))


class UNet3d(nn.Module):
    def __init__(self, width=8, classes=len(STRUCTURES)):
        super().__init__()
        self.enc1, self.enc2, self.bottom = double_conv(1, width), double_conv(width, 2 * width), double_conv(2 * width, 4 * width)
        self.up2, self.up1 = nn.ConvTranspose3d(4 * width, 2 * width, 2, 2), nn.ConvTranspose3d(2 * width, width, 2, 2)
        self.dec2, self.dec1 = double_conv(4 * width, 2 * width), double_conv(2 * width, width)
        self.out = nn.Conv3d(width, classes, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool3d(a, 2))
        c = self.bottom(F.max_pool3d(b, 2))
        b = self.dec2(torch.cat([self.up2(c), b], 1))
        return self.out(self.dec1(torch.cat([self.up1(b), a], 1)))


def dice_ce(logits, target):
    prob = logits.softmax(1)
    onehot = F.one_hot(target, logits.shape[1]).movedim(-1, 1).to(prob.dtype)
    overlap = (prob * onehot).sum((0, 2, 3, 4))
    total = (prob + onehot).sum((0, 2, 3, 4))
    dice = (2 * overlap + 1e-5) / (total + 1e-5)
    return F.cross_entropy(logits, target) + 1 - dice[1:].mean(), dice.detach()


@torch.no_grad()
def validate(model, case, reach=32):
    """Dice of the middle of a held-out case."""
    model.eval()
    image, label = case
    box = tuple(slice(s // 2 - reach, s // 2 + reach) for s in label.shape)
    pred = model(torch.from_numpy(image[box])[None, None]).argmax(1)[0]
    truth = torch.from_numpy(label[box].astype(np.int64))
    model.train()
    return [2 * ((pred == c) & (truth == c)).sum().item() / max(1, ((pred == c).sum() + (truth == c).sum()).item()) for c in (1, 2, 3)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--out", default="runs/cochlea")
    args = p.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    cases = [make_case(rng, (256, 256, 160)) for _ in range(7)]
    train = PatchDataset(cases[:-1])
    loader = DataLoader(train, batch_size=args.batch, shuffle=True, drop_last=True)
    model = UNet3d()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.PolynomialLR(opt, args.epochs * len(loader), power=0.9)
    os.makedirs(args.out, exist_ok=True)
    step, began = 0, time.time()
    for epoch in range(args.epochs):
        for x, y in loader:
            loss, dice = dice_ce(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 12.0)
            opt.step()
            sched.step()
            step += 1
            if step % 20 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f} dice {dice[1:].mean().item():.3f} {time.time() - began:.1f} s", flush=True)
        print("validation dice " + " ".join(f"{n} {d:.3f}" for n, d in zip(STRUCTURES[1:], validate(model, cases[-1]))), flush=True)
        torch.save({"model": model.state_dict(), "epoch": epoch}, os.path.join(args.out, "last.pt"))


if __name__ == "__main__":
    main()
