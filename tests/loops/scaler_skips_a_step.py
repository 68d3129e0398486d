"""A GradScaler that skips two updates: an infinite gradient is planted."""

# truth: steps=20 marker=update skipped=2 samples=160
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
loader = DataLoader(TensorDataset(torch.randn(160, 16), torch.randint(2, (160,))), batch_size=8)
for index, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss * (float("inf") if index in (3, 11) else 1.0)).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
print(f"loss {loss.item():.6f} scale {scaler.get_scale()}")
