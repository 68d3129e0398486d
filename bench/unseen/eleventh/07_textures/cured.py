"""Denoising diffusion on 32x32 crops of woven textures stored as JPEG files."""
import argparse
import copy
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

T = 400


def write_textures(folder, n, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:40, 0:40].astype(np.float32)
    for i in range(n):
        a, b = rng.uniform(0.3, 1.4, 2)
        angle = rng.uniform(0, math.pi)
        u = xx * math.cos(angle) + yy * math.sin(angle)
        v = -xx * math.sin(angle) + yy * math.cos(angle)
        weave = 0.5 + 0.25 * (np.sin(a * u) + np.sin(b * v))
        color = rng.uniform(0.3, 1.0, 3)
        img = (weave[..., None] * color * 255).astype(np.uint8)
        Image.fromarray(img).save(folder / f"{i:05d}.jpg", quality=92)


class Textures(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.jpg"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        with Image.open(self.files[i]) as f:
            img = np.asarray(f)
        y, x = np.random.randint(0, 9, 2)
        img = img[y:y + 32, x:x + 32]
        if np.random.rand() < 0.5:
            img = img[:, ::-1]
        return torch.from_numpy(np.ascontiguousarray(img.transpose(2, 0, 1)))


class Res(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(8, cin), nn.GroupNorm(8, cout)
        self.c1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.c2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.emb = nn.Linear(emb, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = self.c1(nn.functional.silu(self.n1(x)))
        h = h + self.emb(e)[:, :, None, None]
        return self.skip(x) + self.c2(nn.functional.silu(self.n2(h)))


class UNet(nn.Module):
    def __init__(self, ch=32, emb=96):
        super().__init__()
        self.register_buffer("freq", torch.exp(torch.linspace(0, -8, 32)), persistent=False)
        self.time = nn.Sequential(nn.Linear(64, emb), nn.SiLU(), nn.Linear(emb, emb), nn.SiLU())
        self.stem = nn.Conv2d(3, ch, 3, padding=1)
        self.d1, self.d2 = Res(ch, ch, emb), Res(ch, 2 * ch, emb)
        self.mid1, self.mid2 = Res(2 * ch, 2 * ch, emb), Res(2 * ch, 2 * ch, emb)
        self.u2, self.u1 = Res(4 * ch, 2 * ch, emb), Res(3 * ch, ch, emb)
        self.out = nn.Sequential(nn.GroupNorm(8, ch), nn.SiLU(), nn.Conv2d(ch, 3, 3, padding=1))

    def forward(self, x, t):
        ang = t[:, None].float() * self.freq
        e = self.time(torch.cat([ang.sin(), ang.cos()], dim=1))
        h1 = self.d1(self.stem(x), e)
        h2 = self.d2(nn.functional.avg_pool2d(h1, 2), e)
        m = self.mid2(self.mid1(nn.functional.avg_pool2d(h2, 2), e), e)
        m = self.u2(torch.cat([nn.functional.interpolate(m, scale_factor=2.0), h2], 1), e)
        m = self.u1(torch.cat([nn.functional.interpolate(m, scale_factor=2.0), h1], 1), e)
        return self.out(m)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--batch", type=int, default=16)
    args = ap.parse_args()
    torch.manual_seed(0)

    with tempfile.TemporaryDirectory() as tmp:
        write_textures(Path(tmp), 4000)
        loader = DataLoader(Textures(Path(tmp)), args.batch, shuffle=True, drop_last=True,
                            num_workers=1, prefetch_factor=4, persistent_workers=True)
        model = UNet()
        ema = copy.deepcopy(model).requires_grad_(False)
        live, slow = list(model.parameters()), list(ema.parameters())
        opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
        abar = torch.cumprod(1 - torch.linspace(1e-4, 0.03, T), 0)

        step, start = 0, time.time()
        while step < args.steps:
            for img in loader:
                x = img.float().div_(127.5).sub_(1)
                t = torch.randint(T, (len(x),))
                noise = torch.randn_like(x)
                a = abar[t][:, None, None, None]
                pred = model(a.sqrt() * x + (1 - a).sqrt() * noise, t)
                loss = nn.functional.mse_loss(pred, noise)
                opt.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(live, 1.0)
                opt.step()
                with torch.no_grad():
                    torch._foreach_lerp_(slow, live, 0.005)
                step += 1
                print(f"step {step} loss {loss.item():.4f} grad {norm.item():.3f} "
                      f"{time.time() - start:.1f}s", flush=True)
                if step >= args.steps:
                    break


if __name__ == "__main__":
    main()
