"""One process prepares batches for a device that could train many more of them."""

# expect: verdict=data finding=too-few-workers

import common
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    """Pieces of noise and their spectra."""

    def __len__(self):
        return 1 << 16

    def __getitem__(self, index):
        wave = np.random.default_rng(index).standard_normal(8192)
        return np.abs(np.fft.rfft(wave)[:1024]).astype(np.float32)


if __name__ == "__main__":
    args = common.arguments()
    pin = args.device == "cuda"
    loader = DataLoader(Waves(), common.sized(args, 64, 8), num_workers=1, pin_memory=pin)  # <- finding
    # cured: loader = DataLoader(Waves(), common.sized(args, 64, 8), num_workers=8, pin_memory=pin)
    model = common.layers(1024, common.sized(args, 4, 1)).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
    for _, batch in zip(common.steps(args), common.endless(loader), strict=False):
        loss = model(batch.to(args.device, non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
