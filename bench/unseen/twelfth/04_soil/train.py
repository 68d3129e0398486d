"""Organic carbon, clay and pH from near-infrared soil spectra with a 1-D residual net."""
import argparse
import logging
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, BatchSampler, RandomSampler

log = logging.getLogger("soil")
BANDS = 256


def make_spectra(count, seed=0):
    rng = np.random.default_rng(seed)
    wave = np.linspace(0, 1, BANDS, dtype=np.float32)
    targets = rng.normal(0, 1, (count, 3)).astype(np.float32)
    centres, widths = rng.uniform(0, 1, 12), rng.uniform(0.02, 0.1, 12)
    peaks = np.exp(-((wave - centres[:, None]) / widths[:, None]) ** 2).astype(np.float32)
    mixing = rng.normal(0, 1, (3, 12)).astype(np.float32)
    depth = np.tanh(targets @ mixing + rng.normal(0, 0.2, (count, 12)).astype(np.float32))
    spectra = depth @ peaks + 0.5 * rng.normal(0, 1, (count, 1)).astype(np.float32) * wave
    spectra += rng.normal(0, 0.05, spectra.shape).astype(np.float32)
    spectra = (spectra - spectra.mean(1, keepdims=True)) / spectra.std(1, keepdims=True)
    return torch.from_numpy(spectra).unsqueeze(1), torch.from_numpy(targets)


class ResBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)
        self.conv1 = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.conv2 = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x):
        h = self.conv1(F.relu(self.norm1(x)))
        return x + self.conv2(F.relu(self.norm2(h)))


class SpectraNet(nn.Module):
    def __init__(self, width=64, dilations=(1, 2, 4, 1, 2, 4)):
        super().__init__()
        self.stem = nn.Conv1d(1, width, 7, stride=2, padding=3)
        self.blocks = nn.Sequential(*[ResBlock(width, d) for d in dilations])
        self.norm = nn.GroupNorm(8, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        h = F.relu(self.norm(self.blocks(self.stem(x))))
        return self.head(h.mean(-1))


@torch.inference_mode()
def validate(model, spectra, targets):
    model.eval()
    pred = torch.cat([model(chunk) for chunk in spectra.split(128)])
    r2 = 1 - (pred - targets).pow(2).sum(0) / (targets - targets.mean(0)).pow(2).sum(0)
    model.train()
    return r2.tolist()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=700)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--verbose", action="store_true", help="log at debug level")
    args = ap.parse_args()
    logging.basicConfig(level=logging.DEBUG if args.verbose else logging.INFO,
                        format="%(asctime)s %(levelname)s %(message)s")
    torch.manual_seed(0)
    torch.set_printoptions(precision=6, sci_mode=False)

    spectra, targets = make_spectra(6000)
    train = TensorDataset(spectra[:5600], targets[:5600])
    sampler = BatchSampler(RandomSampler(train), args.batch, drop_last=True)
    loader = DataLoader(train, sampler=sampler, batch_size=None)

    model = SpectraNet()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)

    step, began, running = 0, time.time(), 0.0
    while step < args.steps:
        for x, y in loader:
            pred = model(x)
            loss = F.mse_loss(pred, y)
            opt.zero_grad()
            loss.backward()
            grads = {name: p.grad for name, p in model.named_parameters()}
            log.debug(f"step {step} target {y} pred {pred} grads {grads}")
            opt.step()
            sched.step()
            step += 1
            running += loss.item()
            if step % 50 == 0:
                log.info("step %d loss %.4f %.1fs", step, running / 50, time.time() - began)
                running = 0.0
            if step % 350 == 0:
                log.info("valid r2 %s", validate(model, spectra[5600:], targets[5600:]))
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
