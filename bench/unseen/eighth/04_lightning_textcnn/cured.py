"""Product-review style text CNN in Lightning, evaluated with an exponential moving average of the weights."""
import copy
import logging
import warnings
from dataclasses import dataclass

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


@dataclass
class Config:
    vocab: int = 30_000
    dim: int = 160
    channels: int = 96
    classes: int = 5
    length: int = 40
    samples: int = 4800
    batch: int = 32
    epochs: int = 1
    lr: float = 5e-3
    ema_decay: float = 0.98
    seed: int = 11


class ReviewData(L.LightningDataModule):
    """Tokens drawn from a Zipf-like law; the label hides in a few marker words."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg

    def setup(self, stage=None):
        cfg = self.cfg
        gen = torch.Generator().manual_seed(cfg.seed)
        total = cfg.samples + 320
        u = torch.rand(total, cfg.length, generator=gen)
        tokens = (cfg.vocab ** u).long().clamp_max(cfg.vocab - 1)
        labels = torch.randint(cfg.classes, (total,), generator=gen)
        where = torch.randint(cfg.length, (total, 4), generator=gen)
        tokens.scatter_(1, where, (1000 + labels)[:, None].expand(-1, 4))
        self.train = TensorDataset(tokens[:cfg.samples], labels[:cfg.samples])
        self.val = TensorDataset(tokens[cfg.samples:], labels[cfg.samples:])

    def train_dataloader(self):
        return DataLoader(self.train, self.cfg.batch, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, 64)


class TextCNN(L.LightningModule):
    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.vocab, cfg.dim, sparse=True)  # few rows change per step
        self.convs = nn.ModuleList([nn.Conv1d(cfg.dim, cfg.channels, k, padding=k // 2) for k in (3, 5, 7)])
        self.mix = nn.Sequential(nn.Conv1d(3 * cfg.channels, 3 * cfg.channels, 3, padding=1), nn.ReLU())
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(3 * cfg.channels, cfg.classes)

    def forward(self, tokens):
        x = self.embed(tokens).transpose(1, 2)
        x = torch.cat([F.relu(conv(x)) for conv in self.convs], dim=1)
        x = self.mix(x)
        return self.head(self.drop(x.amax(dim=2)))

    def training_step(self, batch, batch_idx):
        tokens, labels = batch
        loss = F.cross_entropy(self(tokens), labels, label_smoothing=0.05)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        tokens, labels = batch
        acc = (self(tokens).argmax(1) == labels).float().mean()
        self.log("val_acc", acc, prog_bar=True)

    def configure_optimizers(self):
        dense = [p for n, p in self.named_parameters() if not n.startswith("embed")]
        return torch.optim.SGD([{"params": dense}, {"params": self.embed.parameters(), "lr": 20 * self.cfg.lr}],
                               lr=20 * self.cfg.lr)


class WeightAverage(L.Callback):
    def __init__(self, decay):
        self.decay = decay
        self.shadow = None
        self.backup = None

    def on_fit_start(self, trainer, module):
        self.shadow = copy.deepcopy(module.state_dict())

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        current = module.state_dict()
        with torch.no_grad():
            torch._foreach_lerp_([self.shadow[n] for n in current], list(current.values()), 1 - self.decay)

    def on_validation_start(self, trainer, module):
        if self.shadow is not None:
            self.backup = copy.deepcopy(module.state_dict())
            module.load_state_dict(self.shadow)

    def on_validation_end(self, trainer, module):
        if self.backup is not None:
            module.load_state_dict(self.backup)
            self.backup = None


def main():
    cfg = Config()
    L.seed_everything(cfg.seed, verbose=False)
    trainer = L.Trainer(accelerator="cpu", max_epochs=cfg.epochs, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
                        callbacks=[WeightAverage(cfg.ema_decay)])
    trainer.fit(TextCNN(cfg), datamodule=ReviewData(cfg))
    print({k: round(float(v), 4) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
