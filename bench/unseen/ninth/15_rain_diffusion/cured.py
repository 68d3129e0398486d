"""Denoising diffusion on radar rain patches that live in an object store.

    python train.py --steps 250

With no --store the script starts a small local store with the same layout:
    GET /index.json          {"shards": n, "per_shard": m, "size": s}
    GET /shard/<k>           m patches, float16, C order
"""
import argparse
import functools
import json
import math
import subprocess
import sys
import time
import urllib.request

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

LOCAL_STORE = r"""
import http.server, json, sys, time
import numpy as np
shards, per_shard, size, delay = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
rng = np.random.default_rng(0)
yy, xx = np.mgrid[0:size, 0:size] / size
def patch():
    f = np.zeros((size, size))
    for _ in range(rng.integers(2, 5)):
        cx, cy, s = rng.random(), rng.random(), rng.uniform(0.05, 0.25)
        f += rng.uniform(0.4, 1.2) * np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * s * s))
    return f
blobs = [np.stack([patch() for _ in range(per_shard)]).astype(np.float16).tobytes() for _ in range(shards)]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        time.sleep(delay)
        if self.path == "/index.json":
            body = json.dumps({"shards": shards, "per_shard": per_shard, "size": size}).encode()
        else:
            body = blobs[int(self.path.rsplit("/", 1)[1])]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def start_local_store(shards, per_shard, size, delay):
    proc = subprocess.Popen([sys.executable, "-c", LOCAL_STORE, str(shards), str(per_shard),
                             str(size), str(delay)], stdout=subprocess.PIPE, text=True)
    port = int(proc.stdout.readline())
    return proc, f"http://127.0.0.1:{port}"


class RainPatches(Dataset):
    def __init__(self, store, first, last):
        self.store = store
        with urllib.request.urlopen(f"{store}/index.json") as r:
            meta = json.load(r)
        self.per_shard, self.size = meta["per_shard"], meta["size"]
        self.first = int(first * meta["shards"])
        self.count = int(last * meta["shards"]) - self.first
        self.read_shard = functools.lru_cache(maxsize=None)(self._read_shard)

    def _read_shard(self, k):
        with urllib.request.urlopen(f"{self.store}/shard/{k}") as r:
            raw = np.frombuffer(r.read(), dtype=np.float16)
        return raw.reshape(self.per_shard, 1, self.size, self.size)

    def __len__(self):
        return self.count * self.per_shard

    def __getitem__(self, i):
        shard, row = divmod(i, self.per_shard)
        patch = self.read_shard(self.first + shard)[row].astype(np.float32)
        return torch.from_numpy(2 * np.sqrt(patch) - 1)


class ResBlock(nn.Module):
    def __init__(self, width, emb):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, width), nn.Conv2d(width, width, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, width), nn.Conv2d(width, width, 3, padding=1)
        self.emb = nn.Linear(emb, width)

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x))) + self.emb(e)[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(h)))


class Denoiser(nn.Module):
    def __init__(self, width, emb=64):
        super().__init__()
        self.register_buffer("freqs", torch.exp(torch.linspace(0, math.log(1000), emb // 2)))
        self.time = nn.Sequential(nn.Linear(emb, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.inp = nn.Conv2d(1, width, 4, stride=2, padding=1)
        self.top = ResBlock(width, emb)
        self.down = nn.Conv2d(width, width, 4, stride=2, padding=1)
        self.mid = nn.ModuleList(ResBlock(width, emb) for _ in range(2))
        self.up = nn.ConvTranspose2d(width, width, 4, stride=2, padding=1)
        self.last = ResBlock(width, emb)
        self.out = nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1)

    def forward(self, x, t):
        arg = t[:, None] * self.freqs
        e = self.time(torch.cat([arg.sin(), arg.cos()], 1))
        top = self.top(self.inp(x), e)
        h = self.down(top)
        for block in self.mid:
            h = block(h, e)
        return self.out(self.last(top + self.up(h), e))


def diffusion_loss(model, x, generator=None):
    t = torch.rand(len(x), generator=generator)
    angle = (t * math.pi / 2)[:, None, None, None]
    noise = torch.randn(x.shape, generator=generator)
    noisy = angle.cos() * x + angle.sin() * noise
    velocity = angle.cos() * noise - angle.sin() * x
    return F.mse_loss(model(noisy, t), velocity)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    generator = torch.Generator().manual_seed(1)
    losses = [diffusion_loss(model, x, generator) for x in loader]
    model.train()
    return torch.stack(losses).mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--store", default="")
    p.add_argument("--shards", type=int, default=50)
    p.add_argument("--per-shard", type=int, default=64)
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--delay", type=float, default=0.004)
    p.add_argument("--steps", type=int, default=250)
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--log-every", type=int, default=25)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(2)

    proc, store = None, args.store
    if not store:
        proc, store = start_local_store(args.shards, args.per_shard, args.size, args.delay)
    try:
        train = DataLoader(RainPatches(store, 0.0, 0.96), batch_size=args.batch_size, shuffle=True,
                           drop_last=True)
        valid = DataLoader(RainPatches(store, 0.96, 1.0), batch_size=64)
        model = Denoiser(args.width)
        opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
        step, started, running = 0, time.time(), torch.zeros(())
        while step < args.steps:
            for x in train:
                loss = diffusion_loss(model, x)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                running += loss.detach()
                step += 1
                if step % args.log_every == 0:
                    print(json.dumps({"step": step, "loss": round(running.item() / args.log_every, 4),
                                      "patches_per_s": round(step * args.batch_size / (time.time() - started), 1)}),
                          flush=True)
                    running.zero_()
                if step >= args.steps:
                    break
            print(json.dumps({"step": step, "valid": round(validate(model, valid), 4)}), flush=True)
    finally:
        if proc:
            proc.terminate()


if __name__ == "__main__":
    main()
