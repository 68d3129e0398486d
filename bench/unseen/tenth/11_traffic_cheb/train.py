"""Traffic speed forecasting on a road sensor graph with Chebyshev spatio-temporal blocks."""
import argparse
import logging
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("traffic")


def simulate(folder, sensors, days, seed):
    """Writes speeds.npy (time, sensors) and adjacency.npy, five minute readings."""
    rng = np.random.default_rng(seed)
    pos = rng.uniform(0, 10, (sensors, 2))
    d = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
    adj = np.exp(-(d / 0.8) ** 2)
    adj[adj < 0.1] = 0
    np.fill_diagonal(adj, 0)
    mix = adj / (adj.sum(1, keepdims=True) + 1e-6)
    t = np.arange(days * 288)
    rush = np.exp(-((t % 288 - 96) / 18.0) ** 2) + 1.2 * np.exp(-((t % 288 - 210) / 24.0) ** 2)
    load = rng.uniform(5, 30, sensors)
    state, speeds = np.zeros(sensors), np.empty((t.size, sensors), np.float32)
    for i in t:
        state = 0.9 * (0.6 * state + 0.4 * mix @ state) + rng.normal(0, 1.5, sensors)
        speeds[i] = 65 - load * rush[i] + state
    np.save(folder / "speeds.npy", speeds)
    np.save(folder / "adjacency.npy", adj.astype(np.float32))


class SpeedWindows(Dataset):
    def __init__(self, speeds, mean, std, past=12, future=6):
        self.z = torch.from_numpy((speeds - mean) / std)
        self.past, self.future = past, future

    def __len__(self):
        return len(self.z) - self.past - self.future + 1

    def __getitem__(self, i):
        j = i + self.past
        return self.z[i:j], self.z[j:j + self.future]


def cheb_supports(adj, order):
    """Chebyshev polynomials of the rescaled graph Laplacian, (order, nodes, nodes)."""
    eye = torch.eye(adj.size(0), device=adj.device, dtype=adj.dtype)
    deg = adj.sum(1).clamp(min=1e-6).pow(-0.5)
    lap = eye - deg[:, None] * adj * deg[None, :]
    lmax = torch.linalg.eigvalsh(lap)[-1]
    scaled = 2.0 / lmax * lap - eye
    polys = [eye, scaled]
    for _ in range(2, order):
        polys.append(2 * scaled @ polys[-1] - polys[-2])
    return torch.stack(polys[:order])


class ChebConv(nn.Module):
    def __init__(self, adj, c_in, c_out, order):
        super().__init__()
        self.order = order
        self.register_buffer("adj", adj)
        self.proj = nn.Linear(order * c_in, c_out)

    def forward(self, x):
        b, t, n, c = x.shape
        supports = cheb_supports(self.adj, self.order)
        flat = x.permute(2, 0, 1, 3).reshape(n, -1)
        mixed = torch.stack([s @ flat for s in supports[1:]])
        mixed = torch.cat([flat[None], mixed]).view(self.order, n, b, t, c)
        return self.proj(mixed.permute(2, 3, 1, 0, 4).flatten(3))


class GatedTime(nn.Module):
    def __init__(self, c_in, c_out, kernel=3):
        super().__init__()
        self.conv = nn.Conv2d(c_in, 2 * c_out, (kernel, 1))

    def forward(self, x):
        a, g = self.conv(x.permute(0, 3, 1, 2)).chunk(2, 1)
        return (torch.tanh(a) * torch.sigmoid(g)).permute(0, 2, 3, 1)


class Block(nn.Module):
    def __init__(self, adj, c_in, c_mid, c_out, order):
        super().__init__()
        self.time1 = GatedTime(c_in, c_mid)
        self.space = ChebConv(adj, c_mid, c_mid, order)
        self.time2 = GatedTime(c_mid, c_out)
        self.norm = nn.LayerNorm(c_out)

    def forward(self, x):
        return self.norm(self.time2(F.relu(self.space(self.time1(x)))))


class STGCN(nn.Module):
    def __init__(self, adj, width, order, past=12, future=6):
        super().__init__()
        self.blocks = nn.Sequential(Block(adj, 1, width, width, order),
                                    Block(adj, width, width, 2 * width, order))
        self.out = nn.Linear(2 * width * (past - 8), future)

    def forward(self, x):
        h = self.blocks(x.unsqueeze(-1))
        return self.out(h.permute(0, 2, 1, 3).flatten(2)).transpose(1, 2)


@torch.no_grad()
def validate(model, loader, std):
    model.eval()
    err, n = 0.0, 0
    for x, y in loader:
        err += (model(x) - y).abs().sum().item()
        n += y.numel()
    model.train()
    return std * err / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--sensors", type=int, default=420)
    p.add_argument("--days", type=int, default=7)
    p.add_argument("--steps-per-epoch", type=int, default=100)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=6)
    p.add_argument("--width", type=int, default=12)
    p.add_argument("--order", type=int, default=3)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(17)

    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp)
        simulate(root, args.sensors, args.days, seed=4)
        speeds = np.load(root / "speeds.npy")
        adj = torch.from_numpy(np.load(root / "adjacency.npy"))
        split = len(speeds) - 144
        mean, std = speeds[:split].mean(), speeds[:split].std()
        train_set = SpeedWindows(speeds[:split], mean, std)
        sampler = torch.utils.data.RandomSampler(
            train_set, num_samples=args.steps_per_epoch * args.batch_size,
            generator=torch.Generator().manual_seed(1))
        train = DataLoader(train_set, args.batch_size, sampler=sampler)
        val = DataLoader(SpeedWindows(speeds[split:], mean, std), 32)

        model = STGCN(adj, args.width, args.order)
        log.info("%d parameters", sum(q.numel() for q in model.parameters()))
        opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
        sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.7)
        best, steps, spent = float("inf"), 0, 0.0
        for epoch in range(args.epochs):
            total, start = torch.zeros(()), time.perf_counter()
            for x, y in train:
                loss = F.huber_loss(model(x), y)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                total += loss.detach()
                steps += 1
            spent += time.perf_counter() - start
            sched.step()
            mae = validate(model, val, float(std))
            log.info("epoch %d loss %.4f val mae %.3f", epoch, total.item() / len(train), mae)
            if mae < best:
                best = mae
                torch.save({"model": model.state_dict(), "mae": mae}, root / "best.pt")
        log.info("finished %d steps, %.2f ms/step", steps, 1000 * spent / steps)


if __name__ == "__main__":
    main()
