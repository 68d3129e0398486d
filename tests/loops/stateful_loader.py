"""torchdata's loader, which builds and iterates itself, with two workers."""

# truth: steps=24 marker=update samples=192 workers=2
import time

import torch
from torch import nn
from torch.utils.data import Dataset
from torchdata.stateful_dataloader import StatefulDataLoader


class Slow(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((16,), index / 96), torch.tensor([float(index % 2)])


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = StatefulDataLoader(Slow(), batch_size=8, num_workers=2)
    waited = 0.0
    begin = mark = time.perf_counter()
    for _ in range(2):
        for x, y in loader:
            waited += time.perf_counter() - mark
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mark = end = time.perf_counter()
    print(f"loss {loss.item():.6f}")
    print(f"perf: {end - begin:.6f} data_wait={waited:.6f}")


if __name__ == "__main__":
    main()
