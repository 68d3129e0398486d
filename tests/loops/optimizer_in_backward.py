"""Each parameter has its own optimizer, stepped by a hook inside backward."""

# truth: steps=24 marker=update samples=192
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
optimizers = {p: torch.optim.SGD([p], lr=0.05) for p in model.parameters()}


def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)

loader = DataLoader(TensorDataset(torch.randn(96, 16), torch.randint(2, (96,))), batch_size=8)
begin = time.perf_counter()
for _ in range(2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        end = time.perf_counter()
        time.sleep(0.003)
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
