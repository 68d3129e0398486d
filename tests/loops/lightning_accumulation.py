"""Lightning with gradient accumulation over three batches and gradient clipping."""

# truth: steps=8 marker=update backwards_per_step=3 framework=lightning
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
        self.last = nn.functional.cross_entropy(self.net(x), y)
        return self.last

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


model = Classifier()
trainer = lightning.Trainer(
    max_epochs=2,
    accumulate_grad_batches=3,
    gradient_clip_val=1.0,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
data = TensorDataset(torch.randn(96, 16), torch.randint(2, (96,)))
trainer.fit(model, DataLoader(data, batch_size=8))
print(f"loss {model.last.item():.6f}")
