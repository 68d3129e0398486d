import argparse
import time

import torch
from torch.utils.data import DataLoader

from datasets import ColonyTiles
from losses import CountLoss
from net import DilatedCounter
from utils import Averager, mae_rmse, seed_all


def parse():
    p = argparse.ArgumentParser(description="penguin counting on aerial tiles")
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--tiles", type=int, default=32)
    p.add_argument("--crops-per-tile", type=int, default=12)
    p.add_argument("--crop", type=int, default=128)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--lr", type=float, default=4e-4)
    p.add_argument("--sigma", type=float, default=3.0)
    p.add_argument("--count-weight", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=7)
    return p.parse_args()


def main():
    a = parse()
    seed_all(a.seed)
    train_ds = ColonyTiles(a.tiles, a.crop, a.crops_per_tile, a.sigma, seed=a.seed, train=True)
    val_ds = ColonyTiles(6, a.crop, 2, a.sigma, seed=a.seed + 1, train=False)
    train = DataLoader(train_ds, a.batch_size, shuffle=True, drop_last=True)
    val = DataLoader(val_ds, a.batch_size)
    net = DilatedCounter()
    loss_fn = CountLoss(a.count_weight)
    opt = torch.optim.Adam(net.parameters(), lr=a.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, a.lr * 3, total_steps=a.epochs * len(train))
    step = 0
    for epoch in range(a.epochs):
        net.train()
        avg, t0 = Averager(), time.time()
        for image, target, count in train:
            density = net(image)
            loss = loss_fn(density, target, count)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            avg.add(loss.item(), image.shape[0])
            if step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {avg.mean:.4f} lr {sched.get_last_lr()[0]:.2e}", flush=True)
        mae, rmse = mae_rmse(net, val)
        print(f"== epoch {epoch} train {avg.mean:.4f} val MAE {mae:.2f} RMSE {rmse:.2f} ({time.time() - t0:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
