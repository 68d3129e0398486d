"""Ranks advertisements: a DLRM-like model of categorical and numeric fields says whether one is clicked."""

# expect: verdict=compute finding=dense-embedding-gradients

import itertools

import common
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIELDS = 26
NUMERIC = 13


class ClickLog(Dataset):
    """A day's impressions, shuffled, a whole batch at a time."""

    def __init__(self, impressions, batch, rows_per_field):
        source = torch.Generator().manual_seed(11)
        popularity = torch.rand(impressions, FIELDS, generator=source).pow_(3)
        self.categories = popularity.mul_(rows_per_field).int()
        self.numeric = torch.randn(impressions, NUMERIC, generator=source).half()
        chance = torch.sigmoid(self.numeric[:, :3].float().sum(1) + (self.categories[:, 0] % 5 - 4))
        self.clicked = torch.rand(impressions, generator=source) < chance
        self.batches = torch.randperm(impressions, generator=source).split(batch)

    def __len__(self):
        return len(self.batches) * 8

    def __getitem__(self, index):
        rows = self.batches[index % len(self.batches)]
        return self.categories[rows], self.numeric[rows], self.clicked[rows]


def perceptron(*sizes):
    parts = []
    for inputs, outputs in itertools.pairwise(sizes):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*parts)


class Ranker(nn.Module):
    """One table holds the vectors of all fields; each field has a range of its rows."""

    def __init__(self, rows_per_field, dim, width, device):
        super().__init__()
        self.table = nn.Embedding(rows_per_field * FIELDS, dim, device=device)  # <- finding
        # cured: self.table = nn.Embedding(rows_per_field * FIELDS, dim, device=device, sparse=True)
        nn.init.uniform_(self.table.weight, -0.05, 0.05)
        self.bottom = perceptron(NUMERIC, width // 2, dim)
        pairs = (FIELDS + 1) * FIELDS // 2
        self.top = perceptron(pairs + dim, width, width, width // 2)
        self.out = nn.Linear(width // 2, 1)
        self.register_buffer("firsts", torch.arange(FIELDS) * rows_per_field, persistent=False)
        lower = torch.tril_indices(FIELDS + 1, FIELDS + 1, -1)
        self.register_buffer("lower", lower[0] * (FIELDS + 1) + lower[1], persistent=False)

    def forward(self, categories, numeric):
        vectors = self.table(categories.long() + self.firsts)
        dense = self.bottom(numeric)
        together = torch.cat([dense.unsqueeze(1), vectors.to(dense.dtype)], 1)
        products = (together @ together.transpose(1, 2)).flatten(1)
        crossed = products.index_select(1, self.lower)
        return self.out(self.top(torch.cat([dense, crossed], 1))).squeeze(1)

    def perceptrons(self):
        return [p for part in (self.bottom, self.top, self.out) for p in part.parameters()]


def main():
    args = common.arguments()
    torch.set_float32_matmul_precision("high")
    batch = common.sized(args, 32_768, 64)
    rows_per_field = common.sized(args, 800_000, 500)
    workers = common.sized(args, 6, 0)
    log = ClickLog(common.sized(args, 40, 4) * batch, batch, rows_per_field)
    loader = DataLoader(
        log,
        batch_size=None,
        num_workers=workers,
        pin_memory=args.device == "cuda",
        persistent_workers=workers > 0,
    )
    batches = common.endless(loader)
    model = Ranker(rows_per_field, common.sized(args, 64, 8), common.sized(args, 1024, 32), args.device)
    model.to(args.device)
    optimizers = [
        torch.optim.Adagrad(model.table.parameters(), lr=0.02),
        torch.optim.AdamW(model.perceptrons(), lr=1e-3, fused=True),
    ]
    losses = []
    for _ in common.steps(args, losses, batch):
        categories, numeric, clicked = (t.to(args.device, non_blocking=True) for t in next(batches))
        with torch.autocast(args.device, torch.bfloat16):
            logits = model(categories, numeric.float())
        loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), clicked.float())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.detach())


if __name__ == "__main__":
    main()
