"""Masked-token pre-training of a small encoder on (synthetic) system logs."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, MASK, FIRST = 0, 1, 2


def synth_logs(n, length, vocab, gen):
    """Lines are filled-in templates: template tokens are frequent, slots draw from the whole vocabulary."""
    templates = torch.randint(FIRST, vocab // 10, (60, length), generator=gen)
    slots = torch.rand(60, length, generator=gen) < 0.25
    which = torch.randint(60, (n,), generator=gen)
    filler = torch.randint(FIRST, vocab, (n, length), generator=gen)
    lines = torch.where(slots[which], filler, templates[which])
    ends = torch.randint(length * 3 // 4, length + 1, (n, 1), generator=gen)
    return lines.masked_fill(torch.arange(length) >= ends, PAD)


def mask_tokens(tokens, vocab, rate):
    """BERT's recipe: of the chosen tokens 80 % become [MASK], 10 % random, 10 % stay."""
    chosen = (torch.rand(tokens.shape) < rate) & (tokens != PAD)
    labels = tokens.masked_fill(~chosen, -100)
    dice = torch.rand(tokens.shape)
    inputs = tokens.masked_fill(chosen & (dice < 0.8), MASK)
    swap = chosen & (dice >= 0.9)
    return torch.where(swap, torch.randint_like(tokens, FIRST, vocab), inputs), labels


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, keep):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class LogEncoder(nn.Module):
    def __init__(self, vocab, length, dim, layers, heads):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.zeros(length, dim))
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
        self.transform = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.LayerNorm(dim))
        self.bias = nn.Parameter(torch.zeros(vocab))
        nn.init.normal_(self.tok.weight, std=0.02)
        nn.init.normal_(self.pos, std=0.02)

    def encode(self, tokens):
        keep = (tokens != PAD)[:, None, None, :]
        x = self.tok(tokens) + self.pos[:tokens.size(1)]
        for block in self.blocks:
            x = block(x, keep)
        return x

    def predict(self, hidden):
        return F.linear(self.transform(hidden), self.tok.weight, self.bias)

    def forward(self, tokens, labels):
        masked = labels != -100
        logits = self.predict(self.encode(tokens)[masked])
        return F.cross_entropy(logits, labels[masked])


def lr_at(step, total, warmup):
    return min(step / warmup, (total - step) / max(1, total - warmup))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=160)
    p.add_argument("--lines", type=int, default=12000)
    p.add_argument("--length", type=int, default=64)
    p.add_argument("--vocab", type=int, default=6000)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--mask-rate", type=float, default=0.15)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    torch.manual_seed(8)
    corpus = synth_logs(args.lines, args.length, args.vocab, torch.Generator().manual_seed(8))
    model = LogEncoder(args.vocab, args.length, args.dim, args.layers, heads=4)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98), fused=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: lr_at(s + 1, args.steps + 1, 20))
    print(f"{sum(q.numel() for q in model.parameters()) / 1e6:.2f}M parameters", flush=True)

    start, running = time.time(), torch.zeros(())
    order = torch.randperm(len(corpus))
    for step in range(1, args.steps + 1):
        at = (step - 1) * args.batch_size % (len(corpus) - args.batch_size)
        tokens = corpus[order[at:at + args.batch_size]]
        inputs, labels = mask_tokens(tokens, args.vocab, args.mask_rate)
        loss = model(inputs, labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        running += loss.detach()
        if step % 20 == 0:
            rate = step * args.batch_size * args.length / (time.time() - start)
            print(f"step {step:4d}  mlm loss {running.item() / 20:.4f}  {rate:.0f} tokens/s", flush=True)
            running.zero_()
    torch.save(model.state_dict(), "/tmp/log_encoder.pt")


if __name__ == "__main__":
    main()
