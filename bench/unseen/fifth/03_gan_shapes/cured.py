import argparse
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
from PIL import Image

parser = argparse.ArgumentParser(description="DCGAN on procedurally drawn shapes")
parser.add_argument("--iters", type=int, default=450)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--z-dim", type=int, default=64)
parser.add_argument("--lr", type=float, default=2e-4)
parser.add_argument("--sample-every", type=int, default=100)
parser.add_argument("--n-samples", type=int, default=64)
parser.add_argument("--zoom", type=int, default=4)
parser.add_argument("--out", default=None)
args = parser.parse_args()
out_dir = args.out or tempfile.mkdtemp(prefix="dcgan_")
torch.manual_seed(7)


def draw_shapes(n):
    """Discs and squares in random colours on dark ground, 3x32x32 in [-1, 1]."""
    yy, xx = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    cx, cy, r = (torch.rand(n, 1, 1) * s + o for s, o in ((16, 8), (16, 8), (6, 4)))
    disc = ((xx - cx) ** 2 + (yy - cy) ** 2 < r ** 2).float()
    square = (((xx - cx).abs() < r) & ((yy - cy).abs() < r)).float()
    which = (torch.rand(n, 1, 1) < 0.5).float()
    mask = (which * disc + (1 - which) * square).unsqueeze(1)
    colour = torch.rand(n, 3, 1, 1)
    return (mask * colour + (1 - mask) * 0.05 * torch.rand(n, 3, 32, 32)) * 2 - 1


class Generator(nn.Module):
    def __init__(self, z, ch=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(z, ch * 4, 4, 1, 0, bias=False), nn.BatchNorm2d(ch * 4), nn.ReLU(True),
            nn.ConvTranspose2d(ch * 4, ch * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ch * 2), nn.ReLU(True),
            nn.ConvTranspose2d(ch * 2, ch, 4, 2, 1, bias=False), nn.BatchNorm2d(ch), nn.ReLU(True),
            nn.ConvTranspose2d(ch, 3, 4, 2, 1), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z[:, :, None, None])


class Discriminator(nn.Module):
    def __init__(self, ch=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, ch, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(ch, ch * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ch * 2), nn.LeakyReLU(0.2, True),
            nn.Conv2d(ch * 2, ch * 4, 4, 2, 1, bias=False), nn.BatchNorm2d(ch * 4), nn.LeakyReLU(0.2, True),
            nn.Conv2d(ch * 4, 1, 4),
        )

    def forward(self, x):
        return self.net(x).flatten()


def save_grid(images, path, cols=8):
    arr = ((images.clamp(-1, 1) + 1) * 127.5).byte().permute(0, 2, 3, 1).numpy()
    rows = [np.concatenate(list(arr[i:i + cols]), axis=1) for i in range(0, len(arr), cols)]
    sheet = Image.fromarray(np.concatenate(rows, axis=0))
    sheet = sheet.resize((sheet.width * args.zoom, sheet.height * args.zoom), Image.BICUBIC)
    sheet.save(path, optimize=True)


real_images = draw_shapes(4096)
netG, netD = Generator(args.z_dim), Discriminator()
optG = torch.optim.Adam(netG.parameters(), lr=args.lr, betas=(0.5, 0.999))
optD = torch.optim.Adam(netD.parameters(), lr=args.lr, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
fixed_z = torch.randn(args.n_samples, args.z_dim)
ones, zeros = torch.full((args.batch_size,), 0.9), torch.zeros(args.batch_size)
print(f"samples go to {out_dir}")

start = time.time()
for it in range(1, args.iters + 1):
    real = real_images[torch.randint(0, len(real_images), (args.batch_size,))]
    fake = netG(torch.randn(args.batch_size, args.z_dim))

    optD.zero_grad()
    lossD = bce(netD(real), ones) + bce(netD(fake.detach()), zeros)
    lossD.backward()
    optD.step()

    optG.zero_grad()
    lossG = bce(netD(fake), ones)
    lossG.backward()
    optG.step()

    if it % args.sample_every == 0:
        with torch.no_grad():
            samples = netG(fixed_z)
        save_grid(samples, os.path.join(out_dir, f"fake_{it:05d}.png"))
    if it % 20 == 0:
        print(f"[{it}/{args.iters}] D {lossD.item():.3f} G {lossG.item():.3f} "
              f"{it / (time.time() - start):.1f} it/s", flush=True)

torch.save({"G": netG.state_dict(), "D": netD.state_dict()}, os.path.join(out_dir, "last.pt"))
