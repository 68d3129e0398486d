"""Heartbeats told apart by a one-dimensional convolutional network, trained with Lightning (needs lightning)."""

# expect: verdict=healthy finding=none

import argparse
import tempfile

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LENGTH = 256


class HeartNet(lightning.LightningModule):
    def __init__(self, channels=48):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, channels, 9, padding=4), nn.ReLU(),
            nn.Conv1d(channels, channels, 9, padding=4), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(channels, 2 * channels, 9, padding=4), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
            nn.Flatten(), nn.Linear(2 * channels, 3),
        )  # fmt: skip

    def training_step(self, batch, index):
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("accuracy", (self.layers(batch[0]).argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def beats(count):
    """Narrow, wide and double beats at any place of the window, with noise."""
    time = torch.linspace(-1, 1, LENGTH)
    kind = torch.arange(count) % 3
    centre = torch.rand(count, 1) - 0.5
    width = torch.where(kind == 1, 0.15, 0.05)[:, None]
    beat = torch.exp(-(((time - centre) / width) ** 2))
    beat += (kind == 2)[:, None] * torch.exp(-(((time - centre - 0.3) / 0.05) ** 2))
    return TensorDataset((beat + 0.2 * torch.randn(count, LENGTH)).unsqueeze(1), kind)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beats", type=int, default=3840)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    lightning.seed_everything(0)
    train = DataLoader(beats(args.beats), batch_size=64, shuffle=True)
    test = DataLoader(beats(192), batch_size=64)
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=args.epochs,
            accelerator="cpu",
            default_root_dir=folder,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
        )
        trainer.fit(HeartNet(), train, test)
    print(f"accuracy {trainer.callback_metrics['accuracy']:.3f}")
