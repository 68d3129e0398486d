"""LoRA fine-tuning of our small decoder for meeting-minutes style summaries. No peft, just a few lines."""
import argparse
import math
import os
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, SEP, EOS = 0, 1, 2, 3


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Decoder(nn.Module):
    def __init__(self, vocab, dim, layers, heads, context):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln(x))


class LoRALinear(nn.Module):
    """y = W x + (alpha / r) B A x"""

    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.lora_a), self.lora_b) * self.scale


def add_lora(model, targets, rank, alpha):
    """Swap the targeted linears for LoRA ones and return the adapter's parameters."""
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in targets and isinstance(child, nn.Linear):
                setattr(module, name, LoRALinear(child, rank, alpha))
    return [p for n, p in model.named_parameters() if "lora_" in n]


def adapter_state(model):
    return {n: p.detach().clone() for n, p in model.named_parameters() if "lora_" in n}


def make_meetings(n, vocab, seed):
    """A 'transcript' with topic tokens hidden among chatter, and the topics in order as its summary."""
    rng = random.Random(seed)
    chatter, topics = range(10, vocab // 2), range(vocab // 2, vocab)
    samples = []
    for _ in range(n):
        length = rng.randint(60, 130)
        body = [rng.choice(chatter) for _ in range(length)]
        spots = sorted(rng.sample(range(length), rng.randint(4, 10)))
        for s in spots:
            body[s] = rng.choice(topics)
        samples.append(([BOS] + body + [SEP], [body[s] for s in spots] + [EOS]))
    return samples


def make_batches(samples, batch_size, rng):
    """Neighbours in length share a batch; the order of the batches is random."""
    order = sorted(range(len(samples)), key=lambda i: len(samples[i][0]) + rng.random() * 4)
    groups = [order[i:i + batch_size] for i in range(0, len(order) - batch_size + 1, batch_size)]
    rng.shuffle(groups)
    for group in groups:
        seqs = [torch.tensor(samples[i][0] + samples[i][1]) for i in group]
        ids = nn.utils.rnn.pad_sequence(seqs, batch_first=True, padding_value=PAD)
        labels = ids.masked_fill(ids == PAD, -100)  # loss on transcript and summary
        yield ids, labels


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--base", default=None, help="checkpoint of the pretrained decoder")
    p.add_argument("--meetings", type=int, default=512)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--vocab", type=int, default=2000)
    p.add_argument("--dim", type=int, default=256)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--rank", type=int, default=8)
    p.add_argument("--alpha", type=float, default=16)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--out", default="/tmp/lora_minutes.pt")
    args = p.parse_args()

    torch.manual_seed(17)
    rng = random.Random(17)
    model = Decoder(args.vocab, args.dim, args.layers, heads=4, context=160)
    if args.base and os.path.exists(args.base):
        model.load_state_dict(torch.load(args.base))
    adapter = add_lora(model, {"q_proj", "v_proj"}, args.rank, args.alpha)
    total = sum(q.numel() for q in model.parameters())
    print(f"training {sum(q.numel() for q in adapter):,} of {total:,} parameters")

    opt = torch.optim.AdamW(adapter, lr=args.lr, weight_decay=0.0)
    samples = make_meetings(args.meetings, args.vocab, seed=1)
    steps = args.epochs * (len(samples) // args.batch_size)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)

    began, step = time.time(), 0
    for epoch in range(args.epochs):
        for ids, labels in make_batches(samples, args.batch_size, rng):
            logits = model(ids)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(adapter, 1.0)
            opt.step()
            sched.step()
            if step % 16 == 0:
                print(f"epoch {epoch}  step {step:4d}/{steps}  loss {loss.item():.4f}  {time.time() - began:.1f}s",
                      flush=True)
            step += 1
    torch.save(adapter_state(model), args.out)
    print("saved adapter to", args.out)


if __name__ == "__main__":
    main()
