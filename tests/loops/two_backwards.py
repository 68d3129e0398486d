"""The gradients of an update come from two backwards over one graph."""

# truth: steps=24 marker=update backwards_per_step=2
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(96, 16), torch.randint(2, (96,))), batch_size=8)
for _ in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.cross_entropy(output, y)
        loss.backward(retain_graph=True)
        (1e-3 * output.square().mean()).backward()
        optimizer.step()
print(f"loss {loss.item():.6f}")
