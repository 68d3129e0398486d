"""Self-supervised pre-training on hospital visit histories: recover hidden diagnosis codes."""
import argparse
import logging
import tempfile
import time
from pathlib import Path

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("codes")
PAD, MASK, FIRST_CODE = 0, 1, 2
IGNORE = -100


def simulate_histories(patients, codes, length, seed):
    """Each patient carries a few conditions; every condition has its own code distribution."""
    rng = np.random.default_rng(seed)
    conditions = 60
    favourites = np.random.default_rng(99).integers(0, codes, (conditions, 40))
    carried = rng.integers(0, conditions, (patients, 3))
    which = carried[np.arange(patients)[:, None], rng.integers(0, 3, (patients, length))]
    slot = np.minimum(rng.geometric(0.12, (patients, length)) - 1, 39)
    history = favourites[which, slot]
    noise = rng.random((patients, length)) < 0.08
    history = np.where(noise, rng.integers(0, codes, (patients, length)), history) + FIRST_CODE
    ages = np.sort(rng.uniform(20, 90, (patients, length)), axis=1)
    used = rng.integers(int(0.8 * length), length + 1, patients)
    history[np.arange(length)[None] >= used[:, None]] = PAD
    return history.astype(np.int64), ages.astype(np.float32)


class HistoryDataset(Dataset):
    def __init__(self, patients, codes, length, seed):
        history, ages = simulate_histories(patients, codes, length, seed)
        self.history, self.ages = torch.from_numpy(history), torch.from_numpy(ages)

    def __len__(self):
        return len(self.history)

    def __getitem__(self, index):
        return self.history[index], self.ages[index]


class MaskingCollator:
    def __init__(self, vocabulary, rate=0.15):
        self.vocabulary, self.rate = vocabulary, rate

    def __call__(self, samples):
        codes = torch.stack([s[0] for s in samples])
        ages = torch.stack([s[1] for s in samples])
        chosen = (torch.rand(codes.shape) < self.rate) & (codes != PAD)
        labels = torch.where(chosen, codes, IGNORE)
        draw = torch.rand(codes.shape)
        random_codes = torch.randint(FIRST_CODE, self.vocabulary, codes.shape)
        inputs = torch.where(chosen & (draw < 0.8), MASK, codes)
        inputs = torch.where(chosen & (draw > 0.9), random_codes, inputs)
        return {"codes": inputs, "ages": ages, "labels": labels}


class HistoryEncoder(nn.Module):
    def __init__(self, vocabulary, width, layers, heads, dropout=0.1):
        super().__init__()
        self.code = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.age = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width))
        block = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, nn.LayerNorm(width), enable_nested_tensor=False)

    def forward(self, codes, ages):
        x = self.code(codes) + self.age(ages.unsqueeze(-1) / 50 - 1)
        return self.blocks(x, src_key_padding_mask=codes == PAD)


class CodeHead(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.output = nn.Linear(width, vocabulary)

    def forward(self, hidden):
        return self.output(self.transform(hidden))


class CodePretraining(L.LightningModule):
    def __init__(self, vocabulary, width=128, layers=3, heads=4, lr=1e-3, warmup=30):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = HistoryEncoder(vocabulary, width, layers, heads)
        self.head = CodeHead(width, vocabulary)
        nn.init.normal_(self.encoder.code.weight, std=0.05)

    def predict_codes(self, batch):
        hidden = self.encoder(batch["codes"], batch["ages"])
        logits = self.head(hidden)
        return logits.flatten(0, 1), batch["labels"].flatten()

    def training_step(self, batch, batch_idx):
        logits, labels = self.predict_codes(batch)
        loss = F.cross_entropy(logits, labels, ignore_index=IGNORE)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        logits, labels = self.predict_codes(batch)
        loss = F.cross_entropy(logits, labels, ignore_index=IGNORE)
        kept = labels != IGNORE
        hit = (logits[kept].topk(10, dim=-1).indices == labels[kept].unsqueeze(1)).any(1)
        self.log("val_loss", loss, prog_bar=True, batch_size=len(batch["codes"]))
        self.log("val_top10", hit.float().mean(), prog_bar=True, batch_size=len(batch["codes"]))

    def configure_optimizers(self):
        decay = [p for p in self.parameters() if p.ndim > 1]
        rest = [p for p in self.parameters() if p.ndim <= 1]
        optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}],
                                      lr=self.hparams.lr, fused=True)
        warmup = self.hparams.warmup
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / warmup))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class ConsoleReport(Callback):
    def __init__(self, every=25):
        self.every = every

    def on_train_start(self, trainer, module):
        self.started = time.perf_counter()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step % self.every == 0:
            log.info("step %d loss %.4f (%.1fs)", trainer.global_step, float(outputs["loss"]),
                     time.perf_counter() - self.started)

    def on_validation_end(self, trainer, module):
        metrics = trainer.callback_metrics
        log.info("validation loss %.4f top10 %.3f", float(metrics["val_loss"]), float(metrics["val_top10"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--patients", type=int, default=1280)
    parser.add_argument("--codes", type=int, default=8000)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "diagnosis_codes")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    L.seed_everything(21)

    vocabulary = args.codes + FIRST_CODE
    collator = MaskingCollator(vocabulary)
    train_set = HistoryDataset(args.patients, args.codes, args.length, seed=1)
    val_set = HistoryDataset(96, args.codes, args.length, seed=2)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True, collate_fn=collator)
    val_loader = DataLoader(val_set, args.batch_size, collate_fn=collator)

    module = CodePretraining(vocabulary)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=args.epochs, max_steps=args.max_steps, default_root_dir=args.out,
        callbacks=[ConsoleReport(), ModelCheckpoint(args.out, "best", monitor="val_loss")],
        gradient_clip_val=1.0, logger=False, enable_progress_bar=False, num_sanity_val_steps=0)
    trainer.fit(module, train_loader, val_loader)


if __name__ == "__main__":
    main()
