import lightning as L
import torch
from torch import nn
from torch.nn import functional as F

from .cells import ZoneoutLSTM


class AttentivePool(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.score = nn.Linear(hidden, 1)

    def forward(self, h):
        return (self.score(h).softmax(1) * h).sum(1)


class RULModule(L.LightningModule):
    FIELDS = ("sensors", "hidden", "zoneout", "lr", "weight_decay", "max_rul")

    def __init__(self, sensors, hidden, zoneout, lr, weight_decay, max_rul):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Sequential(nn.Linear(sensors, hidden), nn.SiLU(), nn.LayerNorm(hidden))
        self.rnn = ZoneoutLSTM(hidden, hidden, zoneout)
        self.pool = AttentivePool(hidden)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.head(self.pool(self.rnn(self.embed(x)))).squeeze(-1)

    def training_step(self, batch, _):
        x, y = batch
        loss = F.smooth_l1_loss(self(x), y.float(), beta=0.1)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_mae", (self(x) - y).abs().mean() * self.hparams.max_rul)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=self.hparams.weight_decay)
        sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.8)
        return [opt], [sched]
