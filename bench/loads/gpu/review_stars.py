"""Predicts the stars of product reviews from their tokens: a transformer encoder trained from scratch."""

# expect: verdict=compute finding=padded-batches

import common
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

STARS = 5
PAD, CLS = 0, 1


class Reviews(Dataset):
    """Tokenised reviews, one after the other in a single array."""

    def __init__(self, count, vocabulary, mean_tokens):
        rng = np.random.default_rng(2)
        lengths = np.clip(rng.normal(mean_tokens, mean_tokens / 6, count), 4, 2 * mean_tokens).astype(
            np.int64
        )
        self.ends = np.cumsum(lengths)
        self.starts = self.ends - lengths
        self.tokens = (2 + rng.random(self.ends[-1]) ** 2 * (vocabulary - 2)).astype(np.int64)
        self.tokens[self.starts] = CLS
        mood = np.add.reduceat(self.tokens % 7 - 3, self.starts) / np.sqrt(lengths)
        self.stars = np.clip(np.round(mood + 2), 0, STARS - 1).astype(np.int64)

    def __len__(self):
        return len(self.stars)

    def __getitem__(self, index):
        return torch.from_numpy(self.tokens[self.starts[index] : self.ends[index]]), int(self.stars[index])


class Collator:
    """Makes a batch of reviews: a rectangle of tokens, and the stars."""

    def __init__(self, max_tokens):
        self.max_tokens = max_tokens

    def __call__(self, reviews):
        texts = [tokens[: self.max_tokens] for tokens, _ in reviews]
        length = self.max_tokens  # <- finding
        # cured: length = -(-max(len(tokens) for tokens in texts) // 8) * 8
        batch = torch.full((len(texts), length), PAD)
        for row, tokens in zip(batch, texts, strict=True):
            row[: len(tokens)] = tokens
        return batch, torch.tensor([stars for _, stars in reviews])


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.mix(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Rater(nn.Module):
    def __init__(self, vocabulary, max_tokens, width, depth, heads):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.places = nn.Parameter(torch.randn(max_tokens, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, STARS)

    def forward(self, tokens):
        mask = (tokens != PAD)[:, None, None, :]
        x = self.words(tokens) + self.places[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x[:, 0]))


def main():
    args = common.arguments()
    torch.set_float32_matmul_precision("high")
    batch = common.sized(args, 96, 4)
    workers = common.sized(args, 4, 0)
    vocabulary, max_tokens = common.sized(args, 30_000, 200), common.sized(args, 512, 64)
    loader = DataLoader(
        Reviews(common.sized(args, 60_000, 200), vocabulary, common.sized(args, 96, 14)),
        batch,
        shuffle=True,
        drop_last=True,
        collate_fn=Collator(max_tokens),
        num_workers=workers,
        pin_memory=args.device == "cuda",
        persistent_workers=workers > 0,
    )
    batches = common.endless(loader)
    sizes = common.sized(args, (768, 8, 12), (32, 2, 4))
    model = Rater(vocabulary, max_tokens, *sizes).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    losses = []
    for _ in common.steps(args, losses, batch):
        tokens, stars = (t.to(args.device, non_blocking=True) for t in next(batches))
        with torch.autocast(args.device, torch.bfloat16):
            logits = model(tokens)
        loss = F.cross_entropy(logits.float(), stars)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())


if __name__ == "__main__":
    main()
