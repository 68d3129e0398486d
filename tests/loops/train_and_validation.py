"""Training and validation loaders, validation in eval mode without gradients after each epoch."""

# truth: steps=30 marker=update samples=240 windows=off
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 512), nn.Linear(512, 4))
optimizer = torch.optim.AdamW(model.parameters())
train = DataLoader(TensorDataset(torch.randn(80, 32), torch.randint(4, (80,))), batch_size=8, shuffle=True)
valid = DataLoader(TensorDataset(torch.randn(640, 32), torch.randint(4, (640,))), batch_size=64)
validating = [0.0]
begin = time.perf_counter()
for epoch in range(3):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    end = time.perf_counter()
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in valid:
            now = time.perf_counter()
            prediction = model(x)
            validating[-1] += time.perf_counter() - now
            right += (prediction.argmax(1) == y).sum().item()
    validating.append(0.0)
    print(f"epoch {epoch}: {right / 640:.4f}")
print(f"perf: {end - begin:.6f} validation={sum(validating[:2]):.6f}")
