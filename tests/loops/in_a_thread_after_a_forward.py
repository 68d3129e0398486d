"""The main thread calls the model once, with gradients, and trains it in a thread of its own."""

# truth: steps=30 marker=update
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 2))
model(torch.zeros(1, 16))
loader = DataLoader(TensorDataset(torch.randn(120, 16), torch.randint(2, (120,))), batch_size=8)
results = {}


def train():
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    results["loss"] = loss.item()


thread = threading.Thread(target=train, name="trainer")
thread.start()
thread.join()
print(f"loss {results['loss']:.6f}")
