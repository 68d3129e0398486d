"""Stiffness of spring nets by how loads move them: the matrix of each net is factorised for each of its loads."""

# expect: verdict=compute finding=repeated-factorizations

import argparse

import torch
from torch import nn

SIDE = 16
JOINTS = SIDE * SIDE
LOADS = 8


def springs():
    """The joints at both ends of each spring of a square net."""
    number = torch.arange(JOINTS).view(SIDE, SIDE)
    across = torch.stack([number[:, :-1].flatten(), number[:, 1:].flatten()])
    down = torch.stack([number[:-1].flatten(), number[1:].flatten()])
    return torch.cat([across, down], 1)


class Nets(nn.Module):
    """What moves where a joint is pulled, each joint held by a weak spring of its own."""

    def __init__(self):
        super().__init__()
        one, other = springs()
        self.count = len(one)
        places = [one * JOINTS + other, other * JOINTS + one, one * JOINTS + one, other * JOINTS + other]
        self.register_buffer("places", torch.cat(places))
        self.register_buffer("own", 0.1 * torch.eye(JOINTS).flatten())
        self.register_buffer("loads", torch.eye(JOINTS)[torch.randperm(JOINTS)[:LOADS]])

    def forward(self, stiffness):
        values = torch.cat([-stiffness, -stiffness, stiffness, stiffness], 1)
        flat = self.own.repeat(len(stiffness), 1).index_add(1, self.places, values)
        matrix = flat.view(-1, JOINTS, JOINTS)
        moved = torch.linalg.solve(matrix[:, None], self.loads[None, :, :, None])  # <- finding
        return moved[..., 0]


def main(args):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    nets = Nets()
    guess = nn.Sequential(
        nn.Linear(LOADS * JOINTS, 128), nn.GELU(), nn.Linear(128, nets.count), nn.Softplus()
    )
    optimizer = torch.optim.Adam(guess.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        with torch.no_grad():
            seen = nets(0.5 + torch.rand(args.batch_size, nets.count))
        moved = nets(guess(seen.flatten(1)) + 0.05)
        loss = nn.functional.mse_loss(moved, seen)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.5f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=8)
    main(parser.parse_args())
