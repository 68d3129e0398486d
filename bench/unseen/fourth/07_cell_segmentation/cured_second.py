"""U-Net for cell segmentation. Images and masks are PNG files on disk."""
import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFilter
from torch.utils.data import DataLoader, Dataset


def make_scans(root, n, size, seed=0):
    """Fake microscope scans: bright ellipses over noise, plus the masks."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 60, (size + 256, size + 256, 3), dtype=np.uint8)
    for k in range(n):
        oy, ox = rng.integers(0, 256, 2)
        img = Image.fromarray(noise[oy : oy + size, ox : ox + size].copy())
        mask = Image.new("L", (size, size))
        d_img, d_mask = ImageDraw.Draw(img), ImageDraw.Draw(mask)
        for _ in range(int(rng.integers(6, 15))):
            x, y = (int(v) for v in rng.integers(0, size - size // 6, 2))
            w, h = (int(v) for v in rng.integers(size // 16, size // 6, 2))
            color = tuple(int(v) for v in rng.integers(90, 255, 3))
            d_img.ellipse((x, y, x + w, y + h), fill=color)
            d_mask.ellipse((x, y, x + w, y + h), fill=255)
        img.filter(ImageFilter.BoxBlur(1)).save(root / f"{k:04d}_img.png", compress_level=1)
        mask.save(root / f"{k:04d}_mask.png", compress_level=1)


class CellDataset(Dataset):
    def __init__(self, root, ids, size, augment=False):
        self.root, self.ids, self.size, self.augment = root, ids, size, augment

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        k = self.ids[i]
        img = Image.open(self.root / f"{k:04d}_img.png").convert("RGB")
        mask = Image.open(self.root / f"{k:04d}_mask.png").convert("L")
        img = img.resize((self.size, self.size), Image.LANCZOS)
        mask = mask.resize((self.size, self.size), Image.NEAREST)
        x = torch.from_numpy(np.array(img)).permute(2, 0, 1).float() / 255.0
        y = torch.from_numpy(np.array(mask)).unsqueeze(0).float() / 255.0
        if self.augment and torch.rand(()) < 0.5:
            x, y = x.flip(-1), y.flip(-1)
        return x, y


def block(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(c_out),
        nn.ReLU(inplace=True),
        nn.Conv2d(c_out, c_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(c_out),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.d1, self.d2, self.mid = block(3, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.up2 = nn.ConvTranspose2d(4 * w, 2 * w, 2, stride=2)
        self.u2 = block(4 * w, 2 * w)
        self.up1 = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.u1 = block(2 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([self.up2(m), b], dim=1))
        a = self.u1(torch.cat([self.up1(b), a], dim=1))
        return self.out(a)


def save_preview(path, x, y, logits):
    """Image | ground truth | prediction, one row per sample."""
    pred = torch.sigmoid(logits.detach())
    rows = []
    for xi, yi, pi in zip(x, y, pred):
        rows.append(torch.cat([xi, yi.expand(3, -1, -1), pi.expand(3, -1, -1)], dim=2))
    grid = torch.cat(rows, dim=1).mul(255).byte().permute(1, 2, 0).numpy()
    img = Image.fromarray(np.ascontiguousarray(grid))
    img.resize((img.width * 3, img.height * 3), Image.BICUBIC).save(path)


@torch.no_grad()
def mean_iou(model, loader):
    model.eval()
    inter = union = 0.0
    for x, y in loader:
        p = model(x) > 0
        t = y > 0.5
        inter += (p & t).sum().item()
        union += (p | t).sum().item()
    model.train()
    return inter / max(union, 1.0)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n-train", type=int, default=128)
    ap.add_argument("--n-val", type=int, default=16)
    ap.add_argument("--scan-size", type=int, default=512)
    ap.add_argument("--size", type=int, default=96)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--preview-every", type=int, default=100)
    args = ap.parse_args()
    torch.manual_seed(0)

    with tempfile.TemporaryDirectory() as tmp:
        root, out = Path(tmp) / "scans", Path(tmp) / "previews"
        root.mkdir()
        out.mkdir()
        make_scans(root, args.n_train + args.n_val, args.scan_size)
        ids = list(range(args.n_train + args.n_val))
        train_set = CellDataset(root, ids[: args.n_train], args.size, augment=True)
        val_set = CellDataset(root, ids[args.n_train :], args.size)
        loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
        val_loader = DataLoader(val_set, batch_size=16)

        model = UNet()
        opt = torch.optim.Adam(model.parameters(), lr=2e-3)
        step, start = 0, time.time()
        for epoch in range(args.epochs):
            total = 0.0
            for x, y in loader:
                logits = model(x)
                loss = F.binary_cross_entropy_with_logits(logits, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.item()
                if step % args.preview_every == 0:
                    save_preview(out / f"step_{step:06d}.png", x, y, logits)
                step += 1
            iou = mean_iou(model, val_loader)
            print(f"epoch {epoch}: loss {total / len(loader):.4f}  val IoU {iou:.3f}", flush=True)
        print(f"done: {step} steps in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
