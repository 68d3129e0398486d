"""Lightning with automatic optimisation: the step runs as a closure inside the optimizer's."""

# truth: steps=24 marker=update framework=lightning
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
lightning.seed_everything(0, verbose=False)


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))

    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def validation_step(self, batch, index):
        x, y = batch
        self.last = nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def loader(count):
    return DataLoader(TensorDataset(torch.randn(count, 16), torch.randint(2, (count,))), batch_size=8)


model = Classifier()
trainer = lightning.Trainer(
    max_epochs=2,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, loader(96), loader(32))
print(f"loss {model.last.item():.6f}")
