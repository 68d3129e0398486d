"""Landmarks on insect wings (geometric morphometrics): heatmap regression with a small encoder-decoder."""
import json
import math
import time
from collections import defaultdict
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE, STRIDE, N_LANDMARKS = 96, 2, 12
EPOCHS, BATCH, N_TRAIN, N_VAL = 20, 12, 144, 24
RUN_DIR = Path("/tmp/wing_landmarks")


def mean_shape():
    """Vein junctions of the template wing, in [-1, 1]."""
    a = torch.linspace(0, 2 * math.pi, N_LANDMARKS - 3)[:-1]
    outline = torch.stack([0.75 * a.cos(), 0.34 * a.sin()], 1)
    inner = torch.tensor([[-0.4, 0.02], [-0.05, 0.1], [0.25, -0.05], [0.45, 0.08]])
    return torch.cat([outline, inner])


VEINS = [(i, (i + 1) % 8) for i in range(8)] + [(4, 8), (8, 9), (9, 10), (10, 11), (11, 0), (9, 2), (10, 6), (11, 7), (8, 3)]


def render(n, seed):
    """Wings with random pose and shape; returns images (n, 1, SIZE, SIZE) and landmarks (n, N_LANDMARKS, 2) in pixels."""
    g = torch.Generator().manual_seed(seed)
    pts = mean_shape() + 0.035 * torch.randn(n, N_LANDMARKS, 2, generator=g)
    phi = 0.35 * torch.randn(n, generator=g)
    rot = torch.stack([phi.cos(), -phi.sin(), phi.sin(), phi.cos()], 1).view(n, 2, 2)
    pts = pts @ rot.transpose(1, 2) * (0.85 + 0.2 * torch.rand(n, 1, 1, generator=g))
    pts = (pts + 0.08 * torch.randn(n, 1, 2, generator=g) + 1) * (SIZE - 1) / 2
    yy, xx = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    grid = torch.stack([xx, yy], -1).float()
    image = torch.zeros(n, SIZE, SIZE)
    for a, b in VEINS:
        p, d = pts[:, a, None, None], (pts[:, b] - pts[:, a])[:, None, None]
        s = (((grid - p) * d).sum(-1) / d.square().sum(-1)).clamp(0, 1)
        dist2 = (grid - p - s[..., None] * d).square().sum(-1)
        image = torch.maximum(image, torch.exp(-dist2 / 1.5))
    image += 0.15 * torch.randn(n, SIZE, SIZE, generator=g)
    return image[:, None], pts


def heatmaps(pts, sigma=2.0):
    r = torch.arange(SIZE // STRIDE, dtype=torch.float32)
    gx = torch.exp(-(r - pts[..., :1] / STRIDE).square() / (2 * sigma ** 2))
    gy = torch.exp(-(r - pts[..., 1:] / STRIDE).square() / (2 * sigma ** 2))
    return gy[..., :, None] * gx[..., None, :]


def decode(maps):
    prob = F.softmax(maps.flatten(2) * 12, -1).view_as(maps)
    r = torch.arange(maps.shape[-1], dtype=torch.float32) * STRIDE
    return torch.stack([(prob.sum(-2) * r).sum(-1), (prob.sum(-1) * r).sum(-1)], -1)


class ConvUnit(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(cout)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class WingNet(nn.Module):
    def __init__(self, c=20):
        super().__init__()
        self.stem = ConvUnit(1, c, 2)                                               # 48
        self.enc1 = nn.Sequential(ConvUnit(c, c), ConvUnit(c, 2 * c, 2))            # 24
        self.enc2 = nn.Sequential(ConvUnit(2 * c, 2 * c), ConvUnit(2 * c, 4 * c, 2))  # 12
        self.mid = nn.Sequential(ConvUnit(4 * c, 4 * c), ConvUnit(4 * c, 2 * c))
        self.dec2 = ConvUnit(4 * c, 2 * c)
        self.dec1 = ConvUnit(3 * c, c)
        self.head = nn.Conv2d(c, N_LANDMARKS, 1)

    def forward(self, x):
        s = self.stem(x)
        e1 = self.enc1(s)
        m = self.mid(self.enc2(e1))
        d2 = self.dec2(torch.cat([e1, F.interpolate(m, scale_factor=2)], 1))
        d1 = self.dec1(torch.cat([s, F.interpolate(d2, scale_factor=2)], 1))
        return self.head(d1)


class ActivationProbe:
    """Sparsity and scale of every ReLU output, to see dying units early."""

    def __init__(self, model):
        self.records = defaultdict(list)
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                module.register_forward_hook(self.make_hook(name))

    def make_hook(self, name):
        def hook(module, inputs, output):
            act = output.detach()
            silent = (act.amax((0, 2, 3)) == 0).float().mean()
            self.records[name].append((act.count_nonzero() / act.numel(), act.std(), silent))
        return hook

    def summary(self):
        return {name: torch.stack([torch.stack(r) for r in rows]).mean(0).tolist() for name, rows in self.records.items()}


@torch.no_grad()
def evaluate(model, images, pts):
    """Mean radial error in pixels on the validation wings, with the activation summary for the run log."""
    model.eval()
    probe = ActivationProbe(model)
    error = 0.0
    for x, p in zip(images.split(BATCH), pts.split(BATCH)):
        error += (decode(model(x)) - p).norm(dim=-1).mean(1).sum().item()
    model.train()
    return error / len(images), probe.summary()


def train_epoch(model, opt, images, pts):
    total = 0.0
    for idx in torch.randperm(len(images)).split(BATCH):
        x = images[idx]
        x = x * (0.8 + 0.4 * torch.rand(len(x), 1, 1, 1))
        target = heatmaps(pts[idx])
        loss = 100 * ((model(x) - target).square() * (1 + 10 * target)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(x)
    return total / len(images)


def main():
    torch.manual_seed(3)
    RUN_DIR.mkdir(exist_ok=True)
    images, pts = render(N_TRAIN, seed=10)
    val_images, val_pts = render(N_VAL, seed=11)
    model = WingNet().to(memory_format=torch.channels_last)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [13, 17], 0.3)

    best, start = float("inf"), time.perf_counter()
    with open(RUN_DIR / "log.jsonl", "w") as run_log:
        for epoch in range(EPOCHS):
            loss = train_epoch(model, opt, images, pts)
            sched.step()
            error, activations = evaluate(model, val_images, val_pts)
            run_log.write(json.dumps({"epoch": epoch, "loss": loss, "error_px": error, "activations": activations}) + "\n")
            if error < best:
                best = error
                torch.save(model.state_dict(), RUN_DIR / "best.pt")
            print(f"[{time.perf_counter() - start:6.1f}s] epoch {epoch:2d}: loss {loss:.3f}, radial error {error:.2f} px", flush=True)


if __name__ == "__main__":
    main()
