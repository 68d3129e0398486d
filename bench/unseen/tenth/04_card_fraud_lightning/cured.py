"""Card-fraud detection on tabular transactions with a small FT-Transformer."""
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
from lightning.pytorch.loggers import CSVLogger
from sklearn.metrics import average_precision_score, roc_auc_score
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset

warnings.filterwarnings("ignore", ".*does not have many workers.*")
log = logging.getLogger("fraud")
CARDINALITY = (24, 60, 12, 7)


def make_transactions(n, n_num, seed):
    rng = np.random.default_rng(seed)
    num = rng.standard_normal((n, n_num)).astype(np.float32)
    cat = np.stack([rng.integers(0, c, n) for c in CARDINALITY], axis=1)
    risk = [rng.normal(0, 0.8, c) for c in CARDINALITY]
    score = 1.2 * num[:, 0] * num[:, 1] + 0.9 * np.abs(num[:, 2]) - 0.5 * num[:, 3]
    score = score + sum(r[cat[:, j]] for j, r in enumerate(risk))
    score = score + rng.logistic(0, 0.5, n)
    label = (score > np.quantile(score, 0.92)).astype(np.float32)
    return torch.from_numpy(num), torch.from_numpy(cat), torch.from_numpy(label)


class TransactionData(L.LightningDataModule):
    def __init__(self, rows, n_num, batch_size, seed):
        super().__init__()
        self.rows, self.n_num = rows, n_num
        self.batch_size, self.seed = batch_size, seed

    def setup(self, stage=None):
        tensors = make_transactions(self.rows, self.n_num, self.seed)
        cut = int(0.9 * self.rows)
        self.train = TensorDataset(*(t[:cut] for t in tensors))
        self.val = TensorDataset(*(t[cut:] for t in tensors))

    def _loader(self, data, sampler, drop_last):
        # whole batches are indexed at once, so no collating is needed
        return DataLoader(data, batch_size=None,
                          sampler=BatchSampler(sampler, self.batch_size, drop_last))

    def train_dataloader(self):
        return self._loader(self.train, RandomSampler(self.train), True)

    def val_dataloader(self):
        return self._loader(self.val, SequentialSampler(self.val), False)


class FTTransformer(nn.Module):
    def __init__(self, n_num, dim, depth, heads):
        super().__init__()
        self.num_w = nn.Parameter(torch.randn(n_num, dim) / dim ** 0.5)
        self.num_b = nn.Parameter(torch.zeros(n_num, dim))
        offsets = torch.tensor((0,) + CARDINALITY[:-1]).cumsum(0)
        self.register_buffer("offsets", offsets)
        self.cat = nn.Embedding(sum(CARDINALITY), dim)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        layer = nn.TransformerEncoderLayer(
            dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 1))

    def forward(self, num, cat):
        tokens = torch.cat([
            self.cls.expand(len(num), -1, -1),
            num.unsqueeze(-1) * self.num_w + self.num_b,
            self.cat(cat + self.offsets),
        ], dim=1)
        return self.head(self.encoder(tokens)[:, 0]).squeeze(-1)


class FraudModule(L.LightningModule):
    def __init__(self, n_num=10, dim=32, depth=2, heads=4, lr=1e-3, pos_weight=4.0):
        super().__init__()
        self.save_hyperparameters()
        self.net = FTTransformer(n_num, dim, depth, heads)
        self.register_buffer("pos_weight", torch.tensor(pos_weight))
        self.train_scores, self.train_labels = [], []
        self.val_scores, self.val_labels = [], []

    def _loss(self, batch):
        num, cat, label = batch
        logits = self.net(num, cat)
        loss = F.binary_cross_entropy_with_logits(logits, label, pos_weight=self.pos_weight)
        return loss, logits, label

    def _log_ranking(self, prefix, scores, labels):
        scores = torch.cat(scores).numpy()
        labels = torch.cat(labels).numpy()
        if labels.min() == labels.max():
            return
        self.log(f"{prefix}_auc", float(roc_auc_score(labels, scores)))
        self.log(f"{prefix}_ap", float(average_precision_score(labels, scores)))

    def training_step(self, batch, batch_idx):
        loss, logits, label = self._loss(batch)
        self.train_scores.append(logits.detach().sigmoid())
        self.train_labels.append(label)
        self.log("train_loss", loss)
        return loss

    def on_train_epoch_end(self):
        self._log_ranking("train", self.train_scores, self.train_labels)
        self.train_scores.clear()
        self.train_labels.clear()

    def validation_step(self, batch, batch_idx):
        loss, logits, label = self._loss(batch)
        self.val_scores.append(logits.sigmoid())
        self.val_labels.append(label)
        self.log("val_loss", loss, batch_size=len(label))

    def on_validation_epoch_end(self):
        self._log_ranking("val", self.val_scores, self.val_labels)
        self.val_scores.clear()
        self.val_labels.clear()

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=1e-4)
        total = self.trainer.estimated_stepping_batches
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, self.hparams.lr, total_steps=total)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class EpochReport(L.Callback):
    def on_train_epoch_start(self, trainer, module):
        self.tic = time.perf_counter()

    def on_validation_epoch_start(self, trainer, module):
        if not trainer.sanity_checking:
            ms = 1000 * (time.perf_counter() - self.tic) / trainer.num_training_batches
            log.info("epoch %d: %.1f ms per step", trainer.current_epoch, ms)

    def on_validation_end(self, trainer, module):
        m = {k: round(float(v), 4) for k, v in trainer.callback_metrics.items()}
        log.info("epoch %d: %s", trainer.current_epoch, m)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--rows", type=int, default=80000)
    ap.add_argument("--numeric", type=int, default=10)
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--depth", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1.5e-3)
    ap.add_argument("--seed", type=int, default=42)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    L.seed_everything(args.seed)

    out = tempfile.mkdtemp(prefix="fraud_")
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=args.epochs, default_root_dir=out,
        logger=CSVLogger(out), log_every_n_steps=50, callbacks=[EpochReport()],
        gradient_clip_val=1.0, num_sanity_val_steps=0,
        enable_progress_bar=False, enable_model_summary=False,
    )
    module = FraudModule(args.numeric, args.dim, args.depth, lr=args.lr)
    trainer.fit(module, TransactionData(args.rows, args.numeric, args.batch_size, args.seed))


if __name__ == "__main__":
    main()
