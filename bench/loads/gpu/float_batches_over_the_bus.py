"""Images are converted to float by the loader's workers, and cross the bus four times as large."""

# expect: verdict=data finding=float-batches-over-the-bus

import common
import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, count, side):
        self.stored = torch.randint(256, (count, 3, side, side), dtype=torch.uint8)

    def __len__(self):
        return 64 * len(self.stored)

    def __getitem__(self, index):
        return self.stored[index % len(self.stored)].float() / 255  # <- finding
        # cured: return self.stored[index % len(self.stored)]


if __name__ == "__main__":
    args = common.arguments()
    images = Images(common.sized(args, 256, 8), common.sized(args, 224, 16))
    pin = args.device == "cuda"
    batch_size, workers = common.sized(args, (64, 10), (4, 1))
    loader = DataLoader(images, batch_size, num_workers=workers, pin_memory=pin)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 7, stride=4), torch.nn.ReLU()).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
    for _, batch in zip(common.steps(args), common.endless(loader), strict=False):
        x = batch.to(args.device, non_blocking=True)
        # cured: x = batch.to(args.device, non_blocking=True).float() / 255
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
