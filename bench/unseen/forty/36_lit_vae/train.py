"""Convolutional VAE in Lightning on upsampled digit images."""
import logging
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class ConvVAE(L.LightningModule):
    def __init__(self, latent=16, c=32, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.enc = nn.Sequential(
            nn.Conv2d(1, c, 3, 2, 1), nn.ReLU(), nn.Conv2d(c, 2 * c, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(2 * c, 2 * c, 3, 2, 1), nn.ReLU(), nn.Flatten(),
        )
        self.to_latent = nn.Linear(2 * c * 64, 2 * latent)
        self.from_latent = nn.Linear(latent, 2 * c * 64)
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(2 * c, 2 * c, 4, 2, 1), nn.ReLU(), nn.Conv2d(2 * c, c, 3, 1, 1), nn.ReLU(),
            nn.ConvTranspose2d(c, 1, 4, 2, 1),
        )

    def forward(self, x):
        mu, logvar = self.to_latent(self.enc(x)).chunk(2, 1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(self.from_latent(z).view(len(x), -1, 8, 8)), mu, logvar

    def training_step(self, batch, _):
        (x,) = batch
        logits, mu, logvar = self(x)
        rec = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
        kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
        self.log_dict({"rec": rec, "kl": kl}, on_step=False, on_epoch=True)
        return rec + kl

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch} rec {m['rec']:.2f} kl {m['kl']:.2f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def main():
    L.seed_everything(15)
    x = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1) / 16
    x = F.interpolate(x, size=(32, 32), mode="bilinear").clamp(0, 1)
    loader = DataLoader(TensorDataset(x), batch_size=32, shuffle=True, drop_last=True)
    trainer = L.Trainer(max_epochs=24, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(ConvVAE(), loader)


if __name__ == "__main__":
    main()
