import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(2024)

Z, NGF, NDF, BATCH, ITERS = 64, 48, 16, 32, 340

digits = torch.tensor(load_digits().images, dtype=torch.float32) / 8.0 - 1.0
digits = nn.functional.interpolate(digits.unsqueeze(1), size=(32, 32), mode="bilinear")


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(Z, NGF * 4, 4, 1, 0, bias=False), nn.BatchNorm2d(NGF * 4), nn.ReLU(True),
            nn.ConvTranspose2d(NGF * 4, NGF * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(NGF * 2), nn.ReLU(True),
            nn.ConvTranspose2d(NGF * 2, NGF, 4, 2, 1, bias=False), nn.BatchNorm2d(NGF), nn.ReLU(True),
            nn.Conv2d(NGF, NGF, 3, 1, 1, bias=False), nn.BatchNorm2d(NGF), nn.ReLU(True),
            nn.ConvTranspose2d(NGF, 1, 4, 2, 1, bias=False), nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, NDF, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(NDF, NDF * 2, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(NDF * 2, NDF * 4, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(NDF * 4, 1, 4, 1, 0),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def weights_init(m):
    name = m.__class__.__name__
    if "Conv" in name:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif "BatchNorm" in name:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


netG, netD = Generator(), Discriminator()
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCEWithLogitsLoss()
optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
real_label = torch.ones(BATCH)
fake_label = torch.zeros(BATCH)

for it in range(ITERS):
    real = digits[torch.randint(0, len(digits), (BATCH,))]

    # two updates of D for each update of G
    for _ in range(2):
        netD.zero_grad()
        errD_real = criterion(netD(real), real_label)
        noise = torch.randn(BATCH, Z, 1, 1)
        fake = netG(noise)
        errD_fake = criterion(netD(fake), fake_label)
        errD = errD_real + errD_fake
        errD.backward()
        optD.step()

    netG.zero_grad()
    noise = torch.randn(BATCH, Z, 1, 1)
    fake = netG(noise)
    errG = criterion(netD(fake), real_label)
    errG.backward()
    optG.step()

    if it % 20 == 0:
        print(f"[{it}/{ITERS}] loss_D {errD.item():.4f} loss_G {errG.item():.4f}")
