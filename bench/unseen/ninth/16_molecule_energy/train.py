"""Energies of small molecules with a message passing network.

    python train.py --epochs 2
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from data import TYPES, Molecules, collate
from model import EnergyNet


class Ema:
    """Exponential moving average of the weights, used for validation."""

    def __init__(self, model, decay):
        self.decay = decay
        self.weights = [w.detach().clone() for w in model.parameters()]

    @torch.no_grad()
    def update(self, model):
        torch._foreach_lerp_(self.weights, list(model.parameters()), 1 - self.decay)

    @torch.no_grad()
    def swap(self, model):
        for mine, theirs in zip(self.weights, model.parameters()):
            kept = theirs.detach().clone()
            theirs.copy_(mine)
            mine.copy_(kept)


@torch.no_grad()
def validate(model, loader, mean, std):
    model.eval()
    error, count = torch.zeros(()), 0
    for z, pos, edges, owner, energy in loader:
        pred = model(z, pos, edges, owner, len(energy)) * std + mean
        error += (pred - energy).abs().sum()
        count += len(energy)
    model.train()
    return (error / count).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--molecules", type=int, default=6000)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=28)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--basis", type=int, default=24)
    p.add_argument("--cutoff", type=float, default=3.5)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--log-every", type=int, default=50)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(2)

    train_set = Molecules(args.molecules, args.seed, cutoff=args.cutoff)
    valid_set = Molecules(400, args.seed + 1, cutoff=args.cutoff)
    energies = torch.stack([g[3] for g in train_set.graphs])
    mean, std = energies.mean(), energies.std()
    train = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True,
                       collate_fn=collate)
    valid = DataLoader(valid_set, batch_size=40, collate_fn=collate)

    model = EnergyNet(TYPES, args.width, args.layers, args.basis, args.cutoff)
    ema = Ema(model, 0.99)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * len(train))
    print(f"{len(train_set)} molecules, energies {mean:.3f} +- {std:.3f}")

    step, started, running = 0, time.time(), torch.zeros(())
    for epoch in range(args.epochs):
        for z, pos, edges, owner, energy in train:
            pred = model(z, pos, edges, owner, len(energy))
            loss = F.smooth_l1_loss(pred, (energy - mean) / std)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sched.step()
            ema.update(model)
            running += loss.detach()
            step += 1
            if step % args.log_every == 0:
                print(json.dumps({"step": step, "loss": round(running.item() / args.log_every, 4),
                                  "molecules_per_s": round(step * args.batch_size / (time.time() - started))}),
                      flush=True)
                running.zero_()
        ema.swap(model)
        print(json.dumps({"epoch": epoch, "valid_mae": round(validate(model, valid, mean, std), 4)}), flush=True)
        ema.swap(model)


if __name__ == "__main__":
    main()
