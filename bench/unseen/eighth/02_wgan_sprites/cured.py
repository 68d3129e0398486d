"""WGAN (weight clipping) on synthetic 32x32 sprites."""
import copy
import os
import random
import tempfile

import numpy as np
import torch
from torch import nn

CFG = {
    "seed": 1234,
    "n_sprites": 2048,
    "batch": 32,
    "z_dim": 64,
    "g_width": 48,
    "d_width": 16,
    "n_critic": 4,
    "clip": 0.02,
    "lr": 1e-4,
    "iterations": 60,
    "log_every": 10,
}


def make_sprites(n, seed):
    """Mirror-symmetric random sprites, values in [-1, 1]."""
    g = torch.Generator().manual_seed(seed)
    half = (torch.rand(n, 1, 8, 4, generator=g) > 0.55).float()
    full = torch.cat([half, half.flip(-1)], dim=-1)
    colour = torch.rand(n, 3, 1, 1, generator=g)
    big = nn.functional.interpolate(full, scale_factor=4, mode="nearest")
    return big * colour * 2 - 1


class Generator(nn.Module):
    def __init__(self, z_dim, width):
        super().__init__()
        self.fc = nn.Linear(z_dim, width * 4 * 4 * 4)
        layers = []
        chans = [width * 4, width * 2, width, width]
        for cin, cout in zip(chans, chans[1:]):
            layers += [nn.Upsample(scale_factor=2, mode="nearest"),
                       nn.Conv2d(cin, cout, 3, padding=1),
                       nn.BatchNorm2d(cout), nn.ReLU(True)]
        self.body = nn.Sequential(*layers)
        self.to_rgb = nn.Conv2d(chans[-1], 3, 3, padding=1)
        self.first = chans[0]

    def forward(self, z):
        x = self.fc(z).view(z.size(0), self.first, 4, 4)
        return torch.tanh(self.to_rgb(self.body(x)))


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(width, width * 2, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(width * 2, width * 4, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Flatten(), nn.Linear(width * 4 * 16, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


class WGAN:
    def __init__(self, cfg):
        self.cfg = cfg
        self.data = make_sprites(cfg["n_sprites"], cfg["seed"])
        self.g = Generator(cfg["z_dim"], cfg["g_width"])
        self.d = Critic(cfg["d_width"])
        self.opt_g = torch.optim.RMSprop(self.g.parameters(), lr=cfg["lr"])
        self.opt_d = torch.optim.RMSprop(self.d.parameters(), lr=cfg["lr"])

    def noise(self):
        return torch.randn(self.cfg["batch"], self.cfg["z_dim"])

    def real_batch(self):
        return self.data[torch.randint(len(self.data), (self.cfg["batch"],))]

    def critic_step(self):
        real = self.real_batch()
        with torch.no_grad():
            fake = self.g(self.noise())
        loss = self.d(fake).mean() - self.d(real).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        with torch.no_grad():
            for p in self.d.parameters():
                p.clamp_(-self.cfg["clip"], self.cfg["clip"])
        return loss.detach()

    def generator_step(self):
        loss = -self.d(self.g(self.noise())).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        return loss.detach()

    @torch.no_grad()
    def validate(self):
        """Distance between the mean images of real and generated samples."""
        self.g.eval()
        fake = self.g(torch.randn(64, self.cfg["z_dim"]))
        self.g.train()
        return (fake.mean(0) - self.data[:512].mean(0)).pow(2).mean().sqrt().item()

    def fit(self, out_dir):
        for it in range(1, self.cfg["iterations"] + 1):
            for _ in range(self.cfg["n_critic"]):
                d_loss = self.critic_step()
            g_loss = self.generator_step()
            if it % self.cfg["log_every"] == 0:
                print(f"[{it:4d}] critic {d_loss.item():+.4f} gen {g_loss.item():+.4f} "
                      f"mean-image rmse {self.validate():.4f}", flush=True)
        torch.save(self.g.state_dict(), os.path.join(out_dir, "generator.pt"))


def main():
    cfg = copy.deepcopy(CFG)
    random.seed(cfg["seed"])
    np.random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    with tempfile.TemporaryDirectory() as out_dir:
        WGAN(cfg).fit(out_dir)


if __name__ == "__main__":
    main()
