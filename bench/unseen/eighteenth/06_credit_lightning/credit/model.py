import torch
from torch import nn
import torch.nn.functional as F

from . import pl


class GatedBlock(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        value, gate = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.drop(self.down(value * torch.sigmoid(gate)))


class RiskNet(pl.LightningModule):
    def __init__(self, n_numeric, cardinalities, width, blocks, lr, total_steps, dropout=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.embeddings = nn.ModuleList(nn.Embedding(c, min(16, (c + 1) // 2)) for c in cardinalities)
        joined = n_numeric + sum(e.embedding_dim for e in self.embeddings)
        self.stem = nn.Linear(joined, width)
        self.body = nn.Sequential(*[GatedBlock(width, dropout) for _ in range(blocks)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, num, cat):
        parts = [emb(cat[:, j]) for j, emb in enumerate(self.embeddings)]
        x = self.stem(torch.cat([num, *parts], dim=1))
        return self.head(self.body(x)).squeeze(-1)

    def training_step(self, batch, batch_idx):
        logits = self(batch["num"], batch["cat"])
        loss = F.binary_cross_entropy_with_logits(logits, batch["y"])
        return {"loss": loss, "logits": logits.detach()}

    def validation_step(self, batch, batch_idx):
        logits = self(batch["num"], batch["cat"])
        self.log("val_loss", F.binary_cross_entropy_with_logits(logits, batch["y"]), batch_size=len(logits))

    def configure_optimizers(self):
        decay = [p for p in self.parameters() if p.ndim > 1]
        plain = [p for p in self.parameters() if p.ndim <= 1]
        opt = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=self.hparams.lr
        )
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=self.hparams.lr, total_steps=self.hparams.total_steps + 1)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}
