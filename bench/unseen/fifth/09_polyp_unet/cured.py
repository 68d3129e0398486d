import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.ndimage import gaussian_filter
from torch.utils.data import DataLoader, Dataset

SIZE = 48
EPOCHS = 240


def make_case(rng):
    yy, xx = np.mgrid[:SIZE, :SIZE]
    cy, cx = rng.uniform(14, SIZE - 14, 2)
    a, b = rng.uniform(5, 12, 2)
    th = rng.uniform(0, np.pi)
    u = (xx - cx) * np.cos(th) + (yy - cy) * np.sin(th)
    v = -(xx - cx) * np.sin(th) + (yy - cy) * np.cos(th)
    mask = (u / a) ** 2 + (v / b) ** 2 < 1
    tissue = gaussian_filter(rng.normal(0, 1, (SIZE, SIZE)), 4) * 3
    red = 0.6 + 0.15 * tissue + 0.15 * gaussian_filter(mask.astype(float), 1.5)
    img = np.stack([red, 0.3 + 0.1 * tissue, 0.25 + 0.08 * tissue]) + rng.normal(0, 0.05, (3, SIZE, SIZE))
    return img.astype(np.float32), mask.astype(np.float32)


class Polyps(Dataset):
    """The few annotated frames we have."""

    def __init__(self, n, seed, train):
        rng = np.random.default_rng(seed)
        cases = [make_case(rng) for _ in range(n)]
        self.images = np.stack([c[0] for c in cases])
        self.masks = np.stack([c[1] for c in cases])[:, None]
        self.train = train

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        x, m = self.images[i], self.masks[i]
        if self.train:
            if np.random.rand() < 0.5:
                x, m = x[..., ::-1], m[..., ::-1]
            k = np.random.randint(4)
            x, m = np.rot90(x, k, (1, 2)), np.rot90(m, k, (1, 2))
            x = x * np.random.uniform(0.8, 1.2)
        return torch.from_numpy(np.ascontiguousarray(x, np.float32)), torch.from_numpy(m.copy())


def double_conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(True),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(True))


class UNet(nn.Module):
    def __init__(self, ch=6):
        super().__init__()
        self.d1, self.d2, self.d3 = double_conv(3, ch), double_conv(ch, ch * 2), double_conv(ch * 2, ch * 4)
        self.u2, self.u1 = double_conv(ch * 6, ch * 2), double_conv(ch * 3, ch)
        self.out = nn.Conv2d(ch, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        y = self.u2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        y = self.u1(torch.cat([F.interpolate(y, scale_factor=2.0), a], 1))
        return self.out(y)


def dice_loss(logits, target):
    p = torch.sigmoid(logits)
    inter = (p * target).sum((1, 2, 3))
    return 1 - ((2 * inter + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)).mean()


def worker_seed(worker_id):
    np.random.seed(torch.initial_seed() % 2 ** 32 + worker_id)


@torch.no_grad()
def validate(model, data):
    model.eval()
    x = torch.from_numpy(data.images)
    return 1 - dice_loss(model(x), torch.from_numpy(data.masks)).item()


def main():
    torch.manual_seed(0)
    train_set, val_set = Polyps(18, 0, True), Polyps(12, 1, False)
    loader = DataLoader(train_set, batch_size=6, shuffle=True, num_workers=2, worker_init_fn=worker_seed,
                        persistent_workers=True)
    model = UNet()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-3, epochs=EPOCHS, steps_per_epoch=len(loader))
    print(f"{len(train_set)} training frames, {len(loader)} batches per epoch")
    best = 0.0
    for epoch in range(EPOCHS):
        model.train()
        t, total = time.time(), 0.0
        for x, m in loader:
            logits = model(x)
            loss = dice_loss(logits, m) + F.binary_cross_entropy_with_logits(logits, m)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        if epoch % 20 == 19:
            dice = validate(model, val_set)
            if dice > best:
                best = dice
                torch.save(model.state_dict(), "/tmp/polyp_unet_best.pt")
            print(f"epoch {epoch + 1} loss {total / len(loader):.4f} val dice {dice:.3f} "
                  f"{time.time() - t:.2f} s", flush=True)
    print(f"best dice {best:.3f}")


if __name__ == "__main__":
    main()
