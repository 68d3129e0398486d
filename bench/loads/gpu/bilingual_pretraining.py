"""Pretrains a cross-lingual encoder for translation: a sentence and its translation stand side by side,
some of their words are hidden, and the model says which they were."""

# expect: verdict=compute finding=ignored-targets

import common
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

MASK = 1


class Pairs(torch.utils.data.Dataset):
    """Sentences with Zipf-distributed words; the translation takes each word by a fixed dictionary."""

    def __init__(self, count, length, words, hidden):
        rng = np.random.default_rng(0)
        ranks = rng.zipf(1.2, (count, length // 2)) % (words // 2 - 2)
        self.source = (ranks + 2).astype(np.int64)
        self.dictionary = rng.permutation(words // 2).astype(np.int64) + words // 2
        self.hidden = hidden

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        source = self.source[index]
        tokens = np.concatenate([source, self.dictionary[source][::-1]])
        where = np.random.permutation(len(tokens))[: self.hidden]
        labels = np.full_like(tokens, -100)
        labels[where] = tokens[where]
        tokens[where] = MASK
        return tokens, labels


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm_1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.feed(self.norm_2(x))


class Encoder(nn.Module):
    def __init__(self, words, width, heads, depth, length):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.vocabulary = nn.Linear(width, words)
        nn.init.normal_(self.words.weight, std=0.02)
        self.vocabulary.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def head_loss(model, states, labels, picked):
    """The loss on some positions of each row."""
    chosen = states.gather(1, picked[..., None].expand(-1, -1, states.shape[-1]))
    logits = model.vocabulary(chosen)
    return F.cross_entropy(logits.flatten(0, 1), labels.gather(1, picked).flatten(), ignore_index=-100)


def main():
    args = common.arguments()
    np.random.seed(0)
    torch.set_float32_matmul_precision("high")
    batch, length, hidden = common.sized(args, (96, 256, 38), (4, 32, 5))
    words, width, heads, depth = common.sized(args, (64_000, 512, 8, 6), (200, 32, 2, 2))
    workers = common.sized(args, 4, 0)
    loader = torch.utils.data.DataLoader(
        Pairs(common.sized(args, 20_000, 64), length, words, hidden),
        batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=args.device == "cuda",
    )
    model = Encoder(words, width, heads, depth, length).to(args.device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-4, betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 1000))
    batches, losses = common.endless(loader), []
    for _ in common.steps(args, losses, batch):
        tokens, labels = (ids.to(args.device, non_blocking=True) for ids in next(batches))
        with torch.autocast(args.device, torch.bfloat16):
            states = model(tokens)
            logits = model.vocabulary(states)  # <- finding
            # cured: picked = labels.ge(0).int().argsort(dim=1, descending=True, stable=True)[:, :hidden]
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)  # <- finding
            # cured: loss = head_loss(model, states, labels, picked)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())


if __name__ == "__main__":
    main()
