"""Lightning learns two moons with a residual network and looks at the validation set every forty batches (needs lightning)."""

import argparse
import tempfile

import lightning
import torch
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.outer(torch.relu(self.inner(self.norm(x))))


class Moons(lightning.LightningModule):
    def __init__(self, width=192, depth=3):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), *(Residual(width) for _ in range(depth)), nn.Linear(width, 2)
        )

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        output = self(x)
        self.log("accuracy", (output.argmax(1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def moons(count, seed):
    points, labels = make_moons(count, noise=0.2, random_state=seed)
    return TensorDataset(torch.from_numpy(points).float(), torch.from_numpy(labels))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=64_000)
    parser.add_argument("--every", type=int, default=40)
    args = parser.parse_args()

    lightning.seed_everything(0)
    train = DataLoader(moons(args.points, 0), batch_size=256, shuffle=True)
    test = DataLoader(moons(8192, 1), batch_size=1024)
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=1,
            val_check_interval=args.every,
            accelerator="cpu",
            default_root_dir=folder,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
        )
        trainer.fit(Moons(), train, test)
    print(f"accuracy {trainer.callback_metrics['accuracy']:.3f}")


if __name__ == "__main__":
    main()
