"""Land-cover segmentation on satellite tiles served by the imagery archive."""
import argparse
import io
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = 5
SIZE = 48


def render_tile(index):
    rng = np.random.default_rng(index)
    low = rng.random((CLASSES, 6, 6))
    field = low.repeat(SIZE // 6, axis=1).repeat(SIZE // 6, axis=2)
    mask = field.argmax(0).astype(np.uint8)
    palette = np.linspace(20, 230, CLASSES * 4).reshape(CLASSES, 4)
    bands = palette[mask] + rng.normal(0, 25, (SIZE, SIZE, 4))
    buf = io.BytesIO()
    np.savez(buf, bands=np.clip(bands, 0, 255).astype(np.uint8), mask=mask)
    return buf.getvalue()


class Archive(BaseHTTPRequestHandler):
    """Stand-in for the remote tile archive (same API, same round trip)."""
    tiles = {}

    def do_GET(self):
        body = self.tiles[int(self.path.rsplit("/", 1)[1])]
        time.sleep(0.004)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def start_archive(n):
    Archive.tiles = {i: render_tile(i) for i in range(n)}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Archive)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/tiles"


def read_tile(url):
    with urllib.request.urlopen(url, timeout=10) as r:
        z = np.load(io.BytesIO(r.read()))
    return z["bands"], z["mask"]


class TileDataset(Dataset):
    def __init__(self, base_url, n):
        self.urls = [f"{base_url}/{i}" for i in range(n)]

    def __len__(self):
        return len(self.urls)

    def __getitem__(self, i):
        bands, mask = read_tile(self.urls[i])
        k = int(torch.randint(4, ()))
        bands, mask = np.rot90(bands, k), np.rot90(mask, k)
        x = torch.from_numpy(bands.copy()).permute(2, 0, 1).float() / 255
        return x, torch.from_numpy(mask.copy()).long()


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
                         nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.enc1, self.enc2 = conv(4, w), conv(w, 2 * w, 2)
        self.mid = nn.Sequential(conv(2 * w, 4 * w, 2), conv(4 * w, 2 * w))
        self.dec2, self.dec1 = conv(4 * w, w), conv(2 * w, w)
        self.out = nn.Conv2d(w, CLASSES, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(a)
        h = F.interpolate(self.mid(b), scale_factor=2.0)
        h = F.interpolate(self.dec2(torch.cat([h, b], 1)), scale_factor=2.0)
        return self.out(self.dec1(torch.cat([h, a], 1)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tiles", type=int, default=320)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(1)

    dataset = TileDataset(start_archive(args.tiles), args.tiles)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
    model = UNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        hits = pixels = 0
        for x, y in loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            hits += (logits.argmax(1) == y).sum().item()
            pixels += y.numel()
        print(f"epoch {epoch} loss {loss.item():.4f} pixel acc {hits / pixels:.3f}", flush=True)


if __name__ == "__main__":
    main()
