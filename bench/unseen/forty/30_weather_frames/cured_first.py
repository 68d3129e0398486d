import os
import tempfile

import numpy as np
import pandas as pd
import torch
import torch.nn as nn

HISTORY, SIDE = 4, 32


def radar(n, seed):
    """Moving rain cells on a torus."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIDE, 0:SIDE]
    pos, vel = rng.uniform(0, SIDE, (5, 2)), rng.normal(0, 0.8, (5, 2))
    frames = np.zeros((n, SIDE, SIDE), dtype=np.float32)
    for t in range(n):
        for (r, c) in pos:
            dr = np.minimum(abs(yy - r), SIDE - abs(yy - r))
            dc = np.minimum(abs(xx - c), SIDE - abs(xx - c))
            frames[t] += np.exp(-(dr**2 + dc**2) / 10)
        pos = (pos + vel) % SIDE
    return list(frames)


class Nowcaster(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(HISTORY, c, 5, padding=2), nn.ReLU(),
            nn.Conv2d(c, c, 5, padding=2, stride=2), nn.ReLU(),
            nn.Conv2d(c, c, 3, padding=1), nn.ReLU(),
            nn.Upsample(scale_factor=2), nn.Conv2d(c, 1, 3, padding=1),
        )

    def forward(self, x):
        return self.net(x)


def batches(frames, size, rng):
    starts = rng.permutation(len(frames) - HISTORY)
    for k in range(0, len(starts) - size + 1, size):
        clips = [frames[s:s + HISTORY + 1] for s in starts[k:k + size]]
        x = torch.tensor([clip[:HISTORY] for clip in clips])
        y = torch.tensor([clip[HISTORY:] for clip in clips])
        yield x, y


class CsvHistory:
    def __init__(self, path):
        self.path = path
        self.rows = []

    def add(self, **row):
        self.rows.append(row)

    def write(self):
        self.table = pd.DataFrame(self.rows)
        self.table.to_csv(self.path, index=False)


def main():
    torch.manual_seed(40)
    frames = radar(1500, 40)
    rng = np.random.default_rng(41)
    model = Nowcaster()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    with tempfile.TemporaryDirectory() as tmp:
        history = CsvHistory(os.path.join(tmp, "history.csv"))
        step = 0
        for epoch in range(8):
            for x, y in batches(frames, 8, rng):
                pred = model(x)
                loss = nn.functional.mse_loss(pred, y)
                opt.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                step += 1
                history.add(step=step, epoch=epoch, loss=loss.item(), mae=(pred - y).abs().mean().item(),
                            grad_norm=norm.item(), lr=opt.param_groups[0]["lr"],
                            **{f"norm.{n}": p.norm().item() for n, p in model.named_parameters()})
            history.write()
            print(f"epoch {epoch} loss {history.table.loss.tail(100).mean():.5f}")


if __name__ == "__main__":
    main()
