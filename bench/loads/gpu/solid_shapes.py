"""Classifies point clouds of solids with a dynamic graph network: each layer joins a point
to those that are nearest to it in the features of the layer before."""

# expect: verdict=compute finding=costly-line

import common
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Solids(torch.utils.data.Dataset):
    """Superquadrics: the exponents tell the class; seen turned about the vertical and jittered."""

    def __init__(self, count, points, classes):
        rng = np.random.default_rng(0)
        self.points = points
        self.labels = rng.integers(0, classes, count)
        theta = rng.uniform(-np.pi / 2, np.pi / 2, (count, 2 * points))
        phi = rng.uniform(-np.pi, np.pi, (count, 2 * points))
        flat = (0.3 + 0.4 * (self.labels % 4))[:, None]
        round_ = (0.3 + 0.4 * (self.labels // 4))[:, None]

        def power(values, exponent):
            return np.sign(values) * np.abs(values) ** exponent

        side = power(np.cos(theta), flat)
        x, y = side * power(np.cos(phi), round_), side * power(np.sin(phi), round_)
        self.clouds = np.stack([x, y, power(np.sin(theta), flat)], -1).astype(np.float32)

    def __len__(self):
        return 20 * len(self.labels)

    def __getitem__(self, index):
        index %= len(self.labels)
        cloud = self.clouds[index][np.random.permutation(2 * self.points)[: self.points]]
        angle = np.random.uniform(0, 2 * np.pi)
        turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        jitter = np.clip(0.01 * np.random.randn(*cloud.shape), -0.05, 0.05)
        return (cloud @ turn + jitter).astype(np.float32), self.labels[index]


@torch.no_grad()
def neighbours(x, k):
    """The k points nearest to each, as rows of the flattened batch."""
    with torch.autocast(x.device.type, enabled=False):
        x = x.float()
        squares = x.square().sum(-1)
        distances = torch.baddbmm(squares[:, None, :], x, x.transpose(1, 2), alpha=-2)
    nearest = distances.argsort(dim=-1)[:, :, :k]  # <- finding
    # cured: nearest = distances.topk(k, dim=-1, largest=False, sorted=False).indices
    first = torch.arange(len(x), device=x.device) * x.shape[1]
    return (nearest + first[:, None, None]).flatten()


class EdgeLayer(nn.Module):
    """A linear map of (point, neighbour - point), normalized, and the largest over the neighbours."""

    def __init__(self, inputs, outputs, k):
        super().__init__()
        self.k = k
        self.own, self.other = nn.Linear(inputs, outputs, bias=False), nn.Linear(inputs, outputs, bias=False)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x):
        batch, points, _ = x.shape
        others = self.other(x)
        edges = others.flatten(0, 1).index_select(0, neighbours(x, self.k)).view(batch, points, self.k, -1)
        edges = edges + (self.own(x) - others)[:, :, None]
        edges = F.leaky_relu(self.norm(edges.flatten(0, 2)), 0.2)
        return edges.view(batch, points, self.k, -1).max(2).values


class DynamicGraph(nn.Module):
    def __init__(self, widths, k, classes):
        super().__init__()
        self.layers = nn.ModuleList(
            EdgeLayer(*pair, k) for pair in zip([3, *widths[:-1]], widths, strict=True)
        )
        self.join = nn.Linear(sum(widths), 2 * sum(widths), bias=False)
        self.norm = nn.BatchNorm1d(2 * sum(widths))
        self.head = nn.Sequential(
            nn.Linear(4 * sum(widths), 256), nn.GELU(), nn.Dropout(0.3), nn.Linear(256, classes)
        )

    def forward(self, x):
        features = []
        for layer in self.layers:
            x = layer(x)
            features.append(x)
        joined = self.join(torch.cat(features, -1))
        joined = F.leaky_relu(self.norm(joined.flatten(0, 1)), 0.2).view_as(joined)
        return self.head(torch.cat([joined.max(1).values, joined.mean(1)], -1))


def main():
    args = common.arguments()
    np.random.seed(0)
    torch.set_float32_matmul_precision("high")
    batch, points, k = common.sized(args, (12, 2048, 20), (4, 64, 6))
    widths = common.sized(args, (64, 64, 128, 256), (8, 8, 16, 16))
    workers, classes = common.sized(args, 6, 0), 16
    loader = torch.utils.data.DataLoader(
        Solids(common.sized(args, 480, 16), points, classes),
        batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=args.device == "cuda",
    )
    model = DynamicGraph(widths, k, classes).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    batches, losses = common.endless(loader), []
    for _ in common.steps(args, losses, batch):
        clouds, labels = (part.to(args.device, non_blocking=True) for part in next(batches))
        with torch.autocast(args.device, torch.bfloat16):
            loss = F.cross_entropy(model(clouds), labels, label_smoothing=0.2)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())


if __name__ == "__main__":
    main()
