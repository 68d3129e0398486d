"""Two processes share the parameters of a small language model, and gather every layer's twice a step."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import fully_shard

LETTERS = 32
CONTEXT = 32


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.between = nn.LayerNorm(width)
        self.mix = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        inner = self.before(x)
        x = x + self.attention(inner, inner, inner, attn_mask=future, need_weights=False)[0]
        return x + self.mix(self.between(x))


class LanguageModel(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.places = nn.Parameter(torch.zeros(CONTEXT, width))
        self.layers = nn.Sequential(*(Layer(width) for _ in range(depth)))
        self.head = nn.Linear(width, LETTERS)

    def forward(self, text):
        return self.head(self.layers(self.letters(text) + self.places))


class Text:
    """Letters that follow each other by a made-up rule."""

    def __init__(self, seed):
        self.random = torch.Generator().manual_seed(seed)

    def batch(self, size):
        text = torch.randint(LETTERS, (size, CONTEXT + 1), generator=self.random)
        for place in range(2, CONTEXT + 1):
            text[:, place] = (text[:, place - 1] + 3 * text[:, place - 2]) % LETTERS
        return text[:, :-1], text[:, 1:]


def train(rank, args):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # every process has a core of its own
    model = LanguageModel(args.width, args.depth)
    for layer in model.layers:
        fully_shard(layer, reshard_after_forward=False)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    text = Text(seed=rank)
    for step in range(1, args.steps + 1):
        before, after = text.batch(args.batch_size)
        loss = nn.functional.cross_entropy(model(before).flatten(0, 1), after.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--port", default="29625")
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", args.port)
    mp.spawn(train, (args,), nprocs=2)
