"""Resumed: model and optimizer state are loaded and the epochs start at three."""

# truth: steps=20 marker=update samples=160
import io
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)


def build():
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
    return model, torch.optim.AdamW(model.parameters())


file = io.BytesIO()
before = build()
torch.save({"model": before[0].state_dict(), "optimizer": before[1].state_dict(), "epoch": 3}, file)
file.seek(0)
state = torch.load(file, weights_only=True)
model, optimizer = build()
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
loader = DataLoader(TensorDataset(torch.randn(80, 16), torch.randint(2, (80,))), batch_size=8, shuffle=True)
begin = time.perf_counter()
for epoch in range(state["epoch"], 5):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        end = time.perf_counter()
        time.sleep(0.003)
    print(f"epoch {epoch}: {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
