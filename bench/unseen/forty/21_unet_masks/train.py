"""Segmentation of blobs with a small U-Net."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    def __init__(self, n=480, size=40, seed=0):
        self.n, self.size, self.seed = n, size, seed
        self.rows, self.cols = np.mgrid[0:size, 0:size]

    def __len__(self):
        return self.n

    def elastic(self, img, mask, rng):
        """Small smooth deformation, the same for image and mask."""
        s = self.size
        field = rng.normal(size=(2, 5, 5)) * 2
        grid = np.linspace(0, 4, s)
        out_i, out_m = np.empty_like(img), np.empty_like(mask)
        for r in range(s):
            r0 = min(int(grid[r]), 3)
            fr = grid[r] - r0
            for c in range(s):
                c0 = min(int(grid[c]), 3)
                fc = grid[c] - c0
                d = (field[:, r0, c0] * (1 - fr) * (1 - fc) + field[:, r0 + 1, c0] * fr * (1 - fc)
                     + field[:, r0, c0 + 1] * (1 - fr) * fc + field[:, r0 + 1, c0 + 1] * fr * fc)
                rr = min(max(int(r + d[0]), 0), s - 1)
                cc = min(max(int(c + d[1]), 0), s - 1)
                out_i[r, c] = img[rr, cc]
                out_m[r, c] = mask[rr, cc]
        return out_i, out_m

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        mask = np.zeros((self.size, self.size))
        for _ in range(3):
            r, c = rng.uniform(5, self.size - 5, 2)
            rad = rng.uniform(3, 7)
            mask[(self.rows - r) ** 2 + (self.cols - c) ** 2 < rad ** 2] = 1
        img = mask + 0.6 * rng.normal(size=mask.shape)
        img, mask = self.elastic(img, mask, rng)
        return torch.from_numpy(img)[None], torch.from_numpy(mask)[None]


def conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(),
                         nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.a, self.b, self.m = conv(1, c), conv(c, 2 * c), conv(2 * c, 4 * c)
        self.ub, self.ua = conv(6 * c, 2 * c), conv(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        m = self.m(F.max_pool2d(b, 2))
        h = self.ub(torch.cat([b, F.interpolate(m, scale_factor=2)], 1))
        return self.out(self.ua(torch.cat([a, F.interpolate(h, scale_factor=2)], 1)))


def dice(logits, y):
    p = logits.sigmoid()
    return 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)


def main():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    loader = DataLoader(Blobs(), batch_size=8, shuffle=True)
    model = UNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(3):
        total = 0.0
        for x, y in loader:
            logits = model(x)
            loss = F.binary_cross_entropy_with_logits(logits, y) + dice(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
