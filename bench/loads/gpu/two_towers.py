"""Users and items are embedded so that what belongs together is close, against all others of a batch."""

# expect: verdict=compute finding=dense-embedding-gradients

import common
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Tower(nn.Module):
    """Rows of a table, and layers over them."""

    def __init__(self, rows, width, hidden, outputs, device):
        super().__init__()
        self.table = nn.Embedding(rows, width, device=device)  # <- finding
        # cured: self.table = nn.Embedding(rows, width, device=device, sparse=True)
        self.layers = nn.Sequential(
            nn.Linear(width, hidden, device=device), nn.ReLU(), nn.Linear(hidden, outputs, device=device)
        )

    def forward(self, ids):
        return F.normalize(self.layers(self.table(ids)), dim=-1)  # <- finding


class TwoTowers(nn.Module):
    def __init__(self, users, items, width, hidden, outputs, device):
        super().__init__()
        self.users = Tower(users, width, hidden, outputs, device)
        self.items = Tower(items, width, hidden, outputs, device)
        self.scale = nn.Parameter(torch.tensor(20.0, device=device))

    def forward(self, users, items):
        scores = self.scale * self.users(users) @ self.items(items).T
        wanted = torch.arange(len(users), device=scores.device)
        return (F.cross_entropy(scores, wanted) + F.cross_entropy(scores.T, wanted)) / 2

    def tables(self):
        return [self.users.table.weight, self.items.table.weight]

    def others(self):
        return [*self.users.layers.parameters(), *self.items.layers.parameters(), self.scale]


class Clicks:
    """Pairs of a user and an item, a few of which are popular."""

    def __init__(self, users, items, size, device):
        self.users, self.items, self.size, self.device = users, items, size, device

    def draw(self):
        drawn = torch.rand(2, self.size, device=self.device)
        return (drawn[0] ** 2 * self.users).long(), (drawn[1] ** 4 * self.items).long()


def optimizers(model):
    tables = torch.optim.Adam(model.tables(), lr=1e-3, fused=True)
    # cured: tables = torch.optim.SparseAdam(model.tables(), lr=1e-3)
    return tables, torch.optim.AdamW(model.others(), lr=1e-3, fused=True)


def main():
    args = common.arguments()
    users, items, size = common.sized(args, (8_000_000, 2_000_000, 16_384), (2000, 1000, 32))
    width, hidden, outputs = common.sized(args, (128, 1024, 256), (8, 16, 8))
    clicks = Clicks(users, items, size, args.device)
    model = TwoTowers(users, items, width, hidden, outputs, args.device)
    both = optimizers(model)
    slower = [torch.optim.lr_scheduler.StepLR(each, 1000, 0.5) for each in both]
    losses = []
    for _ in common.steps(args, losses, size):
        with torch.autocast(args.device, torch.bfloat16):
            loss = model(*clicks.draw())
        model.zero_grad()
        loss.backward()
        for optimizer, scheduler in zip(both, slower, strict=True):
            optimizer.step()
            scheduler.step()
        losses.append(loss.detach())


main()
