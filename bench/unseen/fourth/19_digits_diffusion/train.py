"""Tiny class-conditional DDPM on the 8x8 digits."""
import copy
import math
import os
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

T = 200
BATCH = 128
EPOCHS = 48
LR = 1e-3
EMA_DECAY = 0.995
CH = 32
torch.manual_seed(4)


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000.0) * torch.arange(half) / half)
    args = t.float()[:, None] * freqs[None]
    return torch.cat([args.cos(), args.sin()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, emb):
        super().__init__()
        self.norm1 = nn.GroupNorm(8, c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.emb = nn.Linear(emb, c_out)
        self.norm2 = nn.GroupNorm(8, c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.emb(emb)[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.skip(x)


class UNet(nn.Module):
    def __init__(self, ch=CH, emb=64):
        super().__init__()
        self.emb_dim = emb
        self.time = nn.Sequential(nn.Linear(emb, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(11, emb)  # 10 = no label
        self.stem = nn.Conv2d(1, ch, 3, padding=1)
        self.down1 = ResBlock(ch, ch, emb)
        self.pool = nn.Conv2d(ch, 2 * ch, 3, stride=2, padding=1)
        self.mid1 = ResBlock(2 * ch, 2 * ch, emb)
        self.mid2 = ResBlock(2 * ch, 2 * ch, emb)
        self.up = nn.ConvTranspose2d(2 * ch, ch, 2, stride=2)
        self.up1 = ResBlock(2 * ch, ch, emb)
        self.out = nn.Sequential(nn.GroupNorm(8, ch), nn.SiLU(), nn.Conv2d(ch, 1, 3, padding=1))

    def forward(self, x, t, y):
        emb = F.silu(self.time(timestep_embedding(t, self.emb_dim)) + self.label(y))
        h1 = self.down1(self.stem(x), emb)
        h = self.mid2(self.mid1(self.pool(h1), emb), emb)
        h = self.up1(torch.cat([self.up(h), h1], dim=1), emb)
        return self.out(h)


betas = torch.linspace(5e-4, 0.05, T)
alpha_bar = torch.cumprod(1 - betas, dim=0)


@torch.inference_mode()
def ddim_sample(model, labels, n_steps=20):
    model.eval()
    x = torch.randn(len(labels), 1, 8, 8)
    times = torch.linspace(T - 1, 0, n_steps).long().tolist()
    for i, t in enumerate(times):
        a = alpha_bar[t]
        eps = model(x, torch.full((len(labels),), t), labels)
        x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-1, 1)
        a_next = alpha_bar[times[i + 1]] if i + 1 < n_steps else torch.tensor(1.0)
        x = a_next.sqrt() * x0 + (1 - a_next).sqrt() * eps
    return x


def show(img):
    for row in img[0, ::2]:
        print("    " + "".join(" .:*#"[min(4, int((v + 1) * 2.5))] for v in row.tolist()))


def main():
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).div(8).sub(1).unsqueeze(1)
    labels = torch.tensor(digits.target)

    model = UNet()
    ema = copy.deepcopy(model).requires_grad_(False)
    params, ema_params = list(model.parameters()), list(ema.parameters())
    opt = torch.optim.AdamW(params, lr=LR, weight_decay=1e-4, fused=True)
    steps_per_epoch = len(images) // BATCH
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS * steps_per_epoch)
    print(f"{sum(p.numel() for p in params)} parameters, {steps_per_epoch} steps per epoch")

    workdir = tempfile.TemporaryDirectory()
    start = time.time()
    for epoch in range(1, EPOCHS + 1):
        model.train()
        perm = torch.randperm(len(images))
        total = 0.0
        for s in range(steps_per_epoch):
            idx = perm[s * BATCH:(s + 1) * BATCH]
            x0, y = images[idx], labels[idx]
            y = torch.where(torch.rand(BATCH) < 0.1, 10, y)
            t = torch.randint(0, T, (BATCH,))
            noise = torch.randn_like(x0)
            a = alpha_bar[t][:, None, None, None]
            loss = F.mse_loss(model(a.sqrt() * x0 + (1 - a).sqrt() * noise, t, y), noise)

            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(params, 1.0)
            opt.step()
            sched.step()
            with torch.no_grad():
                torch._foreach_lerp_(ema_params, params, 1 - EMA_DECAY)
            total += loss.item()

        if epoch % 8 == 0:
            print(f"epoch {epoch:3d}  loss {total / steps_per_epoch:.4f}  "
                  f"{epoch * steps_per_epoch / (time.time() - start):.1f} it/s")
            sample = ddim_sample(ema, torch.arange(10))
            show(sample[3])
            torch.save({"ema": ema.state_dict(), "opt": opt.state_dict()}, os.path.join(workdir.name, "last.pt"))
    workdir.cleanup()


if __name__ == "__main__":
    main()
