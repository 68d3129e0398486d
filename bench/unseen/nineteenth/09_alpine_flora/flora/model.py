"""Site encoder over an atlas window plus a latent-factor species head."""
import torch
from torch import nn


class AtlasWindow(nn.Module):
    """Cuts the (window x window) neighbourhood of every site out of the atlas."""

    def __init__(self, layers, window):
        super().__init__()
        self.register_buffer("layers", layers, persistent=False)
        offsets = torch.arange(window) - window // 2
        self.register_buffer("offsets", offsets, persistent=False)

    def forward(self, row, col):
        rows = row[:, None, None] + self.offsets[None, :, None]
        cols = col[:, None, None] + self.offsets[None, None, :]
        return self.layers[:, rows, cols].transpose(0, 1).contiguous()


class ReliefBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(8, width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(8, width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x):
        return x + self.body(x)


class FloraNet(nn.Module):
    def __init__(self, cfg, layers):
        super().__init__()
        self.windows = AtlasWindow(layers, cfg.window)
        self.stem = nn.Conv2d(layers.shape[0], cfg.width, 3, padding=1)
        self.blocks = nn.Sequential(*[ReliefBlock(cfg.width) for _ in range(cfg.depth)])
        centre = cfg.window // 2
        self.centre = centre
        self.project = nn.Sequential(
            nn.Linear(2 * cfg.width + layers.shape[0], cfg.embed), nn.SiLU(), nn.LayerNorm(cfg.embed),
            nn.Linear(cfg.embed, cfg.embed), nn.SiLU(),
        )
        self.species = nn.Linear(cfg.embed, cfg.species)
        nn.init.constant_(self.species.bias, -2.0)

    def forward(self, row, col, effort):
        window = self.windows(row, col)
        features = self.blocks(self.stem(window))
        local = features[:, :, self.centre, self.centre]
        site = torch.cat([features.mean((2, 3)), local, window[:, :, self.centre, self.centre]], dim=1)
        return self.species(self.project(site)) + effort.log()[:, None]


def build_optimizer(model, cfg):
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": cfg.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=cfg.lr)
