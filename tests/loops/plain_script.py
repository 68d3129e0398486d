"""A plain script: module level, one loader, one optimizer, a scheduler."""

# truth: steps=48 marker=update samples=384 windows=off
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.set_num_threads(1)


class Squares(Dataset):
    def __len__(self):
        return 192

    def __getitem__(self, index):
        time.sleep(0.0003)
        x = torch.arange(64, dtype=torch.float32) / 64 + index / 192
        return x, x.square().sum()


model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(Squares(), batch_size=8, shuffle=True)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
clock = time.perf_counter
spent = dict.fromkeys(("data_wait", "forward", "backward", "optimizer"), 0.0)
begin = mark = clock()
for epoch in range(2):
    for x, y in loader:
        now = clock()
        spent["data_wait"] += now - mark
        prediction = model(x)
        spent["forward"] += clock() - now
        loss = nn.functional.mse_loss(prediction.squeeze(1), y)
        optimizer.zero_grad()
        now = clock()
        loss.backward()
        spent["backward"] += clock() - now
        now = clock()
        optimizer.step()
        mark = end = clock()
        spent["optimizer"] += mark - now
        scheduler.step()
        mark = clock()
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}", *(f"{phase}={seconds:.6f}" for phase, seconds in spent.items()))
