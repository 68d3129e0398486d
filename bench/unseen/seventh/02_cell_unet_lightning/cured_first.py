"""Cell segmentation (background / cell / border) with a small U-Net in Lightning."""
import argparse
import logging
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy import ndimage
from sklearn.metrics import f1_score, jaccard_score
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore", module="lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
CLASSES = ("background", "cell", "border")


def synth_plate(rng, size):
    """A grey image and its instance mask (0 = background, 1..n = cells)."""
    yy, xx = np.mgrid[:size, :size]
    inst = np.zeros((size, size), dtype=np.int16)
    for k in range(1, rng.integers(16, 24)):
        cy, cx = rng.uniform(8, size - 8, 2)
        a, b = rng.uniform(4, 9, 2)
        blob = ((yy - cy) / a) ** 2 + ((xx - cx) / b) ** 2 < 1
        inst[blob & (inst == 0)] = k
    img = 0.25 + 0.4 * (inst > 0) + 0.03 * (inst % 4)
    img = ndimage.gaussian_filter(img, 1.2) + rng.normal(0, 0.07, img.shape)
    return img.astype(np.float32), inst


def to_classes(inst):
    edge = ndimage.grey_dilation(inst, size=3) != ndimage.grey_erosion(inst, size=3)
    return np.where(edge & (inst > 0), 2, (inst > 0).astype(np.int64))


def border_weights(inst, w0=8.0, sigma=4.0):
    """Weights of the U-Net paper: stress the gaps between neighbouring cells."""
    cells = [k for k in np.unique(inst) if k > 0]
    if len(cells) < 2:
        return np.ones(inst.shape, dtype=np.float32)
    dist = np.stack([ndimage.distance_transform_edt(inst != k) for k in cells])
    d1, d2 = np.partition(dist, 1, axis=0)[:2]
    return (1 + w0 * np.exp(-(d1 + d2) ** 2 / (2 * sigma ** 2)) * (inst == 0)).astype(np.float32)


class CellDataset(Dataset):
    def __init__(self, n, size, seed, augment):
        rng = np.random.default_rng(seed)
        plates = [synth_plate(rng, size) for _ in range(n)]
        self.items = [(img, to_classes(inst), border_weights(inst)) for img, inst in plates]
        self.augment = augment

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, target, weight = self.items[i]
        x = torch.stack([torch.from_numpy(img), torch.from_numpy(weight)])
        y = torch.from_numpy(target)
        if self.augment:
            turns = int(torch.randint(4, ()))
            x, y = torch.rot90(x, turns, (1, 2)), torch.rot90(y, turns, (0, 1))
            if torch.rand(()) < 0.5:
                x, y = x.flip(2), y.flip(1)
        return x[:1], y, x[1]


def double_conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout),
                         nn.ReLU(inplace=True), nn.Conv2d(cout, cout, 3, padding=1, bias=False),
                         nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(L.LightningModule):
    def __init__(self, width, lr):
        super().__init__()
        self.save_hyperparameters()
        w = width
        self.down1, self.down2, self.mid = double_conv(1, w), double_conv(w, 2 * w), double_conv(2 * w, 4 * w)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * w, 2 * w, 2, 2), nn.ConvTranspose2d(2 * w, w, 2, 2)
        self.dec2, self.dec1 = double_conv(4 * w, 2 * w), double_conv(2 * w, w)
        self.out = nn.Conv2d(w, len(CLASSES), 1)
        self.ious, self.dices = [], []

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([self.up2(c), b], 1))
        a = self.dec1(torch.cat([self.up1(b), a], 1))
        return self.out(a)

    def training_step(self, batch, batch_idx):
        x, y, w = batch
        logits = self(x)
        loss = (F.cross_entropy(logits, y, reduction="none") * w).mean()
        pred, truth = logits.argmax(1).flatten(), y.flatten()
        self.ious.append(jaccard_score(truth, pred, average=None, labels=[0, 1, 2]))
        self.dices.append(f1_score(truth, pred, average="macro"))
        self.log("loss", loss.detach(), on_step=False, on_epoch=True, batch_size=len(x))
        return loss

    def on_train_epoch_end(self):
        iou = np.mean(self.ious, axis=0)
        loss = self.trainer.callback_metrics["loss"].item()
        print(f"epoch {self.current_epoch:2d}  loss {loss:.4f}  "
              + "  ".join(f"{c} {v:.3f}" for c, v in zip(CLASSES, iou))
              + f"  dice {np.mean(self.dices):.3f}", flush=True)
        self.ious.clear(), self.dices.clear()

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, fused=True)
        return [opt], [torch.optim.lr_scheduler.CosineAnnealingLR(opt, self.trainer.max_epochs)]


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--plates", type=int, default=128)
    ap.add_argument("--size", type=int, default=96)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--width", type=int, default=8)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()

    L.seed_everything(11, verbose=False)
    train = DataLoader(CellDataset(args.plates, args.size, 0, augment=True), args.batch_size,
                       shuffle=True, drop_last=True)
    trainer = L.Trainer(max_epochs=args.epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(UNet(args.width, args.lr), train)
