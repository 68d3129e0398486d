"""Beta-VAE on the scikit-learn digits with Lightning."""
import csv
import os
import tempfile

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, repeat=8):
        x = torch.from_numpy(load_digits().images).float().unsqueeze(1) / 16
        x = F.interpolate(x, size=(24, 24), mode="bilinear")
        self.x = x.flatten(1).repeat(repeat, 1)

    def __len__(self):
        return len(self.x)

    def __getitems__(self, idx):
        x = self.x[torch.as_tensor(idx)]
        return (x + 0.02 * torch.randn_like(x)).clamp(0, 1)


class BetaVAE(L.LightningModule):
    def __init__(self, dim=576, hidden=384, latent=12, beta=2.0, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.enc = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.to_stats = nn.Linear(hidden, 2 * latent)
        self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
                                 nn.Linear(hidden, dim))

    def forward(self, x):
        mu, logvar = self.to_stats(self.enc(x)).chunk(2, 1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar

    def training_step(self, x, batch_idx):
        logits, mu, logvar = self(x)
        rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1).mean()
        kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(1).mean()
        beta = self.hparams.beta * min(1.0, self.global_step / 200)
        self.log_dict({"train/rec": rec, "train/kl": kl})
        return rec + beta * kl

    def configure_optimizers(self):
        opt = torch.optim.Adam(self.parameters(), lr=self.hparams.lr, fused=True)
        return {"optimizer": opt, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)}


class WeightMonitor(L.Callback):
    """Keeps an eye on the distribution of weights and gradients."""

    def __init__(self, path, bins=32):
        self.file = open(path, "w", newline="")
        self.writer = csv.writer(self.file)
        self.bins = bins

    def on_before_zero_grad(self, trainer, module, optimizer):
        for name, p in module.named_parameters():
            if p.grad is None:
                continue
            for kind, t in (("w", p.detach()), ("g", p.grad)):
                counts, edges = np.histogram(t.numpy(), bins=self.bins)
                self.writer.writerow([trainer.global_step, kind, name, edges[0], edges[-1], *counts])

    def on_fit_end(self, trainer, module):
        self.file.close()


class Report(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        m = trainer.callback_metrics
        print(f"epoch {trainer.current_epoch}: rec {m['train/rec']:.2f} kl {m['train/kl']:.2f}", flush=True)


def main():
    L.seed_everything(3)
    out = tempfile.mkdtemp(prefix="vae_")
    loader = DataLoader(Digits(), batch_size=256, shuffle=True, drop_last=True, collate_fn=lambda b: b)
    trainer = L.Trainer(
        max_epochs=16,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        gradient_clip_val=5.0,
        callbacks=[WeightMonitor(os.path.join(out, "weights.csv")), Report()],
    )
    model = BetaVAE()
    trainer.fit(model, loader)
    with torch.no_grad():
        sample = torch.sigmoid(model.dec(torch.randn(16, model.hparams.latent)))
    np.save(os.path.join(out, "samples.npy"), sample.view(16, 24, 24).numpy())
    trainer.save_checkpoint(os.path.join(out, "vae.ckpt"), weights_only=True)
    print("written to", out)


if __name__ == "__main__":
    main()
