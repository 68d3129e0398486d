"""FT-Transformer: one token per column, class token on top (Gorishniy et al. 2021)."""
import torch
import torch.nn.functional as F
from torch import nn

NETS = {}


def net(name):
    def deco(cls):
        NETS[name] = cls
        return cls
    return deco


class Tokenizer(nn.Module):
    def __init__(self, categorical, numeric, dim):
        super().__init__()
        self.categorical, self.numeric = dict(categorical), tuple(numeric)
        self.tables = nn.ModuleDict({n: nn.Embedding(k, dim) for n, k in self.categorical.items()})
        self.scale = nn.Parameter(torch.randn(len(self.numeric), dim) * 0.1)
        self.shift = nn.Parameter(torch.zeros(len(self.numeric), dim))
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))

    def forward(self, batch):
        tokens = [self.tables[name](batch[name]) for name in self.categorical]
        values = torch.stack([batch[name] for name in self.numeric], 1)
        dense = values[..., None] * self.scale + self.shift
        return torch.cat([self.cls.expand(len(values), -1, -1), torch.stack(tokens, 1), dense], 1)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        a, g = self.up(self.n2(x)).chunk(2, -1)
        return x + self.down(a * F.relu(g))


@net("ft_transformer")
class FTTransformer(nn.Module):
    def __init__(self, categorical, numeric, dim, depth, heads):
        super().__init__()
        self.tokens = Tokenizer(categorical, numeric, dim)
        self.layers = nn.Sequential(*[Layer(dim, heads) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, batch):
        return self.head(self.layers(self.tokens(batch))[:, 0]).squeeze(-1)


def focal_bce(logit, y, gamma=1.5, alpha=0.75):
    bce = F.binary_cross_entropy_with_logits(logit, y, reduction="none")
    p = torch.exp(-bce)
    return ((alpha * y + (1 - alpha) * (1 - y)) * (1 - p) ** gamma * bce).mean()
