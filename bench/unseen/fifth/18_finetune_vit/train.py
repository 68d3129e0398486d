# Linear probing of a (here: randomly initialised) ViT on faces-vs-objects style patches.
# On the cluster the weights come from our own pretraining run.
import logging
import math
import os
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from transformers import ViTConfig, ViTModel

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("finetune")

PIXELS = 32
CLASSES = 6
EPOCHS = 5


class Blobs(Dataset):
    """Coloured blobs whose arrangement gives the class."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, CLASSES, (n,), generator=g)
        ang = (self.y * (2 * math.pi / CLASSES)).view(-1, 1, 1)
        grid = torch.linspace(-1, 1, PIXELS)
        yy, xx = torch.meshgrid(grid, grid, indexing="ij")
        cx, cy = 0.5 * ang.cos(), 0.5 * ang.sin()
        jitter = 0.1 * torch.randn(2, n, 1, 1, generator=g)
        blob = torch.exp(-((xx - cx - jitter[0]) ** 2 + (yy - cy - jitter[1]) ** 2) / 0.08)
        colour = torch.rand(n, 3, 1, 1, generator=g)
        self.x = blob[:, None] * colour + 0.15 * torch.randn(n, 3, PIXELS, PIXELS, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitems__(self, idx):
        idx = torch.tensor(idx)
        x = self.x[idx]
        flip = torch.rand(len(idx)) < 0.1
        return torch.where(flip[:, None, None, None], x + 0.05, x), self.y[idx]


class Probe(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.norm = nn.LayerNorm(backbone.config.hidden_size)
        self.classifier = nn.Linear(backbone.config.hidden_size, CLASSES)

    def head_parameters(self):
        return [*self.norm.parameters(), *self.classifier.parameters()]

    def forward(self, pixels):
        tokens = self.backbone(pixel_values=pixels).last_hidden_state
        return self.classifier(self.norm(tokens.mean(1)))


def load_backbone():
    config = ViTConfig(hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256,
                       image_size=PIXELS, patch_size=4, hidden_dropout_prob=0.0,
                       attention_probs_dropout_prob=0.0)
    return ViTModel(config, add_pooling_layer=False)


def evaluate(model, loader):
    model.eval()
    with torch.inference_mode():
        hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def main():
    torch.manual_seed(4)
    train = DataLoader(Blobs(1600, 0), batch_size=16, shuffle=True, drop_last=True, collate_fn=lambda b: b)
    val = DataLoader(Blobs(120, 1), batch_size=60, collate_fn=lambda b: b)
    model = Probe(load_backbone())
    model.backbone.eval()
    # the backbone stays as it is, only the head is trained
    optimizer = torch.optim.AdamW(model.head_parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(train))
    trained = sum(p.numel() for p in model.head_parameters())
    log.info("head %d of %d parameters", trained, sum(p.numel() for p in model.parameters()))
    step, t0 = 0, time.time()
    for epoch in range(EPOCHS):
        for x, y in train:
            loss = F.cross_entropy(model(x), y)
            model.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step % 20 == 0:
                log.info("step %d loss %.4f (%.1f img/s)", step, loss.item(), step * 16 / (time.time() - t0))
        log.info("epoch %d val acc %.3f", epoch, evaluate(model, val))
        model.train()
        model.backbone.eval()
    torch.save({k: v for k, v in model.state_dict().items() if not k.startswith("backbone.")},
               os.path.join(tempfile.gettempdir(), "probe_head.pt"))


if __name__ == "__main__":
    main()
