import json
import os
import time

import torch


class RunLog:
    """Keeps the history of a run in one JSON file that survives a crash."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, "history.json")
        self.records = []
        self.started = time.time()

    @staticmethod
    def describe(names, grads):
        norms = torch.stack(torch._foreach_norm(grads)).tolist()
        peaks = torch.stack(torch._foreach_norm(grads, float("inf"))).tolist()
        return {n: {"norm": a, "peak": b} for n, a, b in zip(names, norms, peaks)}

    def write(self, step, scalars, grads):
        self.records.append({"step": step, "elapsed": time.time() - self.started, **scalars, "grads": grads})
        with open(self.path + ".tmp", "w") as f:
            json.dump(self.records, f, indent=1)
        os.replace(self.path + ".tmp", self.path)
