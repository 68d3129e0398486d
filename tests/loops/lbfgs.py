"""L-BFGS: the closure runs forward and backward several times inside one step."""

# truth: steps=6 marker=update windows=off
import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.linspace(0, 1, 4096).unsqueeze(1)
y = torch.sin(6 * x)
model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=8)
spent = {"forward": 0.0, "backward": 0.0}


def closure():
    optimizer.zero_grad()
    now = time.perf_counter()
    prediction = model(x)
    spent["forward"] += time.perf_counter() - now
    loss = nn.functional.mse_loss(prediction, y)
    now = time.perf_counter()
    loss.backward()
    spent["backward"] += time.perf_counter() - now
    return loss


begin = time.perf_counter()
for _ in range(6):
    loss = optimizer.step(closure)
    end = time.perf_counter()
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}", *(f"{phase}={seconds:.6f}" for phase, seconds in spent.items()))
