"""Trains a class-conditional transformer that turns noise into image latents (rectified flow),
and keeps a moving average of its weights for sampling."""

# expect: verdict=healthy finding=none

import copy
import math

import common
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Latents(torch.utils.data.Dataset):
    """Latents that an image autoencoder left behind: four channels, a few blobs by class."""

    def __init__(self, count, side, classes):
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.randint(classes, (count,), generator=generator)
        coarse = torch.randn(classes, 4, 4, 4, generator=generator)
        means = F.interpolate(coarse, size=(side, side), mode="bilinear")
        self.latents = means[self.labels] + 0.3 * torch.randn(count, 4, side, side, generator=generator)

    def __len__(self):
        return 20 * len(self.labels)

    def __getitem__(self, index):
        index %= len(self.labels)
        latent = self.latents[index]
        return (latent.flip(-1) if torch.rand(()) < 0.5 else latent), self.labels[index]


class Block(nn.Module):
    """Attention and feed-forward, both modulated by time and class."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.offset = nn.Parameter(torch.randn(6, width) / width**0.5)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x, modulation):
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = (
            (modulation + self.offset).to(x.dtype).chunk(6, 1)
        )
        inner = torch.addcmul(shift_1, self.norm(x).to(x.dtype), 1 + scale_1)
        q, k, v = self.qkv(inner).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = torch.addcmul(x, gate_1, self.out(attended))
        inner = torch.addcmul(shift_2, self.norm(x).to(x.dtype), 1 + scale_2)
        return torch.addcmul(x, gate_2, self.feed(inner))


class Flow(nn.Module):
    def __init__(self, side, width, heads, depth, classes):
        super().__init__()
        self.width = width
        self.patches = nn.Linear(16, width)
        self.positions = nn.Parameter(0.02 * torch.randn((side // 2) ** 2, width))
        self.classes = nn.Embedding(classes + 1, width)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, 16)
        self.register_buffer(
            "rates", torch.exp(-math.log(10_000) * torch.arange(128) / 128), persistent=False
        )

    def forward(self, latents, time, labels):
        angles = 1000 * time[:, None] * self.rates
        condition = self.time(torch.cat([angles.cos(), angles.sin()], 1)) + self.classes(labels)
        modulation = self.modulation(condition).unflatten(1, (6, self.width))
        x = self.patches(F.pixel_unshuffle(latents, 2).flatten(2).transpose(1, 2))
        x = x + self.positions.to(x.dtype)
        for block in self.blocks:
            x = block(x, modulation)
        velocity = self.last(self.norm(x)).transpose(1, 2)
        side = latents.shape[-1] // 2
        return F.pixel_shuffle(velocity.unflatten(2, (side, side)), 2)


def main():
    args = common.arguments()
    torch.set_float32_matmul_precision("high")
    batch, side = common.sized(args, (32, 32), (4, 8))
    width, heads, depth = common.sized(args, (1536, 24, 10), (32, 2, 2))
    workers, classes = common.sized(args, 4, 0), 100
    loader = torch.utils.data.DataLoader(
        Latents(common.sized(args, 4000, 32), side, classes),
        batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=args.device == "cuda",
    )
    model = Flow(side, width, heads, depth, classes).to(args.device)
    average = copy.deepcopy(model).requires_grad_(False)
    weights, averaged = list(model.parameters()), list(average.parameters())
    optimizer = torch.optim.AdamW(weights, lr=1e-4, weight_decay=0.0, fused=True)
    seen = torch.zeros((), device=args.device)
    batches, losses, history = common.endless(loader), [], []
    for step in common.steps(args, losses, batch):
        latents, labels = (part.to(args.device, non_blocking=True) for part in next(batches))
        labels = torch.where(torch.rand(batch, device=args.device) < 0.1, classes, labels)
        time = torch.randn(batch, device=args.device).sigmoid()
        noise = torch.randn_like(latents)
        noisy = torch.lerp(latents, noise, time[:, None, None, None])
        with torch.autocast(args.device, torch.bfloat16):
            velocity = model(noisy, time, labels)
        loss = F.mse_loss(velocity.float(), noise - latents)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        torch._foreach_lerp_(averaged, weights, 1e-3)
        losses.append(loss.detach())
        seen += losses[-1]
        if (step + 1) % 100 == 0:
            history.append(seen.item() / 100)
            print(f"step {step + 1}: loss {history[-1]:.4f}", flush=True)
            seen.zero_()


if __name__ == "__main__":
    main()
