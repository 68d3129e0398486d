import torch
from torch import nn


def mlp(inp, hidden, out):
    return nn.Sequential(nn.Linear(inp, hidden), nn.SiLU(), nn.Linear(hidden, out))


class PressureRound(nn.Module):
    """One round of gated messages along the pipes."""

    def __init__(self, width):
        super().__init__()
        self.here = nn.Linear(width, 2 * width)
        self.there = nn.Linear(width, 2 * width, bias=False)
        self.pipe = nn.Linear(width, 2 * width, bias=False)
        self.update = mlp(2 * width, width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, h, e, pipes):
        src, dst = pipes
        mixed = self.here(h).index_select(0, dst) + self.there(h).index_select(0, src) + self.pipe(e)
        gate, message = mixed.chunk(2, dim=1)
        gathered = torch.zeros_like(h).index_add(0, dst, torch.sigmoid(gate) * message)
        return self.norm(h + self.update(torch.cat([h, gathered], dim=1)))


class LeakLocator(nn.Module):
    def __init__(self, width, rounds):
        super().__init__()
        self.node_in = mlp(5, width, width)
        self.pipe_in = mlp(2, width, width)
        self.rounds = nn.ModuleList(PressureRound(width) for _ in range(rounds))
        self.score = mlp(width, width, 1)

    def forward(self, batch):
        scale = batch.node_feats.new_tensor([10.0, 1.0, 20.0, 1.0, 0.25])
        h = self.node_in(batch.node_feats * scale)
        e = self.pipe_in(batch.pipe_feats)
        for block in self.rounds:
            h = block(h, e, batch.pipes)
        return self.score(h).squeeze(1)


def segment_log_softmax(scores, owner, count):
    peak = scores.new_full((count,), -torch.inf).scatter_reduce(0, owner, scores.detach(), "amax")
    shifted = scores - peak[owner]
    total = scores.new_zeros(count).index_add(0, owner, shifted.exp())
    return shifted - total.log()[owner]
