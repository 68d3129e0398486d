"""Star rating from review text (Lightning), with a data map to find mislabelled reviews.

Writes datamap.csv: for each review and epoch the probability that the model gave to the label.
Reviews with a low mean confidence are sent back to the annotators.
"""
import argparse
import random
import warnings

import lightning as L
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore", ".*num_workers.*")

MOOD = ["awful broken refund waste terrible", "poor flimsy slow late disappointing",
        "okay average fine usual acceptable", "good solid quick pleasant nice",
        "excellent perfect superb wonderful love"]
PLAIN = ("the a it this i we box came with and of for my price shop order day colour size was is has "
         "bought used after week month phone kettle lamp chair shirt cable").split()


def write_reviews(n, seed, noise=0.08):
    rng = random.Random(seed)
    texts, stars = [], []
    for _ in range(n):
        y = rng.randrange(5)
        words = [rng.choice(PLAIN) for _ in range(rng.randint(30, 46))]
        for _ in range(4):
            near = min(4, max(0, y + rng.choice([-1, 0, 0, 0, 1])))
            words[rng.randrange(len(words))] = rng.choice(MOOD[near].split())
        texts.append(" ".join(words))
        stars.append(rng.randrange(5) if rng.random() < noise else y)
    return texts, stars


def to_tensors(texts, stars, vocab, width=48):
    ids = torch.zeros(len(texts), width, dtype=torch.long)
    for i, text in enumerate(texts):
        row = [vocab.setdefault(w, len(vocab) + 1) for w in text.split()][:width]
        ids[i, :len(row)] = torch.tensor(row)
    return ids, torch.tensor(stars)


class ReviewData(L.LightningDataModule):
    def __init__(self, n_train, n_val, batch_size):
        super().__init__()
        self.n_train, self.n_val, self.batch_size = n_train, n_val, batch_size
        self.vocab = {}

    def prepare(self):
        train_x, train_y = to_tensors(*write_reviews(self.n_train, 1), self.vocab)
        val_x, val_y = to_tensors(*write_reviews(self.n_val, 2, noise=0.0), self.vocab)
        self.train_set = TensorDataset(torch.arange(len(train_x)), train_x, train_y)
        self.val_set = TensorDataset(torch.arange(len(val_x)), val_x, val_y)
        return self

    def train_dataloader(self):
        return DataLoader(self.train_set, self.batch_size, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.val_set, 128)


class StarModel(L.LightningModule):
    def __init__(self, vocab_size, dim, layers, lr):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(48, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 5)

    def forward(self, ids):
        mask = ids == 0
        h = self.encoder(self.embed(ids) + self.pos, src_key_padding_mask=mask)
        keep = (~mask).unsqueeze(-1).float()
        return self.head((h * keep).sum(1) / keep.sum(1))

    def training_step(self, batch, _):
        index, ids, stars = batch
        logits = self(ids)
        loss = F.cross_entropy(logits, stars)
        return {"loss": loss, "logits": logits.detach()}

    def validation_step(self, batch, _):
        _, ids, stars = batch
        logits = self(ids)
        self.log("val_loss", F.cross_entropy(logits, stars), batch_size=len(stars))
        self.log("val_acc", (logits.argmax(1) == stars).float().mean(), batch_size=len(stars))

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.02)
        total = self.trainer.estimated_stepping_batches
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, self.hparams.lr, total_steps=total)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class DataMap(Callback):
    """Training dynamics per review (Swayamdipta et al., 2020)."""

    def __init__(self, path):
        self.path = path
        self.frame = pd.DataFrame(columns=["epoch", "review", "label", "confidence", "correct"])

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        index, _, stars = batch
        probs = outputs["logits"].softmax(-1)
        confidence = probs.gather(1, stars.unsqueeze(1)).squeeze(1)
        correct = probs.argmax(1) == stars
        for i, y, c, ok in zip(index.tolist(), stars.tolist(), confidence.tolist(), correct.tolist()):
            self.frame.loc[len(self.frame)] = [trainer.current_epoch, i, y, c, ok]

    def on_train_end(self, trainer, module):
        self.frame.to_csv(self.path, index=False)
        stats = self.frame.groupby("review")["confidence"].agg(["mean", "std"])
        print("suspicious reviews:", stats["mean"].astype(float).nsmallest(8).index.tolist())


class Printer(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step % 25 == 0:
            print(f"step {trainer.global_step:4d}  loss {outputs['loss'].item():.4f}", flush=True)

    def on_validation_epoch_end(self, trainer, module):
        m = trainer.callback_metrics
        if not trainer.sanity_checking:
            print(f"epoch {trainer.current_epoch}  val_loss {m['val_loss']:.4f}  val_acc {m['val_acc']:.3f}", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--reviews", type=int, default=2048)
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--dim", type=int, default=64)
    ap.add_argument("--layers", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--datamap", default="/tmp/datamap.csv")
    args = ap.parse_args()

    L.seed_everything(5)
    np.random.seed(5)
    data = ReviewData(args.reviews, 512, args.batch_size).prepare()
    model = StarModel(len(data.vocab) + 1, args.dim, args.layers, args.lr)
    trainer = L.Trainer(max_epochs=args.epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
                        gradient_clip_val=1.0, callbacks=[DataMap(args.datamap), Printer()])
    trainer.fit(model, datamodule=data)
    trainer.save_checkpoint("/tmp/review_stars.ckpt", weights_only=True)


if __name__ == "__main__":
    main()
