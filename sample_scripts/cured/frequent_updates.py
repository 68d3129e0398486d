"""Is a graph connected? Graphs of any size are read one at a time, and the weights move after four of them."""

import argparse

import torch
from torch import nn


class MessagePassing(nn.Module):
    """Every node adds up what its neighbours say."""

    def __init__(self, width):
        super().__init__()
        self.own = nn.Linear(width, width)
        self.others = nn.Linear(width, width, bias=False)

    def forward(self, nodes, edges):
        heard = torch.zeros_like(nodes).index_add(0, edges[1], nodes[edges[0]])
        return torch.relu(self.own(nodes) + self.others(heard) / 4)


class GraphNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.embed = nn.Linear(2, width)
        self.layers = nn.ModuleList(MessagePassing(width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, nodes, edges):
        hidden = self.embed(nodes)
        for layer in self.layers:
            hidden = layer(hidden, edges)
        return self.head(hidden.mean(0)).squeeze()


def random_graph(random):
    """Two rings of nodes, joined by one edge or not."""
    left, right = torch.randint(3, 8, (2,), generator=random).tolist()
    ends = [(at, (at + 1) % left) for at in range(left)]
    ends += [(left + at, left + (at + 1) % right) for at in range(right)]
    joined = int(torch.randint(2, (), generator=random))
    ends += [(0, left)] * joined
    edges = torch.tensor(ends + [(b, a) for a, b in ends]).T
    count = left + right
    degree = torch.bincount(edges[0], minlength=count).float()
    return torch.stack([degree, torch.full((count,), count / 16)], 1), edges, float(joined)


def train(graphs, width):
    random = torch.Generator().manual_seed(0)
    model = GraphNet(width, depth=3)
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-4, foreach=True)
    total = 0.0
    for number in range(1, graphs + 1):
        nodes, edges, joined = random_graph(random)
        logit = model(nodes, edges)
        loss = nn.functional.binary_cross_entropy_with_logits(logit, logit.new_tensor(joined))
        (loss / 4).backward()
        if number % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        total += loss.item()
        if number % 64 == 0:
            print(f"graph {number}: loss {total / 64:.3f}")
            total = 0.0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=256)
    parser.add_argument("--width", type=int, default=768)
    args = parser.parse_args()
    torch.manual_seed(0)
    train(args.graphs, args.width)
