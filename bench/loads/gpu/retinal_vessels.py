"""Segments the vessels in fundus photographs with a U-Net; there are but a few annotated
photographs, from which random crops are taken."""

# expect: verdict=data finding=workers-restart-each-epoch

import itertools

import common
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Fundus(torch.utils.data.Dataset):
    """Photographs with dark, wandering lines on a bright ground, and masks of the lines."""

    def __init__(self, count, size, crop):
        rng = np.random.default_rng(0)
        self.crop = crop
        self.images = rng.integers(120, 200, (count, size, size), dtype=np.uint8)
        self.masks = np.zeros((count, size, size), dtype=np.uint8)
        rows = np.arange(size)
        for mask in self.masks:
            for _ in range(12):
                walk = rng.integers(0, size) + np.cumsum(rng.normal(0, 1.5, size))
                for offset in range(int(rng.integers(2, 5))):
                    mask[rows, (walk.astype(np.int64) + offset) % size] = 1
        self.images -= 60 * self.masks

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        top, left = np.random.randint(0, self.images.shape[1] - self.crop + 1, 2)
        window = np.s_[index, top : top + self.crop, left : left + self.crop]
        image, mask = self.images[window], self.masks[window]
        if np.random.random() < 0.5:
            image, mask = image[::-1], mask[::-1]
        if np.random.random() < 0.5:
            image, mask = image.T, mask.T
        return np.ascontiguousarray(image)[None], np.ascontiguousarray(mask)[None]


def double(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.stem = double(1, widths[0])
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(double(*pair) for pair in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(deep, flat, 2, stride=2) for flat, deep in reversed(pairs))
        self.join = nn.ModuleList(double(2 * flat, flat) for flat, _ in reversed(pairs))
        self.head = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x):
        kept = [self.stem(x)]
        for layer in self.down:
            kept.append(layer(F.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


def dice(logits, masks):
    chances = logits.sigmoid()
    shared = (chances * masks).sum((1, 2, 3))
    return 1 - ((2 * shared + 1) / (chances.sum((1, 2, 3)) + masks.sum((1, 2, 3)) + 1)).mean()


def main():
    args = common.arguments()
    np.random.seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    batch, photographs = common.sized(args, (16, 128), (2, 8))
    size, crop = common.sized(args, (576, 384), (48, 32))
    widths = common.sized(args, (32, 64, 128, 256), (4, 8))
    loader = torch.utils.data.DataLoader(  # <- finding
        Fundus(photographs, size, crop),
        batch_size=batch,
        shuffle=True,
        drop_last=True,
        num_workers=common.sized(args, 8, 2),  # <- finding
        # cured: num_workers=common.sized(args, 8, 2), persistent_workers=True,
        pin_memory=args.device == "cuda",
    )
    model = UNet(widths).to(args.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    batches, losses = common.endless(loader), []
    for _ in common.steps(args, losses, batch):
        images, masks = (part.to(args.device, non_blocking=True) for part in next(batches))
        images = images.float().div_(127.5).sub_(1).contiguous(memory_format=torch.channels_last)
        masks = masks.float()
        with torch.autocast(args.device, torch.bfloat16):
            logits = model(images)
        logits = logits.float()
        loss = F.binary_cross_entropy_with_logits(logits, masks) + dice(logits, masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())


if __name__ == "__main__":
    main()
