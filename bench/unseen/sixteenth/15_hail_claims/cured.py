"""Will a crop-insurance policy claim for hail this season? Tabular transformer with Lightning."""
import argparse
import logging
import tempfile
import time
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import CSVLogger
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAUROC, BinaryAveragePrecision

CARDS = {"crop": 14, "county": 120, "broker": 60, "net": 3, "tariff": 9, "soil": 11}
NUMERIC = 10


def policies(n, seed):
    rng = np.random.default_rng(seed)
    cats = np.stack([rng.integers(0, c, n) for c in CARDS.values()], 1)
    nums = rng.standard_normal((n, NUMERIC)).astype(np.float32)
    nums[:, 0] = np.exp(0.5 * nums[:, 0])                     # sum insured
    lore = np.random.default_rng(5)
    score = sum(lore.normal(0, 0.5, c)[cats[:, j]] for j, c in enumerate(CARDS.values()))
    score = score + 0.5 * nums[:, 1] - 0.4 * nums[:, 2] * nums[:, 3] + 0.3 * np.log(nums[:, 0]) - 2.2
    claim = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.float32)
    return torch.from_numpy(cats), torch.from_numpy(nums), torch.from_numpy(claim)


class PolicyData(L.LightningDataModule):
    """Batches are cut from the tensors as slices of one permutation."""

    class Batches(torch.utils.data.IterableDataset):
        def __init__(self, tensors, batch, shuffle):
            self.tensors, self.batch, self.shuffle = tensors, batch, shuffle

        def __len__(self):
            return len(self.tensors[0]) // self.batch

        def __iter__(self):
            n = len(self.tensors[0])
            order = torch.randperm(n) if self.shuffle else torch.arange(n)
            for lo in range(0, len(self) * self.batch, self.batch):
                rows = order[lo:lo + self.batch]
                yield tuple(t[rows] for t in self.tensors)

    def __init__(self, n_train, n_val, batch, seed):
        super().__init__()
        cats, nums, claim = policies(n_train + n_val, seed)
        mean, std = nums[:n_train].mean(0), nums[:n_train].std(0)
        tensors = (cats, (nums - mean) / std, claim)
        self.train = self.Batches([t[:n_train] for t in tensors], batch, True)
        self.val = self.Batches([t[n_train:] for t in tensors], batch, False)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.train, batch_size=None)

    def val_dataloader(self):
        return torch.utils.data.DataLoader(self.val, batch_size=None)


class ClaimModel(L.LightningModule):
    def __init__(self, dim, heads, layers, lr):
        super().__init__()
        self.lr = lr
        offsets = np.cumsum([0] + list(CARDS.values()))[:-1]
        self.register_buffer("offsets", torch.from_numpy(offsets))
        self.embed = nn.Embedding(sum(CARDS.values()), dim)
        self.num_w = nn.Parameter(torch.randn(NUMERIC, dim) * 0.1)
        self.num_b = nn.Parameter(torch.zeros(NUMERIC, dim))
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 1))
        metrics = MetricCollection({"auroc": BinaryAUROC(), "ap": BinaryAveragePrecision()})
        self.train_metrics = metrics.clone(prefix="train_")
        self.val_metrics = metrics.clone(prefix="val_")

    def forward(self, cats, nums):
        tokens = torch.cat([self.cls.expand(len(cats), -1, -1), self.embed(cats + self.offsets),
                            nums.unsqueeze(2) * self.num_w + self.num_b], 1)
        return self.head(self.encoder(tokens)[:, 0]).squeeze(1)

    def training_step(self, batch, _):
        cats, nums, claim = batch
        logits = self(cats, nums)
        loss = F.binary_cross_entropy_with_logits(logits, claim)
        self.train_metrics.update(logits.detach(), claim.long())
        self.log("train_loss", loss)
        return loss

    def on_train_epoch_end(self):
        self.log_dict(self.train_metrics.compute())
        self.train_metrics.reset()

    def validation_step(self, batch, _):
        cats, nums, claim = batch
        logits = self(cats, nums)
        self.val_metrics.update(logits, claim.long())
        self.log("val_loss", F.binary_cross_entropy_with_logits(logits, claim), batch_size=len(claim))

    def on_validation_epoch_end(self):
        self.log_dict(self.val_metrics.compute())
        self.val_metrics.reset()

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-4)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, self.lr, total_steps=self.trainer.estimated_stepping_batches)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class Report(Callback):
    def __init__(self, every):
        self.every, self.start = every, time.time()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx % self.every == 0:
            print(f"epoch {trainer.current_epoch} [{batch_idx}/{trainer.num_training_batches}] "
                  f"loss {outputs['loss'].item():.5f} {time.time() - self.start:.1f}s", flush=True)

    def on_validation_end(self, trainer, module):
        got = {k: round(float(v), 4) for k, v in trainer.callback_metrics.items()}
        print(f"epoch {trainer.current_epoch} {got}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--policies", type=int, default=400000)
    p.add_argument("--val-policies", type=int, default=20000)
    p.add_argument("--batch-size", type=int, default=1000)
    p.add_argument("--epochs", type=int, default=1)
    p.add_argument("--dim", type=int, default=16)
    p.add_argument("--heads", type=int, default=2)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--max-steps", type=int, default=-1)
    p.add_argument("--seed", type=int, default=17)
    p.add_argument("--log-dir", default=tempfile.gettempdir())
    args = p.parse_args()

    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    L.seed_everything(args.seed)
    data = PolicyData(args.policies, args.val_policies, args.batch_size, args.seed)
    model = ClaimModel(args.dim, args.heads, args.layers, args.lr)
    trainer = L.Trainer(max_epochs=args.epochs, max_steps=args.max_steps, accelerator="cpu", devices=1,
                        logger=CSVLogger(args.log_dir, "hail_claims"), log_every_n_steps=50,
                        callbacks=[Report(25)], enable_progress_bar=False, enable_model_summary=False,
                        enable_checkpointing=False, num_sanity_val_steps=0)
    trainer.fit(model, data)


if __name__ == "__main__":
    main()
