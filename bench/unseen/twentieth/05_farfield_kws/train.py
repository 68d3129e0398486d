import random
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
import yaml
from torch.utils.data import DataLoader

from corpus import KEYWORDS, write_shards
from model import TemporalResNet
from rooms import RoomBank
from stream import ShardStream


def batches(loader, steps):
    it = iter(loader)
    for step in range(1, steps + 1):
        yield step, next(it)


def main():
    with open("settings.yaml") as f:
        cfg = yaml.safe_load(f)
    random.seed(cfg["seed"])
    np.random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    sr = cfg["sample_rate"]

    with tempfile.TemporaryDirectory() as folder:
        manifest = write_shards(folder, cfg["shards"], cfg["utterances_per_shard"], sr, cfg["seed"])
        rooms = RoomBank(cfg["room"]["count"], cfg["room"]["rt60"], sr, cfg["seed"] + 1)
        loader = DataLoader(ShardStream(manifest, rooms, cfg), batch_size=cfg["batch_size"])

        model = TemporalResNet(cfg["mels"], cfg["channels"], len(KEYWORDS), sr)
        opt = torch.optim.SGD(model.parameters(), lr=cfg["lr"] * 10, momentum=0.9, nesterov=True,
                              weight_decay=cfg["weight_decay"])
        sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / cfg["warmup"]))

        t0, seen, hits, total = time.time(), 0, 0, 0.0
        for step, (wave, label) in batches(loader, cfg["steps"]):
            logits = model(wave)
            loss = F.cross_entropy(logits, label, label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()

            seen += len(label)
            total += loss.item()
            hits += (logits.argmax(1) == label).sum().item()
            if step % cfg["print_every"] == 0:
                n = cfg["print_every"]
                print(f"step {step:4d}  loss {total / n:.4f}  acc {hits / (n * cfg['batch_size']):.3f}  "
                      f"{seen / (time.time() - t0):.1f} utt/s", flush=True)
                hits, total = 0, 0.0


if __name__ == "__main__":
    main()
