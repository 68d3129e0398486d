"""Train a small keyword spotter on one-second clips."""
import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from speech_cured import KeywordNet, ToneWords


def parse_args():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--classes", type=int, default=12)
    p.add_argument("--train-clips", type=int, default=1600)
    p.add_argument("--val-clips", type=int, default=256)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--weight-decay", type=float, default=1e-4)
    p.add_argument("--label-smoothing", type=float, default=0.1)
    p.add_argument("--log-every", type=int, default=25)
    p.add_argument("--out", type=Path, default=Path("/tmp/keyword_spotting"))
    p.add_argument("--seed", type=int, default=7)
    return p.parse_args()


class RunningMean:
    def __init__(self):
        self.total = torch.zeros(())
        self.count = 0

    def add(self, value):
        self.total += value.detach()
        self.count += 1

    def pop(self):
        mean = (self.total / max(self.count, 1)).item()
        self.total.zero_()
        self.count = 0
        return mean


def train_epoch(model, loader, opt, sched, args, epoch):
    model.train()
    meter = RunningMean()
    for i, (mel, label) in enumerate(loader, 1):
        loss = F.cross_entropy(model(mel), label, label_smoothing=args.label_smoothing)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        meter.add(loss)
        if i % args.log_every == 0:
            print(f"epoch {epoch} {i:4d}/{len(loader)} loss {meter.pop():.4f}", flush=True)


@torch.inference_mode()
def accuracy(model, loader):
    model.eval()
    hits = torch.zeros((), dtype=torch.long)
    for mel, label in loader:
        hits += (model(mel).argmax(1) == label).sum()
    return hits.item() / len(loader.dataset)


def main():
    args = parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    train_loader = DataLoader(ToneWords(args.train_clips, args.classes, 1, train=True), args.batch_size,
                              shuffle=True, drop_last=True)
    val_loader = DataLoader(ToneWords(args.val_clips, args.classes, 2), 64)
    model = KeywordNet(args.classes)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * len(train_loader))

    best, history = 0.0, []
    for epoch in range(args.epochs):
        begin = time.time()
        train_epoch(model, train_loader, opt, sched, args, epoch)
        acc = accuracy(model, val_loader)
        history.append({"epoch": epoch, "acc": acc, "seconds": round(time.time() - begin, 2)})
        print(f"epoch {epoch} val acc {acc:.3f} ({history[-1]['seconds']} s)", flush=True)
        if acc > best:
            best = acc
            torch.save(model.state_dict(), args.out / "best.pt")
    (args.out / "history.json").write_text(json.dumps(history, indent=1))
    print(f"best {best:.3f}")


if __name__ == "__main__":
    main()
