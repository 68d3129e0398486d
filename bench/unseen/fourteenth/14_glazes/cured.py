"""Text-conditioned flow matching for ceramic glaze test tiles.

A small transformer predicts the velocity field of 16x16 tile photographs; the condition is the glaze note of the kiln log,
read by a frozen BERT.
"""
import argparse
import copy
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertModel

BASES = ["celadon", "tenmoku", "shino", "rutile", "chun", "copper red", "ash", "titanium", "cobalt", "manganese"]
FIRINGS = ["cone six oxidation", "cone ten reduction", "raku with sawdust", "soda fired", "wood fired for three days", "slow cooled"]
MARKS = ["crawling at the rim", "fine crazing all over", "iron spots", "oil spot pooling", "runny with drips", "satin matte surface",
         "pinholes near the foot", "crystals in the centre"]
TILE = 16


def kiln_log(n, seed):
    """n tiles: image (3, 16, 16) in [-1, 1] and a note such as 'celadon glaze, cone ten reduction, iron spots'."""
    rng = np.random.default_rng(seed)
    base, fire, mark = rng.integers(0, len(BASES), n), rng.integers(0, len(FIRINGS), n), rng.integers(0, len(MARKS), n)
    colour = np.random.default_rng(5).uniform(-0.8, 0.8, (len(BASES), 3))[base]
    warmth = np.linspace(-0.3, 0.3, len(FIRINGS))[fire]
    yy, xx = np.mgrid[0:TILE, 0:TILE] / TILE
    freq = 2 + mark[:, None, None] * 1.5
    phase = rng.uniform(0, 2 * math.pi, (n, 1, 1))
    texture = 0.3 * np.sin(freq * (xx + (mark % 3)[:, None, None] * yy) * 2 * math.pi / 2 + phase)
    image = colour[:, :, None, None] + texture[:, None] + warmth[:, None, None, None] * np.array([1, 0, -1])[:, None, None]
    image = image + 0.05 * rng.standard_normal(image.shape)
    notes = [f"{BASES[b]} glaze over white stoneware, {FIRINGS[f]}, {MARKS[m]}" for b, f, m in zip(base, fire, mark)]
    return torch.tensor(image, dtype=torch.float32).clamp_(-1, 1), notes


class WordTokenizer:
    def __init__(self, notes):
        words = sorted({w for note in notes for w in note.replace(",", " ,").split()})
        self.ids = {w: i + 2 for i, w in enumerate(words)}
        self.length = 1 + max(len(n.replace(",", " ,").split()) for n in notes)

    def __call__(self, note):
        ids = [1] + [self.ids[w] for w in note.replace(",", " ,").split()]
        return ids + [0] * (self.length - len(ids))


class Tiles(Dataset):
    def __init__(self, images, notes, tokenizer, reader):
        self.images = images
        tokens, self.which = torch.tensor([tokenizer(n) for n in notes]).unique(dim=0, return_inverse=True)
        with torch.no_grad():
            self.texts = torch.cat([reader(chunk) for chunk in tokens.split(40)])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.texts[self.which[i]]


class NoteReader(nn.Module):
    """Frozen text encoder: mean of the last hidden states over the words."""

    def __init__(self, vocab, dim):
        super().__init__()
        torch.manual_seed(40)
        self.bert = BertModel(BertConfig(vocab_size=vocab, hidden_size=dim, num_hidden_layers=6, num_attention_heads=4,
                                         intermediate_size=4 * dim, max_position_embeddings=64), add_pooling_layer=False)
        self.eval().requires_grad_(False)

    def forward(self, tokens):
        mask = tokens != 0
        hidden = self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
        return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class FlowBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim, elementwise_affine=False), nn.LayerNorm(dim, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim))
        self.mod = nn.Linear(dim, 6 * dim)
        nn.init.zeros_(self.mod.weight)
        nn.init.zeros_(self.mod.bias)

    def forward(self, x, c):
        b, t, d = x.shape
        s1, g1, a1, s2, g2, a2 = self.mod(F.silu(c))[:, None].chunk(6, -1)
        q, k, v = self.qkv(self.n1(x) * (1 + g1) + s1).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + a1 * self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + a2 * self.mlp(self.n2(x) * (1 + g2) + s2)


class VelocityNet(nn.Module):
    def __init__(self, text_dim, dim=160, depth=3, heads=4, patch=4):
        super().__init__()
        self.patch = patch
        self.inp = nn.Linear(3 * patch ** 2, dim)
        self.pos = nn.Parameter(torch.randn(1, (TILE // patch) ** 2, dim) * 0.02)
        self.time = nn.Sequential(nn.Linear(64, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.text = nn.Linear(text_dim, dim)
        self.null = nn.Parameter(torch.zeros(text_dim))
        self.blocks = nn.ModuleList([FlowBlock(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.outp = nn.Linear(dim, 3 * patch ** 2)
        self.register_buffer("freqs", torch.exp(torch.linspace(0, 5, 32)))

    def forward(self, x, t, text, drop=None):
        if drop is not None:
            text = torch.where(drop[:, None], self.null, text)
        angle = t[:, None] * self.freqs
        c = self.time(torch.cat([angle.sin(), angle.cos()], -1)) + self.text(text)
        h = self.inp(F.pixel_unshuffle(x, self.patch).flatten(2).transpose(1, 2)) + self.pos
        for block in self.blocks:
            h = block(h, c)
        h = self.outp(self.norm(h)).transpose(1, 2).unflatten(2, (TILE // self.patch, -1))
        return F.pixel_shuffle(h, self.patch)


@dataclass
class FlowTrainer:
    net: VelocityNet
    lr: float = 6e-4
    guidance_dropout: float = 0.1
    ema_decay: float = 0.995

    def __post_init__(self):
        self.ema = copy.deepcopy(self.net).requires_grad_(False)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=self.lr, weight_decay=0.01)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda s: min(1.0, (s + 1) / 50))

    def velocity_loss(self, net, images, text, drop_rate):
        t = torch.sigmoid(torch.randn(len(images)))
        noise = torch.randn_like(images)
        w = t[:, None, None, None]
        drop = torch.rand(len(images)) < drop_rate
        pred = net((1 - w) * noise + w * images, t, text, drop)
        return F.mse_loss(pred, images - noise)

    def step(self, images, text):
        loss = self.velocity_loss(self.net, images, text, self.guidance_dropout)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step()
        self.sched.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.ema.parameters()), list(self.net.parameters()), 1 - self.ema_decay)
        return loss.item()

    @torch.no_grad()
    def validate(self, loader):
        return sum(self.velocity_loss(self.ema, images, text, 0.0).item() for images, text in loader) / len(loader)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tiles", type=int, default=4000)
    ap.add_argument("--batch", type=int, default=40)
    ap.add_argument("--epochs", type=int, default=4)
    args = ap.parse_args()
    images, notes = kiln_log(args.tiles + 160, seed=0)
    tokenizer = WordTokenizer(notes)
    reader = NoteReader(len(tokenizer.ids) + 2, 192)
    tiles = Tiles(images, notes, tokenizer, reader)
    train, held = torch.utils.data.random_split(tiles, [args.tiles, 160], torch.Generator().manual_seed(1))
    train_loader = DataLoader(train, args.batch, shuffle=True, drop_last=True)
    held_loader = DataLoader(held, 80)

    trainer = FlowTrainer(VelocityNet(192))
    started, step = time.time(), 0
    for epoch in range(args.epochs):
        for images, text in train_loader:
            loss = trainer.step(images, text)
            step += 1
            if step % 25 == 0:
                print(f"epoch {epoch} step {step} flow loss {loss:.4f} ({(time.time() - started) / step * 1000:.0f} ms/step)")
        print(f"epoch {epoch}: held-out {trainer.validate(held_loader):.4f}")
        torch.save(trainer.ema.state_dict(), "/tmp/glaze_flow.pt")


if __name__ == "__main__":
    main()
