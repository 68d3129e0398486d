"""A causal language model of a few wide layers, in 16 bits with fused attention."""

# expect: verdict=healthy finding=none

import common
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset


class Stories(Dataset):
    """Pieces of a long text, with the word that follows each."""

    def __init__(self, words, length):
        self.length = length
        self.text = np.random.default_rng(0).integers(0, words, 1 << 22)

    def __len__(self):
        return (len(self.text) - 1) // self.length

    def __getitem__(self, index):
        start = index * self.length
        return self.text[start : start + self.length], self.text[start + 1 : start + 1 + self.length]


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.merge = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        mixed = self.mix(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*mixed.unbind(), is_causal=True)
        x = x + self.merge(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.widen(self.between(x))))


class Writer(nn.Module):
    def __init__(self, words, length, width, heads, layers):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
        nn.init.normal_(self.words.weight, std=0.02)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)), nn.LayerNorm(width))

    def forward(self, words):
        return F.linear(self.layers(self.words(words) + self.places), self.words.weight)


def schedule(optimizer, warm_up=50, decay=2000):
    factor = lambda step: min((step + 1) / warm_up, 0.5 ** (step / decay))  # noqa: E731
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def main():
    args = common.arguments()
    on_device = args.device == "cuda"
    words, size, length = common.sized(args, (16_384, 4, 1024), (200, 2, 16))
    width, heads, layers = common.sized(args, (4096, 32, 2), (32, 2, 1))
    stories = Stories(words, length)
    loader = DataLoader(
        stories, size, shuffle=True, num_workers=2 if on_device else 1, pin_memory=on_device, drop_last=True,
        persistent_workers=True,
    )  # fmt: skip
    with torch.device(args.device):
        model = Writer(words, length, width, heads, layers).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
    scheduler = schedule(optimizer)
    losses = []
    batches = zip(common.steps(args, losses, size), common.endless(loader), strict=False)
    for step, (text, following) in batches:
        text = text.to(args.device, non_blocking=True)
        following = following.to(args.device, non_blocking=True)
        loss = F.cross_entropy(model(text).flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach())
        if step % 100 == 99:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
