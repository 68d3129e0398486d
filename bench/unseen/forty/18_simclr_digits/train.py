"""Contrastive pretraining on the digits images (SimCLR style)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(55)
images = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1) / 16.0


def augment(x):
    b = x.size(0)
    theta = torch.zeros(b, 2, 3)
    scale = 1 + 0.2 * torch.randn(b)
    angle = 0.3 * torch.randn(b)
    theta[:, 0, 0], theta[:, 0, 1] = scale * angle.cos(), -angle.sin()
    theta[:, 1, 0], theta[:, 1, 1] = angle.sin(), scale * angle.cos()
    theta[:, :, 2] = 0.15 * torch.randn(b, 2)
    out = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)
    return out + 0.05 * torch.randn_like(out)


class Encoder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
            nn.Conv2d(24, 48, 3, padding=1, stride=2), nn.BatchNorm2d(48), nn.ReLU(),
            nn.Conv2d(48, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.proj = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, dim))

    def forward(self, x):
        return F.normalize(self.proj(self.net(x)), dim=1)


def nt_xent(z1, z2, temperature=0.2):
    z = torch.cat([z1, z2])
    n = z1.size(0)
    total = 0.0
    for i in range(2 * n):
        partner = i + n if i < n else i - n
        sims = F.cosine_similarity(z[i].unsqueeze(0), z) / temperature
        others = torch.cat([sims[:i], sims[i + 1:]])
        total = total + torch.logsumexp(others, 0) - sims[partner]
    return total / (2 * n)


def main(steps=1000, batch=64):
    model = Encoder()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for step in range(1, steps + 1):
        x = images[torch.randint(0, len(images), (batch,))]
        loss = nt_xent(model(augment(x)), model(augment(x)))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0:
            print(f"{step:4d} nt-xent {loss.item():.4f}")


if __name__ == "__main__":
    main()
