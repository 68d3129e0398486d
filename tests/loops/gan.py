"""A GAN: discriminator, then generator, each with its own optimizer, one of each per batch."""

# truth: steps=24 marker=update updates_per_step=2
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
generator = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 16))
discriminator = nn.Sequential(nn.Linear(16, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
g_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4)
d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
criterion = nn.BCEWithLogitsLoss()
loader = DataLoader(TensorDataset(torch.randn(96, 16)), batch_size=8, shuffle=True)
begin = time.perf_counter()
for _ in range(2):
    for (real,) in loader:
        fake = generator(torch.randn(len(real), 8))
        d_optimizer.zero_grad()
        criterion(discriminator(real), torch.ones(len(real), 1)).backward()
        criterion(discriminator(fake.detach()), torch.zeros(len(real), 1)).backward()
        d_optimizer.step()
        g_optimizer.zero_grad()
        loss = criterion(discriminator(fake), torch.ones(len(real), 1))
        loss.backward()
        g_optimizer.step()
        end = time.perf_counter()
        time.sleep(0.004)
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
