"""A home-made Trainer class with methods for epoch, batch, validation and checkpoint."""

# truth: steps=20 marker=update windows=off
import io
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
torch.set_num_threads(1)


class Trainer:
    def __init__(self, model, train_set, test_set):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        self.train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
        self.test_loader = DataLoader(test_set, batch_size=4)
        self.saves_s = []

    def fit(self, epochs):
        for epoch in range(epochs):
            self.model.train()
            for batch in self.train_loader:
                self.train_batch(*batch)
            self.ended = time.perf_counter()
            self.save()
            print(f"epoch {epoch}: {self.validate():.6f}")

    def train_batch(self, x, y):
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.model(x), y).backward()
        self.optimizer.step()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        return sum(nn.functional.mse_loss(self.model(x), y).item() for x, y in self.test_loader)

    def save(self):
        begin = time.perf_counter()
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, io.BytesIO())
        self.saves_s.append(time.perf_counter() - begin)


data = TensorDataset(torch.randn(52, 16), torch.randn(52, 1))
trainer = Trainer(
    nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 512), nn.Linear(512, 1)),
    *random_split(data, [40, 12]),
)
begin = time.perf_counter()
trainer.fit(4)
print(f"perf: {trainer.ended - begin:.6f} checkpoint={sum(trainer.saves_s[:-1]):.6f}")
