"""Self-supervised pre-training (SimCLR) on small flower pictures, judged by a linear probe."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

SIZE = 40


def make_flowers(n, classes, seed):
    """Petal patterns as uint8 images; a class has its number of petals and its colour."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    images = np.empty((n, 3, SIZE, SIZE), dtype=np.uint8)
    labels = rng.integers(0, classes, n)
    hue = np.random.default_rng(5).uniform(0.2, 1.0, (classes, 3))
    for i, y in enumerate(labels):
        cx, cy = rng.uniform(14, 26, 2)
        radius = rng.uniform(8, 13)
        angle = np.arctan2(yy - cy, xx - cx)
        dist = np.hypot(yy - cy, xx - cx)
        petals = radius * (0.6 + 0.4 * np.cos((3 + y) * angle + rng.uniform(0, 6.28)))
        shape = 1 / (1 + np.exp(dist - petals))
        colour = (hue[y] * rng.uniform(0.6, 1.2)).reshape(3, 1, 1)
        img = 0.3 + (colour - 0.3) * shape + rng.normal(0, 0.05, (3, SIZE, SIZE))
        images[i] = (img.clip(0, 1) * 255).astype(np.uint8)
    return torch.from_numpy(images), torch.from_numpy(labels)


class BatchAugment(nn.Module):
    """Random resized crop, flip, brightness and contrast for a whole batch at once."""

    def __init__(self, out_size=32, scale=(0.5, 1.0), jitter=0.4):
        super().__init__()
        self.out_size, self.scale, self.jitter = out_size, scale, jitter

    @torch.no_grad()
    def forward(self, x):
        b = len(x)
        zoom = torch.empty(b).uniform_(*self.scale).sqrt()
        shift = (torch.rand(b, 2) * 2 - 1) * (1 - zoom)[:, None]
        flip = torch.where(torch.rand(b) < 0.5, -1.0, 1.0)
        theta = torch.zeros(b, 2, 3)
        theta[:, 0, 0] = zoom * flip
        theta[:, 1, 1] = zoom
        theta[:, :, 2] = shift
        grid = F.affine_grid(theta, (b, 3, self.out_size, self.out_size), align_corners=False)
        x = F.grid_sample(x, grid, align_corners=False, padding_mode="reflection")
        gain = 1 + self.jitter * (torch.rand(b, 3, 1, 1) * 2 - 1)
        offset = 0.5 * self.jitter * (torch.rand(b, 1, 1, 1) * 2 - 1)
        return x * gain + offset


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.b = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.na(self.a(x)), inplace=True)
        return F.relu(self.nb(self.b(y)) + self.skip(x), inplace=True)


class Encoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            Residual(width, width, 1), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.dim = 4 * width

    def forward(self, x):
        return self.net(x)


def nt_xent(za, zb, temperature=0.2):
    z = F.normalize(torch.cat([za, zb]), dim=1)
    sim = z @ z.T / temperature
    sim.fill_diagonal_(float("-inf"))
    n = len(za)
    target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, target)


def to_float(images):
    return images.float().div_(127.5).sub_(1)


@torch.inference_mode()
def features(encoder, images, batch=256):
    encoder.eval()
    middle = images[:, :, 4:-4, 4:-4]
    out = torch.cat([encoder(to_float(part)) for part in middle.split(batch)])
    encoder.train()
    return out.numpy()


def linear_probe(encoder, train, test):
    clf = LogisticRegression(max_iter=300)
    clf.fit(features(encoder, train[0]), train[1].numpy())
    return clf.score(features(encoder, test[0]), test[1].numpy())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=14)
    p.add_argument("--images", type=int, default=2048)
    p.add_argument("--classes", type=int, default=5)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--log-every", type=int, default=32)
    args = p.parse_args()
    torch.manual_seed(0)

    images, _ = make_flowers(args.images, args.classes, seed=1)
    probe_train = make_flowers(300, args.classes, seed=2)
    probe_test = make_flowers(200, args.classes, seed=3)

    encoder = Encoder()
    head = nn.Sequential(nn.Linear(encoder.dim, 128), nn.ReLU(), nn.Linear(128, 64))
    augment = BatchAugment()
    params = [*encoder.parameters(), *head.parameters()]
    opt = torch.optim.AdamW(params, lr=args.lr, weight_decay=1e-4, foreach=True)
    total = args.epochs * (args.images // args.batch_size)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / args.warmup) * 0.5 * (1 + math.cos(math.pi * s / total)))

    step, start = 0, time.time()
    running = torch.zeros(())
    for epoch in range(args.epochs):
        order = torch.randperm(args.images)
        for idx in order.split(args.batch_size):
            if len(idx) < args.batch_size:
                break
            x = to_float(images[idx])
            z = head(encoder(torch.cat([augment(x), augment(x)])))
            loss = nt_xent(*z.chunk(2))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.detach()
            step += 1
            if step % args.log_every == 0:
                print(f"step {step} loss {running.item() / args.log_every:.4f}", flush=True)
                running.zero_()
    print(f"{step} steps in {time.time() - start:.1f} s")
    print(f"linear probe accuracy {linear_probe(encoder, probe_train, probe_test):.3f}")
    torch.save(encoder.state_dict(), "/tmp/flower_encoder.pt")


if __name__ == "__main__":
    main()
