"""Image classifier on two processes with DistributedDataParallel.

torchrun --nproc-per-node 2 train.py
"""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def build():
    def block(a, b, pool):
        layers = [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.GroupNorm(8, b), nn.ReLU()]
        return layers + ([nn.MaxPool2d(2)] if pool else [])
    return nn.Sequential(*block(1, 32, False), *block(32, 32, True), *block(32, 64, False), *block(64, 64, True),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(10)
    d = load_digits()
    x = F.interpolate(torch.tensor(d.images, dtype=torch.float32).unsqueeze(1) / 16, size=(24, 24), mode="bilinear")
    data = TensorDataset(x, torch.tensor(d.target))
    sampler = DistributedSampler(data, shuffle=True, seed=10, drop_last=True)
    loader = DataLoader(data, batch_size=32, sampler=sampler, drop_last=True)
    model = DDP(build(), gradient_as_bucket_view=True)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(34):
        sampler.set_epoch(epoch)
        for xb, yb in loader:
            loss = F.cross_entropy(model(xb), yb)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"epoch {epoch} loss {mean.item() / dist.get_world_size():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
