"""
Next-item model on session logs, content embeddings in, one transformer on top.

single process:   python train.py
two processes:    torchrun --nproc-per-node 2 train.py

Overrides are key=value pairs: torchrun --nproc-per-node 2 train.py max_iters=50 eval_interval=25
"""
import ast
import math
import os
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

# -----------------------------------------------------------------------------
# catalogue / sessions
n_items = 80000
content_dim = 384           # width of the (frozen) text encoder
n_topics = 200
n_sessions = 12000
session_len = 24            # model sees session_len - 1 items
# model
d_model = 96
n_head = 4
n_layer = 2
dropout = 0.1
temperature = 0.07
# optimisation
batch_size = 48             # per process
grad_clip = 1.0
learning_rate = 1e-3
min_lr = 1e-4
weight_decay = 0.05
warmup_iters = 60
max_iters = 550
# i/o
eval_interval = 110
eval_batches = 6
log_interval = 25
out_dir = "runs/seqrec"
seed = 1337
# -----------------------------------------------------------------------------
config_keys = [k for k, v in globals().items()
               if not k.startswith("_") and isinstance(v, (int, float, str))]
for arg in sys.argv[1:]:
    key, _, val = arg.partition("=")
    if key not in config_keys:
        raise ValueError(f"unknown option {key}")
    try:
        globals()[key] = ast.literal_eval(val)
    except (ValueError, SyntaxError):
        globals()[key] = val
config = {k: globals()[k] for k in config_keys}


# ------------------------------ data -----------------------------------------
def make_catalogue():
    """Stand-in for the exported text embeddings: topic centre + item detail."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_topics, content_dim), dtype=np.float32)
    topic = rng.integers(0, n_topics, n_items)
    emb = centres[topic] + 0.8 * rng.standard_normal((n_items, content_dim), dtype=np.float32)
    emb /= np.linalg.norm(emb, axis=1, keepdims=True)
    return torch.from_numpy(emb), topic


def make_sessions(topic):
    """Sessions walk over topics: stay, go on to a related topic, or jump."""
    rng = np.random.default_rng(seed + 1)
    related = rng.integers(0, n_topics, (n_topics, 3))
    order = np.argsort(topic, kind="stable")
    starts = np.searchsorted(topic[order], np.arange(n_topics))
    counts = np.maximum(np.bincount(topic, minlength=n_topics), 1)

    current = rng.integers(0, n_topics, n_sessions)
    columns = []
    for _ in range(session_len):
        # popular items first within a topic
        rank = (counts[current] * rng.random(n_sessions) ** 3).astype(np.int64)
        columns.append(order[np.minimum(starts[current] + rank, n_items - 1)])
        u = rng.random(n_sessions)
        follow = related[current, rng.integers(0, 3, n_sessions)]
        jump = rng.integers(0, n_topics, n_sessions)
        current = np.where(u < 0.45, current, np.where(u < 0.93, follow, jump))
    return torch.from_numpy(np.stack(columns, axis=1))


class SessionBatches:
    """Every process walks over its own part of a common permutation."""

    def __init__(self, sessions, rank, world):
        self.sessions = sessions
        self.rank, self.world = rank, world
        self.epoch, self.pos = -1, 0
        self.order = sessions.new_empty(0)

    def _next_epoch(self):
        self.epoch += 1
        g = torch.Generator().manual_seed(seed + 1000 + self.epoch)
        perm = torch.randperm(len(self.sessions), generator=g)
        per_rank = len(perm) // self.world
        self.order = perm[self.rank * per_rank:(self.rank + 1) * per_rank]
        self.pos = 0

    def next(self):
        if self.pos + batch_size > len(self.order):
            self._next_epoch()
        rows = self.sessions[self.order[self.pos:self.pos + batch_size]]
        self.pos += batch_size
        return rows[:, :-1], rows[:, 1:]


# ------------------------------ model ----------------------------------------
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.proj = nn.Linear(d_model, d_model, bias=False)
        self.mlp = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(),
                                 nn.Linear(4 * d_model, d_model), nn.Dropout(dropout))

    def forward(self, x):
        B, L, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, L, 3, n_head, C // n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           dropout_p=dropout if self.training else 0.0)
        x = x + self.proj(y.transpose(1, 2).reshape(B, L, C))
        return x + self.mlp(self.ln2(x))


class SessionModel(nn.Module):
    def __init__(self, content):
        super().__init__()
        self.register_buffer("content", content)
        self.adapter = nn.Sequential(nn.Linear(content_dim, d_model), nn.GELU(),
                                     nn.Linear(d_model, d_model))
        self.pos = nn.Parameter(0.02 * torch.randn(session_len, d_model))
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block() for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(d_model)

    def embed(self, items):
        return self.adapter(self.content[items])

    def encode(self, items):
        x = self.drop(self.embed(items) + self.pos[:items.size(1)])
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)

    def forward(self, items, targets):
        """Softmax over the targets of the batch that stand at the last positions."""
        h = F.normalize(self.encode(items)[:, -8:].flatten(0, 1), dim=-1)
        tgt = targets[:, -8:].flatten()
        e = F.normalize(self.embed(tgt), dim=-1)
        logits = h @ e.T / temperature
        same = tgt[:, None] == tgt[None, :]
        same.fill_diagonal_(False)
        logits = logits.masked_fill(same, float("-inf"))
        return F.cross_entropy(logits, torch.arange(len(tgt), device=tgt.device))

    @torch.no_grad()
    def catalogue(self):
        return F.normalize(self.adapter(self.content), dim=-1)

    @torch.no_grad()
    def recommend(self, items, catalogue, k):
        h = F.normalize(self.encode(items)[:, -1], dim=-1)
        return (h @ catalogue.T).topk(k, dim=1).indices


# ------------------------------ helpers --------------------------------------
def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    ratio = (it - warmup_iters) / max(1, max_iters - warmup_iters)
    return min_lr + 0.5 * (1 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


def make_optimizer(model):
    decay = [p for p in model.parameters() if p.requires_grad and p.dim() >= 2]
    plain = [p for p in model.parameters() if p.requires_grad and p.dim() < 2]
    groups = [{"params": decay, "weight_decay": weight_decay},
              {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.98))


@torch.no_grad()
def evaluate(model, held_out, topic):
    """Share of sessions whose last item / last topic is among the first 20."""
    model.eval()
    catalogue = model.catalogue()
    hit_item = hit_topic = total = 0
    for i in range(eval_batches):
        rows = held_out[i * 64:(i + 1) * 64]
        top = model.recommend(rows[:, :-1], catalogue, 20)
        last = rows[:, -1:]
        hit_item += (top == last).any(1).sum().item()
        hit_topic += (topic[top] == topic[last]).any(1).sum().item()
        total += len(rows)
    model.train()
    return hit_item / total, hit_topic / total


# ------------------------------ main -----------------------------------------
def main():
    ddp = int(os.environ.get("RANK", -1)) != -1
    if ddp:
        use_gpu = torch.cuda.is_available() and torch.cuda.device_count() >= int(
            os.environ["LOCAL_WORLD_SIZE"])
        dist.init_process_group("nccl" if use_gpu else "gloo")
        rank, world = dist.get_rank(), dist.get_world_size()
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if use_gpu else torch.device("cpu")
    else:
        rank, world, device = 0, 1, torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    master = rank == 0
    torch.manual_seed(seed)
    np.random.seed(seed + rank)

    content, topic = make_catalogue()
    sessions = make_sessions(topic)
    topic = torch.from_numpy(topic).to(device)
    n_val = 64 * eval_batches
    held_out, sessions = sessions[:n_val].to(device), sessions[n_val:]
    batches = SessionBatches(sessions, rank, world)

    raw_model = SessionModel(content).to(device)
    model = raw_model
    if ddp:
        model = DDP(raw_model, device_ids=[device.index] if device.type == "cuda" else None,
                    gradient_as_bucket_view=True)
    torch.manual_seed(seed + rank)
    optimizer = make_optimizer(raw_model)
    if master:
        os.makedirs(out_dir, exist_ok=True)
        n_train = sum(p.numel() for p in raw_model.parameters())
        print(f"world {world}, device {device}, {n_items} items, {n_train / 1e6:.2f}M trainable")

    best, running = 0.0, []
    t0 = t_start = time.time()
    model.train()
    for it in range(max_iters):
        lr = get_lr(it)
        for group in optimizer.param_groups:
            group["lr"] = lr

        items, targets = batches.next()
        loss = model(items.to(device), targets.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(raw_model.parameters(), grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        running.append(loss.detach())

        if (it + 1) % log_interval == 0:
            if master:
                dt = (time.time() - t0) / log_interval
                mean = torch.stack(running).mean().item()
                print(f"iter {it + 1:5d}  loss {mean:.4f}  lr {lr:.2e}  {dt * 1000:.1f} ms/iter",
                      flush=True)
            running, t0 = [], time.time()

        if (it + 1) % eval_interval == 0 or it + 1 == max_iters:
            if master:
                hr_item, hr_topic = evaluate(raw_model, held_out, topic)
                print(f"eval {it + 1:5d}  hit@20 {hr_item:.4f}  topic-hit@20 {hr_topic:.4f}", flush=True)
                if hr_item + hr_topic >= best:
                    best = hr_item + hr_topic
                    weights = {k: v for k, v in raw_model.state_dict().items() if k != "content"}
                    torch.save({"model": weights, "iter": it + 1, "config": config},
                               os.path.join(out_dir, "ckpt.pt"))
            if ddp:
                dist.barrier()
            t0 = time.time()

    if master:
        print(f"finished {max_iters} iterations in {time.time() - t_start:.1f} s, best {best:.4f}")
    if ddp:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
