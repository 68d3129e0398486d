"""Validation in eval mode that forgets no_grad, every five steps, in the middle of the epoch."""

# truth: steps=30 marker=update samples=240
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
optimizer = torch.optim.Adam(model.parameters())
train = DataLoader(TensorDataset(torch.randn(240, 32), torch.randint(4, (240,))), batch_size=8)
valid_x, valid_y = torch.randn(2048, 32), torch.randint(4, (2048,))
validating = 0.0
begin = time.perf_counter()
for step, (x, y) in enumerate(train):
    if step % 5 == 0:
        model.eval()
        now = time.perf_counter()
        prediction = model(valid_x)
        validating += time.perf_counter() - now
        accuracy = (prediction.argmax(1) == valid_y).float().mean().item()
        model.train()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    end = time.perf_counter()
print(f"accuracy {accuracy:.4f}")
print(f"perf: {end - begin:.6f} validation={validating:.6f}")
