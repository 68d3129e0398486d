import lightning as L
import torch
import torch.nn.functional as F
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

from encoder import SeasonEncoder


class LitCrop(L.LightningModule):
    def __init__(self, cfg):
        super().__init__()
        self.save_hyperparameters()
        f = cfg["fields"]
        self.fit_cfg = cfg["fit"]
        self.net = SeasonEncoder(f["bands"], f["dates"], f["n_classes"], **cfg["model"])
        self.val_acc = MulticlassAccuracy(f["n_classes"], average="micro")
        self.val_f1 = MulticlassF1Score(f["n_classes"], average="macro")

    def forward(self, x, clear):
        return self.net(x, clear)

    def training_step(self, batch, batch_idx):
        x, clear, y = batch
        loss = F.cross_entropy(self(x, clear), y, label_smoothing=0.05)
        self.log("train/loss", loss, batch_size=len(y))
        return loss

    def validation_step(self, batch, batch_idx):
        x, clear, y = batch
        logits = self(x, clear)
        self.val_acc.update(logits, y)
        self.val_f1.update(logits, y)
        self.log("val/loss", F.cross_entropy(logits, y), batch_size=len(y))
        self.log("val/acc", self.val_acc)
        self.log("val/f1", self.val_f1)

    def configure_optimizers(self):
        decay = [p for p in self.parameters() if p.ndim > 1]
        plain = [p for p in self.parameters() if p.ndim <= 1]
        opt = torch.optim.AdamW([{"params": decay, "weight_decay": self.fit_cfg["weight_decay"]},
                                 {"params": plain, "weight_decay": 0.0}], lr=self.fit_cfg["lr"])
        sched = torch.optim.lr_scheduler.OneCycleLR(
            opt, max_lr=self.fit_cfg["lr"], total_steps=int(self.trainer.estimated_stepping_batches),
            pct_start=self.fit_cfg["warmup_frac"])
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}
