"""Nothing is trained: a model is evaluated over a loader."""

# truth: steps=30 marker=batch samples=240
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 4)).eval()
loader = DataLoader(TensorDataset(torch.randn(240, 32), torch.randint(4, (240,))), batch_size=8)
right = 0
begin = time.perf_counter()
with torch.no_grad():
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        time.sleep(0.005)
end = time.perf_counter()
print(f"accuracy {right / 240:.4f}")
print(f"perf: {end - begin:.6f}")
