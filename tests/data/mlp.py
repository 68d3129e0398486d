"""The script that the windows in this folder were recorded from: three layers, 24 rows a step.

perfdoctor run --profiler-share 1 tests/data/mlp.py
"""

import torch

torch.manual_seed(0)
layers = [
    torch.nn.Linear(40, 64),
    torch.nn.ReLU(),
    torch.nn.Linear(64, 64),
    torch.nn.ReLU(),
    torch.nn.Linear(64, 8),
]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3000):
    loss = model(torch.randn(24, 40)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
