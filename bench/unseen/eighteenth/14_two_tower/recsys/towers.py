import torch
import torch.nn.functional as F
from torch import nn


def mlp(i, width, o):
    return nn.Sequential(nn.Linear(i, width), nn.LayerNorm(width), nn.GELU(),
                         nn.Linear(width, width), nn.GELU(), nn.Linear(width, o))


class UserTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.items + 1, cfg.dim, padding_idx=0)
        self.rnn = nn.GRU(cfg.dim, cfg.dim, batch_first=True)
        self.out = mlp(cfg.dim, cfg.width, cfg.dim)

    def forward(self, history):
        x, _ = self.rnn(self.emb(history + 1))
        last = (history >= 0).sum(1).clamp(min=1) - 1
        return self.out(x[torch.arange(len(x)), last])


class TwoTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.user = UserTower(cfg)
        self.item = mlp(cfg.text_dim + cfg.numeric_dim, cfg.width, cfg.dim)
        self.temperature = cfg.temperature

    def forward(self, batch):
        u = F.normalize(self.user(batch["history"]), dim=-1)
        v = F.normalize(self.item(batch["items"]), dim=-1)
        return torch.einsum("bd,bkd->bk", u, v) / self.temperature
