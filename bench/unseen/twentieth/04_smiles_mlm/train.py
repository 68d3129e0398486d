import json
import time
from pathlib import Path

import torch
from torch.nn import functional as F

from data import MaskedBatches
from ema import EMA
from model import Encoder
from tokens import Vocab

HERE = Path(__file__).resolve().parent


def lr_at(step, cfg):
    if step < cfg["warmup"]:
        return cfg["lr"] * (step + 1) / cfg["warmup"]
    return cfg["lr"] * max(0.1, 1 - (step - cfg["warmup"]) / (cfg["steps"] - cfg["warmup"]))


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    hit = n = 0
    for tokens, where, truth in batches:
        logits = model(tokens, where)
        hit += (logits.argmax(-1) == truth).sum().item()
        n += truth.numel()
    model.train()
    return hit / n


def main():
    cfg = json.loads((HERE / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    vocab = Vocab()
    train = MaskedBatches(vocab, cfg["n_molecules"], cfg["length"], cfg["batch"], cfg["mask"], cfg["seed"])
    held = MaskedBatches(vocab, 192, cfg["length"], cfg["batch"], cfg["mask"], cfg["seed"] + 1)
    held_batches = [held.draw() for _ in range(2)]
    model = Encoder(len(vocab), cfg["length"], cfg["width"], cfg["depth"], cfg["heads"])
    ema = EMA(model, cfg["ema"], every=10)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], betas=(0.9, 0.98), weight_decay=0.02, fused=True)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters, vocabulary {len(vocab)}", flush=True)

    t0, seen = time.time(), 0.0
    for step in range(cfg["steps"]):
        for group in opt.param_groups:
            group["lr"] = lr_at(step, cfg)
        for _ in range(cfg["accumulate"]):
            tokens, where, truth = train.draw()
            loss = F.cross_entropy(model(tokens, where), truth) / cfg["accumulate"]
            loss.backward()
            seen += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        ema.update(step)
        if (step + 1) % 10 == 0:
            print(f"step {step + 1:4d} loss {seen / 10:.4f} lr {lr_at(step, cfg):.2e} {time.time() - t0:.1f} s", flush=True)
            seen = 0.0
        if (step + 1) % cfg["eval_every"] == 0:
            print(f"step {step + 1:4d} masked accuracy {evaluate(model, held_batches):.4f} "
                  f"(ema {evaluate(ema.model, held_batches):.4f})", flush=True)
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    torch.save(ema.model.state_dict(), out / "encoder.pt")


if __name__ == "__main__":
    main()
