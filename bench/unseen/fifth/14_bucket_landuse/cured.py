"""Land use from multispectral tiles kept in an object store (a local stand-in for the bucket)."""
import http.server
import multiprocessing as mp
import time
import urllib.request

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

BANDS, PX, CLASSES = 6, 24, 5
TILE_BYTES = BANDS * PX * PX * 2
SHARD_TILES, N_SHARDS = 250, 4
FIRST_BYTE_LATENCY = 0.002


def render_shard(i):
    rng = np.random.default_rng(900 + i)
    y = rng.integers(0, CLASSES, SHARD_TILES)
    spectra = np.random.default_rng(1).uniform(0.1, 0.7, (CLASSES, BANDS))
    x = spectra[y][:, :, None, None] + rng.normal(0, 0.25, (SHARD_TILES, BANDS, PX, PX))
    return x.astype(np.float16).tobytes(), y.astype(np.int64).tobytes()


class Bucket(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects = {}

    def do_GET(self):
        time.sleep(FIRST_BYTE_LATENCY)
        body = self.objects[self.path]
        code = 200
        if "Range" in self.headers:
            lo, hi = self.headers["Range"].removeprefix("bytes=").split("-")
            body, code = body[int(lo):int(hi) + 1], 206
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def serve(port):
    for i in range(N_SHARDS):
        tiles, labels = render_shard(i)
        Bucket.objects[f"/landuse/{i:02d}/tiles.f16"] = tiles
        Bucket.objects[f"/landuse/{i:02d}/labels.i64"] = labels
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    port.value = server.server_port
    server.serve_forever()


class TileDataset(Dataset):
    def __init__(self, base):
        self.base = base
        self.labels = np.concatenate([
            np.frombuffer(self.get(f"{i:02d}/labels.i64"), dtype=np.int64) for i in range(N_SHARDS)
        ])
        self.shards = [self.get(f"{i:02d}/tiles.f16") for i in range(N_SHARDS)]

    def get(self, key, first=None, last=None):
        req = urllib.request.Request(f"{self.base}/landuse/{key}")
        if first is not None:
            req.add_header("Range", f"bytes={first}-{last}")
        with urllib.request.urlopen(req) as r:
            return r.read()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        shard, row = divmod(i, SHARD_TILES)
        raw = self.shards[shard][row * TILE_BYTES:(row + 1) * TILE_BYTES]
        x = np.frombuffer(raw, dtype=np.float16).reshape(BANDS, PX, PX)
        return torch.from_numpy(x.astype(np.float32)), int(self.labels[i])


class TileNet(nn.Module):
    def __init__(self, w=40):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(BANDS, w, 3, padding=1, bias=False), nn.BatchNorm2d(w), nn.ReLU(),
            nn.Conv2d(w, w, 3, padding=1, bias=False), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(w, 2 * w, 3, padding=1, bias=False), nn.BatchNorm2d(2 * w), nn.ReLU(),
            nn.Conv2d(2 * w, 2 * w, 3, padding=1, bias=False), nn.BatchNorm2d(2 * w), nn.ReLU(),
        )
        self.head = nn.Linear(2 * w, CLASSES)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def main():
    port = mp.Value("i", 0)
    server = mp.Process(target=serve, args=(port,), daemon=True)
    server.start()
    while port.value == 0:
        time.sleep(0.05)
    base = f"http://127.0.0.1:{port.value}"
    torch.manual_seed(0)
    dataset = TileDataset(base)
    loader = DataLoader(dataset, batch_size=16, shuffle=True, drop_last=True)
    net = TileNet()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    print(f"bucket {base}, {len(dataset)} tiles")
    for epoch in range(4):
        t0, correct, total = time.time(), torch.zeros(()), torch.zeros(())
        for x, y in loader:
            logits = net(x)
            loss = F.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach() * len(y)
            correct += (logits.argmax(1) == y).sum()
        n = len(loader) * 16
        print(f"epoch {epoch}: loss {total.item() / n:.4f} acc {correct.item() / n:.3f} "
              f"{n / (time.time() - t0):.0f} tiles/s", flush=True)
    server.terminate()


if __name__ == "__main__":
    main()
