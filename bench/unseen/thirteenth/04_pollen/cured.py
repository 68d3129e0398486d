"""Self-supervised features for pollen grains: BYOL (Grill et al. 2020) on 48 px crops, k-NN probe now and then."""
import argparse
import copy
import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 48


def pollen(n, seed, n_taxa=6):
    """uint8 images (n, 3, SIZE, SIZE) and taxon: the taxa differ in lobes, spines, wall thickness and colour."""
    g = torch.Generator().manual_seed(seed)
    taxon = torch.randint(n_taxa, (n,), generator=g)
    tt = taxon.view(n, 1, 1).float()
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, SIZE), torch.linspace(-1, 1, SIZE), indexing="ij")
    shift = 0.1 * torch.randn(n, 2, 1, 1, generator=g)
    y, x = yy - shift[:, 0], xx - shift[:, 1]
    radius, angle = (x ** 2 + y ** 2).sqrt(), torch.atan2(y, x) + 6.28 * torch.rand(n, 1, 1, generator=g)
    edge = 0.6 + 0.04 * (tt % 3) * torch.cos((3 + tt) * angle) + 0.05 * torch.randn(n, 1, 1, generator=g)
    wall = torch.exp(-((radius - edge) / (0.05 + 0.02 * (tt % 2))).square())
    body = torch.sigmoid((edge - radius) * 20) * (0.5 + 0.15 * torch.cos((6 + 4 * tt) * radius + tt))
    tint = torch.stack([0.9 - 0.05 * taxon, 0.7 + 0.03 * taxon, 0.4 + 0.04 * taxon], 1).view(n, 3, 1, 1)
    image = 0.9 - (0.6 * body + 0.5 * wall)[:, None] * tint + 0.05 * torch.randn(n, 3, SIZE, SIZE, generator=g)
    return (image.clamp(0, 1) * 255).to(torch.uint8), taxon


class TwoViews:
    """Random resized crop, flip, rotation, colour jitter; each image of the batch has its own parameters."""

    def __init__(self, scale=(0.55, 1.0), jitter=0.3):
        self.scale, self.jitter = scale, jitter

    def view(self, x):
        n = len(x)
        zoom = torch.empty(n).uniform_(*self.scale).sqrt()
        phi = torch.empty(n).uniform_(-math.pi, math.pi)
        flip = torch.randint(2, (n,)) * 2.0 - 1
        room = (1 - zoom)[:, None] * torch.empty(n, 2).uniform_(-1, 1)
        rot = torch.stack([flip * phi.cos(), -phi.sin(), flip * phi.sin(), phi.cos()], 1).view(n, 2, 2) * zoom[:, None, None]
        theta = torch.cat([rot, room[:, :, None]], 2)
        x = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), padding_mode="reflection", align_corners=False)
        gain = 1 + self.jitter * torch.empty(n, 3, 1, 1).uniform_(-1, 1)
        x = (x - 0.5) * gain + self.jitter * torch.empty(n, 1, 1, 1).uniform_(-0.5, 0.5)
        return x.contiguous(memory_format=torch.channels_last)

    def __call__(self, batch):
        x = (batch.float() / 255).contiguous(memory_format=torch.channels_last)
        return self.view(x), self.view(x)


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x), inplace=True)


def mlp(d_in, d_hidden, d_out):
    return nn.Sequential(nn.Linear(d_in, d_hidden), nn.BatchNorm1d(d_hidden), nn.ReLU(inplace=True), nn.Linear(d_hidden, d_out))


class Encoder(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, c, 3, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(Residual(c, c, 1), Residual(c, 2 * c, 2), Residual(2 * c, 4 * c, 2))
        self.project = mlp(4 * c, 256, 64)

    def features(self, x):
        return self.blocks(self.stem(x)).mean((2, 3))

    def forward(self, x):
        return self.project(self.features(x))


class BYOL(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = Encoder()
        self.predict = mlp(64, 128, 64)
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad_(False)

    def forward(self, a, b):
        p_a, p_b = self.predict(self.online(a)), self.predict(self.online(b))
        with torch.no_grad():
            z_a, z_b = self.target(a), self.target(b)
        return 2 - F.cosine_similarity(p_a, z_b).mean() - F.cosine_similarity(p_b, z_a).mean()

    @torch.no_grad()
    def update_target(self, tau):
        for p, q in zip(self.online.parameters(), self.target.parameters()):
            q.data.mul_(tau).add_(p.data, alpha=1 - tau)


@torch.no_grad()
def knn_accuracy(encoder, bank, bank_y, query, query_y, k=10):
    encoder.eval()
    embed = lambda imgs: F.normalize(torch.cat([encoder.features(c.float() / 255 - 0.5) for c in imgs.split(128)]), dim=1)
    near = (embed(query) @ embed(bank).T).topk(k, dim=1).indices
    encoder.train()
    return (bank_y[near].mode(1).values == query_y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=240)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--lr", type=float, default=0.06)
    ap.add_argument("--tau", type=float, default=0.97)
    ap.add_argument("--ckpt", default="/tmp/pollen_byol.pt")
    args = ap.parse_args()
    torch.manual_seed(0)

    images, taxon = pollen(3000, seed=1)
    probe_x, probe_y = pollen(120, seed=2)
    model, views = BYOL().to(memory_format=torch.channels_last), TwoViews()
    trainable = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.SGD(trainable, lr=args.lr, momentum=0.9, weight_decay=1e-4)
    warmup = 20
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / warmup) * 0.5 * (1 + math.cos(math.pi * s / args.steps)))

    tic = time.time()
    for step in range(args.steps):
        a, b = views(images[torch.randint(len(images), (args.batch,))])
        loss = model(a, b)
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(trainable, 5.0)
        opt.step()
        sched.step()
        tau = 1 - (1 - args.tau) * 0.5 * (1 + math.cos(math.pi * step / args.steps))
        model.update_target(tau)
        print(f"{step:4d} loss {loss.item():.4f} grad {norm.item():.3f} tau {tau:.4f} {time.time() - tic:.1f}s", flush=True)

        if (step + 1) % 80 == 0:
            acc = knn_accuracy(model.online, images[:600], taxon[:600], probe_x, probe_y)
            print(f"     knn accuracy {acc:.3f}", flush=True)
            torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "step": step}, args.ckpt + ".tmp")
            os.replace(args.ckpt + ".tmp", args.ckpt)


if __name__ == "__main__":
    main()
