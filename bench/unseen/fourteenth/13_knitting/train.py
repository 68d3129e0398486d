# A small decoder-only language model for knitting instructions ("k2tog, yo, k3 ...").
# Tokens are whole stitches and words; the corpus comes from a little pattern grammar.
import math
import os
import random
import time

import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F

out_dir = "/tmp/knitting_lm"
block_size = 48
batch_size = 16
n_layer, n_head, n_embd = 4, 4, 112
max_iters = 560
warmup = 60
learning_rate, min_lr = 1e-3, 1e-4
grad_clip = 1.0
eval_interval, eval_iters = 140, 8
log_interval = 20
seed = 1881

random.seed(seed)
torch.manual_seed(seed)
os.makedirs(out_dir, exist_ok=True)

# ---------------------------------------------------------------- corpus
STITCHES = ["k1", "k2", "k3", "k4", "k5", "p1", "p2", "p3", "p4", "yo", "k2tog", "ssk", "p2tog", "sl1", "m1l", "m1r", "kfb"]
COLOURS = ["heather", "madder", "indigo", "walnut", "birch", "moss"]
GARMENTS = ["shawl", "hat", "mitten", "sock", "cardigan", "cowl"]


def repeat_unit():
    unit = []
    for _ in range(random.randint(2, 4)):
        s = random.choice(STITCHES)
        unit += [s, ","]
        if s == "yo":
            unit += [random.choice(["k2tog", "ssk"]), ","]
    return unit[:-1]


def pattern():
    lines = ["<start>", random.choice(GARMENTS), "in", random.choice(COLOURS), ":", "cast", "on", str(8 * random.randint(4, 20)), "sts", "."]
    unit = repeat_unit()
    for row in range(1, random.randint(5, 12)):
        side = "RS" if row % 2 else "WS"
        body = ["*"] + unit + [";", "rep", "from", "*", "to", "end"] if row % 2 else ["purl", "across"]
        lines += ["row", str(row), side, ":"] + body + ["."]
    return lines + ["bind", "off", "loosely", ".", "<end>"]


words = [w for _ in range(2500) for w in pattern()]
vocab = sorted(set(words))
stoi = {w: i for i, w in enumerate(vocab)}
data = torch.tensor([stoi[w] for w in words])
n = int(0.95 * len(data))
splits = {"train": data[:n], "val": data[n:]}
offsets = torch.arange(block_size + 1)
print(f"{len(words)} tokens, vocabulary {len(vocab)}")


def get_batch(split):
    d = splits[split]
    ix = torch.randint(len(d) - block_size - 1, (batch_size, 1))
    chunk = d[ix + offsets]
    return chunk[:, :-1], chunk[:, 1:]


# ---------------------------------------------------------------- model
class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(n_embd, dim=2)
        q, k, v = (t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention()
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(len(vocab), n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList([Block() for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, len(vocab), bias=False)
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.02)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@torch.no_grad()
def estimate_loss():
    model.eval()
    out = {s: sum(model(*get_batch(s)).item() for _ in range(eval_iters)) / eval_iters for s in splits}
    model.train()
    return out


def get_lr(it):
    if it < warmup:
        return learning_rate * (it + 1) / warmup
    t = (it - warmup) / (max_iters - warmup)
    return min_lr + 0.5 * (1 + math.cos(math.pi * t)) * (learning_rate - min_lr)


def layer_health():
    """Size of the weights and gradients of each layer, for the log."""
    params = [p.detach() for p in model.parameters()]
    grads = [p.grad for p in model.parameters()]
    norms = torch._foreach_norm(params) + torch._foreach_norm(grads) + torch._foreach_norm(grads, float("inf"))
    return dict(zip(health_columns, torch.stack(norms).tolist()))


def save_checkpoint(name, it, loss):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter": it, "loss": loss, "vocab": vocab},
               os.path.join(out_dir, name))


model = GPT()
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                              lr=learning_rate, betas=(0.9, 0.95))
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
health_columns = [f"{kind}/{name}" for kind in ("weight", "grad", "gradmax") for name, _ in model.named_parameters()]

# ---------------------------------------------------------------- training
smooth, best_val = None, float("inf")
history = []
t0 = time.time()
for it in range(max_iters):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(it)
    x, y = get_batch("train")
    loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    health = layer_health()
    nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()

    value = loss.item()
    smooth = value if smooth is None else 0.98 * smooth + 0.02 * value
    history.append({"iter": it, "loss": value, "smoothed": smooth, "lr": get_lr(it), **health})
    pd.DataFrame(history).to_csv(os.path.join(out_dir, "log.csv"), index=False)
    if it % log_interval == 0:
        print(f"iter {it}: loss {value:.4f}, smoothed {smooth:.4f}, lr {get_lr(it):.2e}, {time.time() - t0:.1f} s")
    if (it + 1) % eval_interval == 0:
        losses = estimate_loss()
        print(f"step {it + 1}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
        if losses["val"] < best_val:
            best_val = losses["val"]
            save_checkpoint("best.pt", it, best_val)

save_checkpoint("last.pt", max_iters, smooth)
