import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import make_regression


class Trainer:
    def __init__(self, model, optimizer, out_dir, save_every=200, keep=2):
        self.model = model
        self.optimizer = optimizer
        self.out_dir = out_dir
        self.save_every = save_every
        self.keep = keep
        self.saved = []
        self.step = 0

    def save(self):
        path = os.path.join(self.out_dir, f"ckpt_{self.step:06d}.pt")
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step}, path)
        self.saved.append(path)
        while len(self.saved) > self.keep:
            os.remove(self.saved.pop(0))

    def train_step(self, x, y):
        self.model.train()
        loss = nn.functional.smooth_l1_loss(self.model(x), y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.step += 1
        if self.step % self.save_every == 0:
            self.save()
        return loss.item()


def batches(x, y, size, seed):
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(x))
        for i in range(0, len(x) - size + 1, size):
            idx = torch.from_numpy(order[i:i + size])
            yield x[idx], y[idx]


def main():
    torch.manual_seed(99)
    x, y = make_regression(n_samples=8000, n_features=256, n_informative=60, noise=3.0, random_state=99)
    x = torch.tensor(x, dtype=torch.float32)
    y = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32).unsqueeze(1)

    model = nn.Sequential(nn.Linear(256, 2000), nn.ReLU(), nn.Linear(2000, 2000), nn.ReLU(), nn.Linear(2000, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    stream = batches(x, y, 24, 1)
    with tempfile.TemporaryDirectory() as out_dir:
        trainer = Trainer(model, optimizer, out_dir)
        for step in range(1, 801):
            loss = trainer.train_step(*next(stream))
            if step % 50 == 0:
                print(f"{step:4d} {loss:.5f}")
        trainer.save()


if __name__ == "__main__":
    main()
