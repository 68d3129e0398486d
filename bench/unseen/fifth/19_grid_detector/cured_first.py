"""Single-shot detector for coloured boxes: images as JPEG files on disk, anchors on a 8x8 grid."""
import json
import pathlib
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset

INPUT = 64
GRID = 8
SCALES = (12.0, 20.0, 32.0)
RATIOS = (0.5, 1.0, 2.0)
WIDTH, HEIGHT = 400, 300


def make_images(root: pathlib.Path, n: int, seed: int):
    rng = np.random.default_rng(seed)
    background = rng.integers(40, 110, (n, 12, 16, 3), dtype=np.uint8)
    annotations = {}
    for i in range(n):
        img = Image.fromarray(background[i]).resize((WIDTH, HEIGHT), Image.BILINEAR)
        draw = ImageDraw.Draw(img)
        boxes = []
        for _ in range(rng.integers(1, 4)):
            w, h = rng.integers(60, 170), rng.integers(45, 130)
            x, y = rng.integers(0, WIDTH - w), rng.integers(0, HEIGHT - h)
            draw.rectangle([x, y, x + w, y + h], fill=tuple(int(c) for c in rng.integers(130, 255, 3)))
            boxes.append([int(x), int(y), int(x + w), int(y + h)])
        name = f"{i:05d}.jpg"
        img.save(root / name, quality=92)
        annotations[name] = boxes
    (root / "boxes.json").write_text(json.dumps(annotations))


class BoxImages(Dataset):
    def __init__(self, root):
        self.root = root
        annotations = json.loads((root / "boxes.json").read_text())
        scale = np.array([INPUT / WIDTH, INPUT / HEIGHT] * 2, dtype=np.float32)
        self.names = sorted(annotations)
        self.boxes = [torch.from_numpy(np.array(annotations[n], np.float32) * scale) for n in self.names]
        self.pixels = [self.load(i) for i in range(len(self.names))]

    def __len__(self):
        return len(self.names)

    def load(self, i):
        img = Image.open(self.root / self.names[i]).convert("RGB")
        return np.asarray(img.resize((INPUT, INPUT), Image.BILINEAR))

    def __getitem__(self, i):
        x = torch.from_numpy(self.pixels[i].copy()).permute(2, 0, 1).float() / 255
        return x * (0.8 + 0.4 * torch.rand(3, 1, 1)), self.boxes[i]


def collate(samples):
    return torch.stack([s[0] for s in samples]), [s[1] for s in samples]


def make_anchors():
    c = (torch.arange(GRID) + 0.5) * INPUT / GRID
    cy, cx = torch.meshgrid(c, c, indexing="ij")
    centres = torch.stack([cx, cy], -1).reshape(-1, 1, 2)
    sizes = [(s * r ** 0.5, s / r ** 0.5) for s in SCALES for r in RATIOS]
    half = torch.tensor(sizes).view(1, -1, 2) / 2
    return torch.cat([centres - half, centres + half], -1).reshape(-1, 4)


def iou(a, b):
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    inter = w * h
    return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter)


def assign(anchors, gt_boxes, threshold=0.4):
    """For every anchor the best ground-truth box: objectness and box target."""
    obj = torch.zeros(len(gt_boxes), len(anchors))
    target = torch.zeros(len(gt_boxes), len(anchors), 4)
    anchor_list = anchors.tolist()
    for b, boxes in enumerate(gt_boxes):
        for k, a in enumerate(anchor_list):
            overlaps = [iou(a, g) for g in boxes.tolist()]
            best = max(range(len(overlaps)), key=overlaps.__getitem__)
            if overlaps[best] >= threshold:
                obj[b, k] = 1.0
                target[b, k] = (boxes[best] - anchors[k]) / INPUT
    return obj, target


class Detector(nn.Module):
    def __init__(self, w=16):
        super().__init__()

        def block(cin, cout, stride):
            return [nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]

        self.body = nn.Sequential(*block(3, w, 2), *block(w, w * 2, 2), *block(w * 2, w * 2, 1),
                                  *block(w * 2, w * 4, 2), *block(w * 4, w * 4, 1))
        self.head = nn.Conv2d(w * 4, len(SCALES) * len(RATIOS) * 5, 1)

    def forward(self, x):
        out = self.head(self.body(x)).permute(0, 2, 3, 1).reshape(len(x), -1, 5)
        return out[..., 0], out[..., 1:]


def main():
    torch.manual_seed(0)
    root = pathlib.Path(tempfile.mkdtemp(prefix="boxes_"))
    make_images(root, 400, seed=0)
    loader = DataLoader(BoxImages(root), batch_size=16, shuffle=True, drop_last=True, collate_fn=collate)
    anchors = make_anchors()
    model = Detector()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    print(f"{len(loader.dataset)} images in {root}, {len(anchors)} anchors")
    for epoch in range(14):
        t0, log = time.time(), torch.zeros(2)
        for x, gt in loader:
            obj_logit, delta = model(x)
            obj, target = assign(anchors, gt)
            cls = F.binary_cross_entropy_with_logits(obj_logit, obj, pos_weight=torch.tensor(4.0))
            reg = (F.smooth_l1_loss(delta, target, reduction="none").sum(-1) * obj).sum() / obj.sum().clamp(min=1)
            loss = cls + 5 * reg
            opt.zero_grad()
            loss.backward()
            opt.step()
            log += torch.stack([cls.detach(), reg.detach()])
        cls, reg = (log / len(loader)).tolist()
        print(f"epoch {epoch}: cls {cls:.4f} reg {reg:.4f} {len(loader) * 16 / (time.time() - t0):.0f} img/s",
              flush=True)


if __name__ == "__main__":
    main()
