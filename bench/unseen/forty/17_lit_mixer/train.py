import logging
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class GatedUnit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.a = nn.Linear(dim, dim)
        self.b = nn.Linear(dim, dim)
        self.scale = nn.Parameter(torch.ones(dim) * 0.1)

    def forward(self, x):
        h = self.norm(x)
        return x + self.scale * self.a(h) * torch.sigmoid(self.b(h))


class LitRegressor(L.LightningModule):
    def __init__(self, n_in=32, dim=96, depth=14, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.stem = nn.Linear(n_in, dim)
        self.units = nn.Sequential(*[GatedUnit(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        return self.head(self.units(self.stem(x))).squeeze(-1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.huber_loss(self(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return {"optimizer": opt, "lr_scheduler": torch.optim.lr_scheduler.StepLR(opt, 5, 0.7)}

    def on_train_epoch_end(self):
        print(f"epoch {self.current_epoch} loss {self.trainer.callback_metrics['train_loss']:.4f}")


def main():
    L.seed_everything(77)
    x = torch.randn(6400, 32)
    y = torch.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] + 0.1 * torch.randn(6400)
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    trainer = L.Trainer(
        max_epochs=7,
        accelerator="cpu",
        devices=1,
        logger=False,
        detect_anomaly=True,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
    )
    trainer.fit(LitRegressor(), loader)


if __name__ == "__main__":
    main()
