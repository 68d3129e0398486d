"""No DataLoader: a language model on one array and random offsets."""

# truth: steps=40 marker=update
import time

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
random = np.random.default_rng(0)
text = random.integers(0, 50, 10_000).astype(np.int64)


def get_batch(size=8, length=32):
    starts = random.integers(0, len(text) - length - 1, size)
    x = torch.stack([torch.from_numpy(text[start : start + length]) for start in starts])
    y = torch.stack([torch.from_numpy(text[start + 1 : start + length + 1]) for start in starts])
    return x, y


model = nn.Sequential(nn.Embedding(50, 128), nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 50))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
begin = time.perf_counter()
for _ in range(40):
    x, y = get_batch()
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    end = time.perf_counter()
    time.sleep(0.004)
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
