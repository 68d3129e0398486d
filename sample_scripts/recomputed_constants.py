"""A graph network learns which community each node belongs to, from the edges alone."""

# expect: verdict=compute finding=recomputed-constants

import argparse

import torch
from torch import nn


def communities(nodes, count):
    """An adjacency matrix with more edges inside communities than between them, and each node's community."""
    labels = torch.arange(nodes) % count
    same = labels[:, None] == labels[None, :]
    edges = torch.rand(nodes, nodes) < torch.where(same, 0.3, 0.1)
    upper = torch.triu(edges.float(), diagonal=1)
    return upper + upper.T, labels


def normalise(adjacency):
    """D^-1/2 (A + I) D^-1/2, as graph convolutions want it."""
    connected = adjacency + torch.eye(len(adjacency))  # <- finding
    scale = connected.sum(1).rsqrt()
    return scale[:, None] * connected * scale[None, :]  # <- finding


class GraphNet(nn.Module):
    def __init__(self, adjacency, width, classes):
        super().__init__()
        self.register_buffer("adjacency", adjacency)
        self.nodes = nn.Parameter(torch.randn(len(adjacency), width))
        self.hidden = nn.Linear(width, width)
        self.output = nn.Linear(width, classes)

    def forward(self):
        adjacency = normalise(self.adjacency)
        x = torch.relu(adjacency @ self.hidden(nn.functional.dropout(self.nodes, 0.3, self.training)))
        return adjacency @ self.output(x)


def main(args):
    torch.manual_seed(0)
    adjacency, labels = communities(args.nodes, 8)
    known = torch.rand(args.nodes) < 0.3
    model = GraphNet(adjacency, 8, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(1, args.steps + 1):
        loss = nn.functional.cross_entropy(model()[known], labels[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--nodes", type=int, default=1200)
    main(parser.parse_args())
