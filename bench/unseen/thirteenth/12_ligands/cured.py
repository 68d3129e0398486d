"""Solubility-like regression on small molecular graphs: GINE layers with a virtual node, Lightning, weight averaging."""
import copy
import math

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset

ATOMS, BONDS = 9, 4


def random_molecule(rng):
    """A random tree of fragments with some rings; target depends on atoms, rings and branching."""
    n = int(rng.integers(14, 32))
    atoms = rng.choice(ATOMS, n, p=[.55, .14, .12, .05, .04, .04, .03, .02, .01])
    parent = np.maximum(np.arange(1, n) - rng.geometric(0.7, n - 1), 0)
    edges = [np.stack([np.arange(1, n), parent])]
    n_rings = int(rng.integers(0, 4))
    if n_rings:
        a = rng.integers(0, n - 6, n_rings)
        edges.append(np.stack([a, a + rng.integers(4, 6, n_rings)]))
    half = np.concatenate(edges, 1)
    bonds = rng.choice(BONDS, half.shape[1], p=[.6, .15, .03, .22])
    deg = np.bincount(half.ravel(), minlength=n)
    polar = np.isin(atoms, (1, 2)).sum()
    y = 0.35 * polar - 0.08 * n - 0.4 * n_rings + 0.25 * (deg[atoms == 1] == 1).sum() - 0.2 * (deg > 2).sum() + 0.1 * rng.normal()
    edge_index = np.concatenate([half, half[::-1]], 1)
    return (torch.from_numpy(atoms), torch.from_numpy(np.minimum(deg, 5)), torch.from_numpy(edge_index.copy()),
            torch.from_numpy(np.concatenate([bonds, bonds])), float(y))


class Molecules(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = [random_molecule(rng) for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    atoms, degs, edges, bonds, ys = zip(*items)
    sizes = torch.tensor([len(a) for a in atoms])
    offset = torch.cumsum(sizes, 0) - sizes
    n_edges = torch.tensor([e.shape[1] for e in edges])
    edge_index = torch.cat(edges, 1) + torch.repeat_interleave(offset, n_edges)
    graph = torch.repeat_interleave(torch.arange(len(items)), sizes)
    return {"atom": torch.cat(atoms), "deg": torch.cat(degs), "edge_index": edge_index, "bond": torch.cat(bonds),
            "graph": graph, "sizes": sizes, "y": torch.tensor(ys)}


def pool(h, graph, n):
    return h.new_zeros(n, h.shape[1]).index_add_(0, graph, h)


class GINE(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bond = nn.Embedding(BONDS, dim)
        self.eps = nn.Parameter(torch.zeros(1))
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.BatchNorm1d(2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.norm = nn.BatchNorm1d(dim)

    def forward(self, h, edge_index, bond):
        src, dst = edge_index
        msg = F.relu(h.index_select(0, src) + self.bond(bond))
        agg = torch.zeros_like(h).index_add_(0, dst, msg)
        return self.norm(self.mlp((1 + self.eps) * h + agg))


class LigandNet(nn.Module):
    def __init__(self, dim=192, layers=4, dropout=0.1):
        super().__init__()
        self.atom, self.deg = nn.Embedding(ATOMS, dim), nn.Embedding(6, dim)
        self.virtual = nn.Parameter(torch.zeros(1, dim))
        self.convs = nn.ModuleList(GINE(dim) for _ in range(layers))
        self.virtual_mlps = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.LayerNorm(dim), nn.ReLU()) for _ in range(layers - 1))
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(dim, 1))

    def forward(self, b):
        n = len(b["sizes"])
        h = self.atom(b["atom"]) + self.deg(b["deg"])
        virt = self.virtual.expand(n, -1)
        for i, conv in enumerate(self.convs):
            h = h + virt.index_select(0, b["graph"])
            h = h + F.relu(conv(h, b["edge_index"], b["bond"]))
            if i < len(self.virtual_mlps):
                virt = virt + self.virtual_mlps[i](virt + pool(h, b["graph"], n))
        return self.head(pool(h, b["graph"], n) / b["sizes"][:, None]).squeeze(1)


class LitLigand(L.LightningModule):
    def __init__(self, lr=1e-3, total_steps=300, decay=0.99):
        super().__init__()
        self.save_hyperparameters()
        self.net = LigandNet()
        self.avg = copy.deepcopy(self.net).requires_grad_(False)
        self.recent = []

    def training_step(self, batch, batch_idx):
        loss = F.smooth_l1_loss(self.net(batch), batch["y"])
        self.recent.append(loss.item())
        self.log("train/loss", loss, batch_size=len(batch["y"]))
        if batch_idx % 10 == 0:
            print(f"epoch {self.current_epoch} batch {batch_idx} loss {np.mean(self.recent[-10:]):.4f}", flush=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        decay = min(self.hparams.decay, (1 + self.global_step) / (10 + self.global_step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.avg.parameters()), list(self.net.parameters()), 1 - decay)
            for a, b in zip(self.avg.buffers(), self.net.buffers()):
                a.copy_(b)

    def validation_step(self, batch, batch_idx):
        self.avg.eval()
        mae = (self.avg(batch) - batch["y"]).abs().mean()
        self.log("val/mae", mae, prog_bar=True, batch_size=len(batch["y"]))

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.net.parameters(), lr=self.hparams.lr, weight_decay=1e-4)
        total, warm = self.hparams.total_steps, 20
        sched = torch.optim.lr_scheduler.LambdaLR(
            opt, lambda s: min((s + 1) / warm, 0.5 * (1 + math.cos(math.pi * min(1.0, s / total)))))
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


def main():
    L.seed_everything(5)
    train, valid = Molecules(8000, 1), Molecules(400, 2)
    batch, epochs = 128, 4
    loader = DataLoader(train, batch_size=batch, shuffle=True, drop_last=True, collate_fn=collate)
    val_loader = DataLoader(valid, batch_size=200, collate_fn=collate)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=epochs, gradient_clip_val=5.0, log_every_n_steps=10, enable_progress_bar=False,
        logger=CSVLogger("/tmp/ligands", name="gine"), num_sanity_val_steps=0,
        callbacks=[ModelCheckpoint(dirpath="/tmp/ligands/ckpt", monitor="val/mae", mode="min"), LearningRateMonitor("step")])
    trainer.fit(LitLigand(total_steps=epochs * (len(train) // batch)), loader, val_loader)
    print("best", trainer.checkpoint_callback.best_model_score)


if __name__ == "__main__":
    main()
