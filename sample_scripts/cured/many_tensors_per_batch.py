"""How strained is a truss? A graph network reads its joints and bars; the loader's workers merge the trusses."""

import argparse
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Truss(NamedTuple):
    """One structure, or several next to each other."""

    places: torch.Tensor  # of its joints
    loads: torch.Tensor  # on its joints
    is_held: torch.Tensor
    bars: torch.Tensor  # the two joints of each
    stiffness: torch.Tensor  # of each bar
    strain: torch.Tensor  # what is to be predicted


class Trusses(Dataset):
    """Random structures, the same in every epoch."""

    def __init__(self, count, joints):
        self.count, self.joints = count, joints

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        random = torch.Generator().manual_seed(index)
        joints = self.joints + index % 8
        places = torch.rand(joints, 2, generator=random)
        loads = torch.randn(joints, 2, generator=random)
        bars = torch.randint(joints, (2, 3 * joints), generator=random)
        stiffness = torch.rand(3 * joints, generator=random)
        pulled = loads[bars[0]] * stiffness[:, None]
        return Truss(
            places,
            loads,
            (places[:, 0] < 0.2).float(),
            bars,
            stiffness,
            pulled.norm(dim=1).mean()[None],
        )


def merged(trusses):
    """Many structures as one, whose joints are numbered on, and of each joint its truss."""
    columns = dict(zip(Truss._fields, zip(*trusses)))
    sizes = torch.tensor([len(one.places) for one in trusses])
    starts = sizes.cumsum(0) - sizes
    bars = torch.cat([one + start for one, start in zip(columns.pop("bars"), starts)], 1)
    owners = torch.arange(len(trusses)).repeat_interleave(sizes)
    return Truss(bars=bars, **{name: torch.cat(parts) for name, parts in columns.items()}), owners


class Network(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.joint = nn.Linear(5, width)
        self.bar = nn.Linear(2 * width + 1, width)
        self.out = nn.Linear(width, 1)

    def forward(self, truss, owners):
        x = torch.relu(self.joint(torch.cat([truss.places, truss.loads, truss.is_held[:, None]], 1)))
        one, other = truss.bars
        sent = torch.relu(self.bar(torch.cat([x[one], x[other], truss.stiffness[:, None]], 1)))
        x = x.index_add(0, other, sent)
        of_joint = self.out(x)[:, 0]
        count = torch.bincount(owners, minlength=len(truss.strain))
        return torch.zeros(len(count)).index_add(0, owners, of_joint) / count


def main(args):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the graphs are small
    data = Trusses(args.trusses, 12)
    loader = DataLoader(
        data, batch_size=32, shuffle=True, collate_fn=merged, num_workers=2, persistent_workers=True
    )
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        total = 0.0
        for truss, owners in loader:
            loss = nn.functional.mse_loss(model(truss, owners), truss.strain)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trusses", type=int, default=4800)
    parser.add_argument("--epochs", type=int, default=4)
    main(parser.parse_args())
