"""Small denoising diffusion model on 16x16 drawings of boxes and bars."""
import math
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image

T = 100
STEPS = 1100
BATCH = 24
SAMPLE_EVERY = 300

betas = torch.linspace(1e-4, 0.06, T)
alphas = 1 - betas
abar = torch.cumprod(alphas, 0)


def drawings(n, g):
    imgs = -torch.ones(n, 1, 16, 16)
    corner = torch.randint(0, 10, (n, 2), generator=g)
    size = torch.randint(2, 7, (n, 2), generator=g)
    for k in range(n):
        (r, c), (h, w) = corner[k].tolist(), size[k].tolist()
        imgs[k, 0, r:r + h, c:c + w] = 1.0
    return imgs


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, temb):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1)
        self.norm = nn.GroupNorm(4, cout)
        self.time = nn.Linear(temb, cout)

    def forward(self, x, t):
        return F.silu(self.norm(self.conv(x)) + self.time(t)[:, :, None, None])


class UNet(nn.Module):
    def __init__(self, c=32, temb=32):
        super().__init__()
        self.temb = temb
        self.d1, self.d2 = ConvBlock(1, c, temb), ConvBlock(c, 2 * c, temb)
        self.mid = ConvBlock(2 * c, 2 * c, temb)
        self.u1 = ConvBlock(3 * c, c, temb)
        self.out = nn.Conv2d(c, 1, 3, padding=1)

    def time_features(self, t):
        half = self.temb // 2
        freq = torch.exp(-math.log(1000) * torch.arange(half) / half)
        ang = t[:, None].float() * freq
        return torch.cat([ang.sin(), ang.cos()], 1)

    def forward(self, x, t):
        e = self.time_features(t)
        a = self.d1(x, e)
        b = self.mid(self.d2(F.avg_pool2d(a, 2), e), e)
        return self.out(self.u1(torch.cat([a, F.interpolate(b, scale_factor=2)], 1), e))


@torch.no_grad()
def sample(model, n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 1, 16, 16, generator=g)
    for t in reversed(range(T)):
        eps = model(x, torch.full((n,), t))
        x = (x - betas[t] / (1 - abar[t]).sqrt() * eps) / alphas[t].sqrt()
        if t > 0:
            x = x + betas[t].sqrt() * torch.randn(x.shape, generator=g)
    return x.clamp(-1, 1)


def save_grid(x, path):
    tiles = ((x[:, 0] + 1) * 127.5).byte().numpy()
    Image.fromarray(np.concatenate(list(tiles), axis=1)).save(path)


def main():
    torch.manual_seed(90)
    g = torch.Generator().manual_seed(91)
    pool = drawings(2000, g)
    model = UNet()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    with tempfile.TemporaryDirectory() as out:
        for step in range(1, STEPS + 1):
            x0 = pool[torch.randint(0, len(pool), (BATCH,), generator=g)]
            t = torch.randint(0, T, (BATCH,), generator=g)
            eps = torch.randn(x0.shape, generator=g)
            a = abar[t][:, None, None, None]
            loss = F.mse_loss(model(a.sqrt() * x0 + (1 - a).sqrt() * eps, t), eps)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % SAMPLE_EVERY == 0:
                save_grid(sample(model, 8, seed=step), os.path.join(out, f"grid_{step:05d}.png"))
            if step % 100 == 0:
                print(f"step {step} mse {loss.item():.4f}")


if __name__ == "__main__":
    main()
