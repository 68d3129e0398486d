"""Two optimizers that take turns by epoch: a repeating pattern as long as two epochs is no step."""

# truth: steps=40 marker=update updates_per_step=1
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
body, head = nn.Linear(16, 64), nn.Linear(64, 2)
optimizers = [torch.optim.Adam(body.parameters()), torch.optim.Adam(head.parameters())]
loader = DataLoader(TensorDataset(torch.randn(80, 16), torch.randint(2, (80,))), batch_size=8)
for epoch in range(4):
    optimizer = optimizers[epoch % 2]
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(body(x).relu()), y)
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.6f}")
