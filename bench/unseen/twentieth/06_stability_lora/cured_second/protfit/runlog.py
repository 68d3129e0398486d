import json
import os
import time

import torch


class RunLog:
    """Keeps the history of a run in one JSON-lines file that survives a crash."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, "history.jsonl")
        self.started = time.time()

    @staticmethod
    def describe(names, grads):
        norms = torch.stack(torch._foreach_norm(grads)).tolist()
        peaks = torch.stack(torch._foreach_norm(grads, float("inf"))).tolist()
        return {n: {"norm": a, "peak": b} for n, a, b in zip(names, norms, peaks)}

    def write(self, step, scalars, grads):
        record = {"step": step, "elapsed": time.time() - self.started, **scalars, "grads": grads}
        with open(self.path, "a") as f:
            f.write(json.dumps(record) + "\n")
