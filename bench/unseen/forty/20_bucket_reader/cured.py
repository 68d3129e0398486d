"""Speech command classifier; the spectrograms lie in an object store."""
import random
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn


class BucketClient:
    """Stands for the client of the object store."""

    def __init__(self, n_objects=600, latency=0.004, seed=5):
        rng = np.random.default_rng(seed)
        self.latency = latency
        self.blobs = {}
        for i in range(n_objects):
            label = i % 10
            spec = rng.normal(size=(20, 40)).astype(np.float32)
            spec[label * 2: label * 2 + 2] += 1.0
            self.blobs[f"clips/{i:05d}.bin"] = bytes([label]) + spec.tobytes()

    def keys(self):
        return sorted(self.blobs)

    def get(self, key):
        time.sleep(self.latency)
        return self.blobs[key]


def parse(blob):
    return torch.from_numpy(np.frombuffer(blob, dtype=np.float32, offset=1).reshape(20, 40).copy()), blob[0]


class ClipLoader:
    def __init__(self, client, batch_size, seed):
        self.client = client
        self.keys = client.keys()
        self.batch_size = batch_size
        self.rnd = random.Random(seed)
        self.pool = ThreadPoolExecutor(20)

    def __iter__(self):
        self.rnd.shuffle(self.keys)
        groups = [self.keys[i:i + self.batch_size]
                  for i in range(0, len(self.keys) - self.batch_size + 1, self.batch_size)]
        pending = [self.pool.submit(self.client.get, k) for k in groups[0]]
        for n in range(len(groups)):
            ready = pending
            if n + 1 < len(groups):
                pending = [self.pool.submit(self.client.get, k) for k in groups[n + 1]]
            clips = [parse(f.result()) for f in ready]
            yield torch.stack([c for c, _ in clips]).unsqueeze(1), torch.tensor([y for _, y in clips])


class CommandNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(64 * 5 * 10, 128), nn.ReLU(), nn.Linear(128, 10),
        )

    def forward(self, x):
        return self.body(x)


def main():
    torch.manual_seed(5)
    loader = ClipLoader(BucketClient(), batch_size=20, seed=1)
    model = CommandNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(9):
        losses = []
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f}")


if __name__ == "__main__":
    main()
