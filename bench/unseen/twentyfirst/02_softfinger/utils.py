import json
import random
import sys
import time
from pathlib import Path

import numpy as np
import torch


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class AverageMeter:
    """Weighted running mean, kept on the device until somebody reads it."""

    def __init__(self):
        self.total = 0.0
        self.weight = 0

    def update(self, value, n=1):
        self.total = self.total + value.detach() * n
        self.weight += n

    @property
    def avg(self):
        return float(self.total) / max(1, self.weight)


class RunLog:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = open(self.folder / "log.jsonl", "w")
        self.t0 = time.time()

    def write(self, **row):
        row["t"] = round(time.time() - self.t0, 2)
        self.file.write(json.dumps(row) + "\n")
        print("  ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()))
        sys.stdout.flush()

    def close(self):
        self.file.close()
