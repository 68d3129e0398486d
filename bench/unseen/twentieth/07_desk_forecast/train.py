import argparse

import torch

from network import Forecaster
from objectives import information_coefficient, joint_nll, turnover_penalty
from universe import Windows, simulate


@torch.no_grad()
def validate(model, windows):
    model.eval()
    scores = [information_coefficient(model(h)[0], y) for h, y in windows.ordered(512)]
    model.train()
    return torch.stack(scores).mean().item()


def run(args):
    torch.manual_seed(args.seed)
    panel = simulate(args.days, args.names, args.seed)
    split = int(args.days * 0.9)
    train, valid = Windows(panel, args.lookback, 0, split), Windows(panel, args.lookback, split, args.days)
    model = Forecaster(args.names, args.width, args.factors, args.depth)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)

    for epoch in range(args.epochs):
        running = torch.zeros(())
        for hist, nxt in train.batches(args.batch, args.per_epoch, args.seed * 100 + epoch):
            mean, cov = model(hist)
            loss = joint_nll(mean, cov, nxt) + args.turnover * turnover_penalty(mean)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            running += loss.detach()
        print(f"epoch {epoch:2d}  nll {running.item() / args.per_epoch:.4f}  ic {validate(model, valid):+.4f}", flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--days", type=int, default=2500)
    p.add_argument("--names", type=int, default=128)
    p.add_argument("--lookback", type=int, default=24)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--depth", type=int, default=4)
    p.add_argument("--factors", type=int, default=6)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--epochs", type=int, default=15)
    p.add_argument("--per-epoch", type=int, default=20)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--turnover", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=3)
    run(p.parse_args())
