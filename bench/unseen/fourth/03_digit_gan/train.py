# WGAN (weight clipping) on the sklearn digits, upscaled to 32x32.
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

NZ = 64
NGF = 32
NDF = 16
BATCH = 64
EPOCHS = 30
N_CRITIC = 5
CLIP = 0.02
LR = 1e-4


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(NZ, NGF * 4, 4, 1, 0, bias=False),
            nn.BatchNorm2d(NGF * 4),
            nn.ReLU(True),
            nn.ConvTranspose2d(NGF * 4, NGF * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NGF * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(NGF * 2, NGF, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NGF),
            nn.ReLU(True),
            nn.Conv2d(NGF, NGF, 3, 1, 1, bias=False),
            nn.BatchNorm2d(NGF),
            nn.ReLU(True),
            nn.ConvTranspose2d(NGF, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z[:, :, None, None])


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, NDF, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(NDF, NDF * 2, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(NDF * 2, NDF * 2, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Flatten(),
            nn.Linear(NDF * 2 * 16, 1),
        )

    def forward(self, x):
        return self.main(x).squeeze(1)


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)


def load_images():
    x = torch.tensor(load_digits().images, dtype=torch.float32)[:, None] / 16.0
    x = F.interpolate(x, size=(32, 32), mode="bilinear", align_corners=False)
    return x * 2 - 1


torch.manual_seed(42)
images = load_images()
loader = DataLoader(TensorDataset(images), batch_size=BATCH, shuffle=True, drop_last=True)

netG = Generator().apply(weights_init)
netD = Critic().apply(weights_init)
optG = torch.optim.RMSprop(netG.parameters(), lr=LR)
optD = torch.optim.RMSprop(netD.parameters(), lr=LR)

start = time.time()
step = 0
loss_g = torch.tensor(0.0)
for epoch in range(EPOCHS):
    running = 0.0
    for (real,) in loader:
        # ---- critic ----
        optD.zero_grad()
        z = torch.randn(real.size(0), NZ)
        fake = netG(z)
        loss_d = netD(fake).mean() - netD(real).mean()
        loss_d.backward()
        optD.step()
        with torch.no_grad():
            for p in netD.parameters():
                p.clamp_(-CLIP, CLIP)
        running += loss_d.item()

        # ---- generator, every N_CRITIC critic steps ----
        if step % N_CRITIC == 0:
            optG.zero_grad()
            z = torch.randn(BATCH, NZ)
            loss_g = -netD(netG(z)).mean()
            loss_g.backward()
            optG.step()
        step += 1
    print(
        f"[{epoch + 1:2d}/{EPOCHS}] loss_D {running / len(loader):+.5f} "
        f"loss_G {loss_g.item():+.5f}  {time.time() - start:.1f}s",
        flush=True,
    )

netG.eval()
with torch.no_grad():
    sample = netG(torch.randn(256, NZ))
print(f"done: {step} critic steps, sample mean {sample.mean():.3f} std {sample.std():.3f}")
