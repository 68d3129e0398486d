"""Contrastive pre-training (SimCLR) on windows of a wrist accelerometer + gyroscope."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

CHANNELS, LENGTH, ACTIVITIES = 6, 128, 7


def synth_windows(n, gen):
    y = torch.randint(ACTIVITIES, (n,), generator=gen)
    t = torch.arange(LENGTH) / 50
    freq = 0.6 + 0.5 * y[:, None, None] + 0.1 * torch.randn(n, 1, 1, generator=gen)
    phase = 2 * math.pi * torch.rand(n, CHANNELS, 1, generator=gen)
    gain = torch.linspace(0.4, 1.4, CHANNELS)[None, :, None].roll(1, 1)
    x = gain * torch.sin(2 * math.pi * freq * t + phase)
    x += 0.3 * torch.sin(4 * math.pi * freq * t + 2 * phase) * (y % 2)[:, None, None]
    return x + 0.35 * torch.randn(n, CHANNELS, LENGTH, generator=gen), y


def augment(x):
    """Jitter, per-channel scaling, a blanked stretch of time and a random sign flip, batchwise."""
    n = len(x)
    x = x * (1 + 0.2 * torch.randn(n, CHANNELS, 1)) + 0.05 * torch.randn_like(x)
    begin = torch.randint(LENGTH - 24, (n, 1, 1))
    pos = torch.arange(LENGTH)
    x = x.masked_fill((pos >= begin) & (pos < begin + 24), 0.0)
    return x * (torch.randint(0, 2, (n, 1, 1)) * 2 - 1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 7, stride, 3, bias=False)
        self.conv2 = nn.Conv1d(cout, cout, 7, 1, 3, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm1d(cout), nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.skip(x) + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class Encoder(nn.Module):
    def __init__(self, width, out=64):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(CHANNELS, width, 7, 2, 3), ResBlock(width, width, 1),
                                  ResBlock(width, 2 * width, 2), ResBlock(2 * width, 2 * width, 2))
        self.project = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, out))

    def features(self, x):
        return self.body(x).mean(-1)

    def forward(self, x):
        return F.normalize(self.project(self.features(x)), dim=1)


def nt_xent(z, temperature):
    n = len(z) // 2
    sim = z @ z.T / temperature
    sim.fill_diagonal_(-1e9)
    partner = torch.arange(2 * n).roll(n)
    return F.cross_entropy(sim, partner)


@torch.inference_mode()
def knn_accuracy(encoder, bank_x, bank_y, test_x, test_y, k=15):
    encoder.eval()
    bank = F.normalize(torch.cat([encoder.features(c) for c in bank_x.split(256)]), dim=1)
    test = F.normalize(torch.cat([encoder.features(c) for c in test_x.split(256)]), dim=1)
    encoder.train()
    votes = F.one_hot(bank_y[(test @ bank.T).topk(k).indices], ACTIVITIES).sum(1)
    return (votes.argmax(1) == test_y).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--windows", type=int, default=2048)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--temperature", type=float, default=0.2)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--probe-every", type=int, default=5)
    p.add_argument("--out", default="/tmp/sensor_encoder.pt")
    args = p.parse_args()

    torch.manual_seed(4)
    gen = torch.Generator().manual_seed(4)
    x, y = synth_windows(args.windows, gen)
    test_x, test_y = synth_windows(256, gen)

    # whole batches are indexed out of the tensors at once, nothing is collated
    sampler = BatchSampler(RandomSampler(range(len(x))), args.batch_size, drop_last=True)
    loader = DataLoader(TensorDataset(x), sampler=sampler, batch_size=None)
    encoder = Encoder(args.width)
    opt = torch.optim.AdamW(encoder.parameters(), lr=args.lr, weight_decay=1e-4, fused=True)
    steps = args.epochs * len(loader)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=steps)

    step, start = 0, time.time()
    for epoch in range(args.epochs):
        running = torch.zeros(())
        for (batch,) in loader:
            z = encoder(torch.cat([augment(batch), augment(batch)]))
            loss = nt_xent(z, args.temperature)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.detach()
            step += 1
        print(f"epoch {epoch:2d}  nt-xent {running.item() / len(loader):.4f}  "
              f"{step / (time.time() - start):.2f} steps/s", flush=True)
        if (epoch + 1) % args.probe_every == 0:
            acc = knn_accuracy(encoder, x[:1024], y[:1024], test_x, test_y)
            print(f"epoch {epoch:2d}  knn accuracy {acc:.3f}", flush=True)
            torch.save(encoder.state_dict(), args.out)


if __name__ == "__main__":
    main()
