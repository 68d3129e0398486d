"""3D shape classifier on voxel grids from an archive."""
import io
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


def write_archive(path, n=300, side=16):
    rng = np.random.default_rng(14)
    z, y, x = np.mgrid[0:side, 0:side, 0:side] - side / 2 + 0.5
    grids, labels = [], []
    for i in range(n):
        kind = i % 4
        r = rng.uniform(3, 6)
        if kind == 0:
            g = x**2 + y**2 + z**2 < r**2
        elif kind == 1:
            g = np.maximum(np.maximum(abs(x), abs(y)), abs(z)) < r * 0.8
        elif kind == 2:
            g = (x**2 + y**2 < r**2) & (abs(z) < r)
        else:
            g = abs(x) + abs(y) + abs(z) < r * 1.4
        noise = rng.random(g.shape) < 0.03
        grids.append((g ^ noise).astype(np.float32))
        labels.append(kind)
    np.savez_compressed(path, grids=np.stack(grids), labels=np.array(labels))


class Voxels(Dataset):
    def __init__(self, path):
        self.path = path
        with np.load(path) as z:
            self.n = len(z["labels"])

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        with np.load(self.path) as z:
            grid, label = z["grids"][i], z["labels"][i]
        return torch.from_numpy(grid)[None], int(label)


class VoxNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv3d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Flatten(),
        )
        self.fc = nn.Sequential(nn.Linear(24 * 64, 1200), nn.ReLU(), nn.Linear(1200, 600), nn.ReLU(), nn.Linear(600, 4))

    def forward(self, x):
        return self.fc(self.conv(x))


class Guard:
    """Goes back to a good state when the loss explodes."""

    def __init__(self, model, opt, limit=20.0):
        self.model, self.opt, self.limit = model, opt, limit
        self.state, self.rollbacks, self.calls = None, 0, 0

    def after_step(self, loss):
        self.calls += 1
        if loss < self.limit:
            self.state = io.BytesIO()
            torch.save({"model": self.model.state_dict(), "opt": self.opt.state_dict()}, self.state)
        elif self.state is not None:
            self.state.seek(0)
            state = torch.load(self.state)
            self.model.load_state_dict(state["model"])
            self.opt.load_state_dict(state["opt"])
            self.rollbacks += 1


def main():
    torch.manual_seed(14)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "voxels.npz")
        write_archive(path)
        loader = DataLoader(Voxels(path), batch_size=6, shuffle=True)
        model = VoxNet()
        opt = torch.optim.Adam(model.parameters(), lr=2e-4)
        guard = Guard(model, opt)
        for epoch in range(9):
            for x, y in loader:
                loss = nn.functional.cross_entropy(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                guard.after_step(loss.item())
            print(f"epoch {epoch} loss {loss.item():.4f} rollbacks {guard.rollbacks}")


if __name__ == "__main__":
    main()
