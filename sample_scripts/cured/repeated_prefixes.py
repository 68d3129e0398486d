"""A transformer learns to sort digits; what it writes in each evaluation goes through a cache."""

import argparse

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

DIGITS, SORTED, VOCABULARY = 48, 10, 11  # SORTED: the token between the digits and the same digits in order


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, past=None):
        batch, length, width = x.shape
        qkv = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        y = scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.between(x)), (k, v)


class Sorter(nn.Module):
    def __init__(self, width=96, heads=4, depth=3):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(2 * DIGITS + 1, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, text, cache=None):
        start = cache[0][0].shape[2] if cache else 0
        x = self.tokens(text) + self.places(torch.arange(start, start + text.shape[1]))
        kept = []
        for place, block in enumerate(self.blocks):
            x, keys_and_values = block(x, cache[place] if cache else None)
            kept.append(keys_and_values)
        return self.head(x), kept


@torch.no_grad()
def write(model, text, count):
    """The text with `count` more tokens, the likeliest each time."""
    token, cache = text, None
    for _ in range(count):
        logits, cache = model(token, cache)
        token = logits[:, -1:].argmax(-1)
        text = torch.cat([text, token], dim=1)
    return text


def texts(batch):
    digits = torch.randint(0, 10, (batch, DIGITS))
    between = torch.full((batch, 1), SORTED)
    return torch.cat([digits, between, digits.sort(dim=1).values], dim=1)


def accuracy(model, known):
    model.eval()
    written = write(model, known[:, : DIGITS + 1], DIGITS)
    model.train()
    return (written == known)[:, DIGITS + 1 :].float().mean().item()


def train(steps, every, batch=32):
    model = Sorter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    known = texts(64)
    for step in range(1, steps + 1):
        text = texts(batch)
        logits = model(text[:, :-1])[0][:, DIGITS:]
        loss = cross_entropy(logits.flatten(0, 1), text[:, DIGITS + 1 :].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == 0:
            print(f"step {step}: loss {loss.item():.3f}, accuracy {accuracy(model, known):.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(0)
    train(args.steps, args.every)
