"""Character-level code completion model, trained on the Python standard library."""
import argparse
import logging
import math
import sysconfig
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("codelm")


def prepare(out_dir, limit):
    """Write the corpus as a flat uint8 file once; later runs reuse it."""
    out_dir.mkdir(parents=True, exist_ok=True)
    path = out_dir / f"stdlib_{limit}.bin"
    if not path.exists():
        data, size = [], 0
        for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
            raw = file.read_bytes()
            data.append(bytes(b if b < 128 else 63 for b in raw))
            size += len(raw)
            if size >= limit:
                break
        path.write_bytes(b"".join(data)[:limit])
    return np.memmap(path, dtype=np.uint8, mode="r")


class Chunks(Dataset):
    """Batches of random windows: one item is a whole batch."""

    def __init__(self, data, context, batch_size, batches, seed):
        self.data, self.context, self.seed = data, context, seed
        self.batch_size, self.batches = batch_size, batches

    def __len__(self):
        return self.batches

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        start = rng.integers(0, len(self.data) - self.context - 1, self.batch_size)
        index = start[:, None] + np.arange(self.context + 1)
        x = torch.from_numpy(self.data[index].astype(np.int64))
        return x[:, :-1], x[:, 1:]


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class CodeLM(nn.Module):
    def __init__(self, vocab, context, dim, layers, heads):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.register_buffer("range", torch.arange(context), persistent=False)
        self.apply(self.init)
        self.head.weight = self.tok.weight

    @staticmethod
    def init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, ids, target):
        x = self.tok(ids) + self.pos(self.range[:ids.size(1)])
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), target.flatten())


def parameter_groups(model, weight_decay):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


def learning_rate(step, args):
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    part = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * part)))


@torch.inference_mode()
def evaluate(model, loader):
    model.eval()
    loss = torch.stack([model(x, y) for x, y in loader]).mean().item()
    model.train()
    return loss


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--context", type=int, default=64)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--warmup", type=int, default=30)
    p.add_argument("--weight-decay", type=float, default=0.1)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--eval-every", type=int, default=250)
    p.add_argument("--log-every", type=int, default=25)
    p.add_argument("--out", type=Path, default=Path("/tmp/code_completion"))
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(42)

    data = prepare(args.out, 2_000_000)
    cut = int(0.95 * len(data))
    train_loader = DataLoader(Chunks(data[:cut], args.context, args.batch_size, args.steps, 1),
                              batch_size=None)
    val_loader = DataLoader(Chunks(data[cut:], args.context, 32, 4, 2), batch_size=None)
    model = CodeLM(128, args.context, args.dim, args.layers, args.heads)
    log.info("%.2f M parameters", sum(p.numel() for p in model.parameters()) / 1e6)
    opt = torch.optim.AdamW(parameter_groups(model, args.weight_decay), lr=args.lr,
                            betas=(0.9, 0.95), fused=True)

    tic = time.perf_counter()
    for step, (x, y) in enumerate(train_loader, 1):
        for group in opt.param_groups:
            group["lr"] = learning_rate(step, args)
        loss = model(x, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip, foreach=True)
        opt.step()
        if step % args.log_every == 0:
            toc = time.perf_counter()
            speed = args.log_every * x.numel() / (toc - tic)
            log.info("step %d loss %.4f %.0f chars/s", step, loss.item(), speed)
            tic = toc
        if step % args.eval_every == 0:
            log.info("step %d val loss %.4f", step, evaluate(model, val_loader))
            torch.save({"model": model.state_dict(), "step": step}, args.out / "last.pt")
            tic = time.perf_counter()


if __name__ == "__main__":
    main()
