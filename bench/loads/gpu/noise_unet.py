"""A U-Net learns to take noise away from small images; an average of its weights is kept beside it."""

# expect: verdict=data finding=tensors-created-on-host

import copy

import common
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class NoiseSchedule(nn.Module):
    """How much of an image is left after so many steps of diffusion."""

    def __init__(self, count=1000):
        super().__init__()
        left = torch.cumprod(1 - torch.linspace(1e-4, 0.02, count), 0)
        self.register_buffer("signal", left.sqrt())
        self.register_buffer("spread", (1 - left).sqrt())

    def draw(self, images):
        """(Noisy images, the noise in them, the times they stand for)."""
        times = torch.randint(len(self.signal), (len(images),), device=images.device)
        noise = torch.randn(images.shape).to(images.device)  # <- finding
        # cured: noise = torch.randn(images.shape, device=images.device)
        signal, spread = (table[times].view(-1, 1, 1, 1) for table in (self.signal, self.spread))
        return signal * images + spread * noise, noise, times


class Block(nn.Module):
    def __init__(self, ins, outs, embedded):
        super().__init__()
        self.first, self.second = nn.Conv2d(ins, outs, 3, padding=1), nn.Conv2d(outs, outs, 3, padding=1)
        self.norm, self.shift = nn.GroupNorm(8, outs), nn.Linear(embedded, outs)

    def forward(self, x, time):
        x = F.silu(self.norm(self.first(x)) + self.shift(time)[:, :, None, None])
        return F.silu(self.second(x))


class UNet(nn.Module):
    def __init__(self, width, embedded=128):
        super().__init__()
        self.time = nn.Embedding(1000, embedded)
        self.down, self.bottom = Block(3, width, embedded), Block(2 * width, 2 * width, embedded)
        self.shrink = nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.grow = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.up, self.out = Block(2 * width, width, embedded), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, times):
        time = F.silu(self.time(times))
        wide = self.down(x, time)
        low = self.bottom(self.shrink(wide), time)
        return self.out(self.up(torch.cat([wide, self.grow(low)], 1), time))


class Average:
    """An exponential moving average of a model's weights."""

    def __init__(self, model, decay=0.999):
        self.model, self.decay = copy.deepcopy(model).requires_grad_(False), decay

    @torch.no_grad()
    def update(self, model):
        torch._foreach_lerp_(list(self.model.parameters()), list(model.parameters()), 1 - self.decay)


args = common.arguments()
size, side, width = common.sized(args, (256, 64, 48), (2, 16, 8))
schedule = NoiseSchedule().to(args.device)
model = UNet(width).to(args.device, torch.bfloat16, memory_format=torch.channels_last)
average = Average(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
pictures = torch.randint(256, (16 * size, 3, side, side), dtype=torch.uint8, device=args.device)
losses = []
for _ in common.steps(args, losses):
    picked = torch.randint(len(pictures), (size,), device=args.device)
    noisy, noise, times = schedule.draw(pictures[picked] / 127.5 - 1)
    noisy = noisy.to(torch.bfloat16, memory_format=torch.channels_last)
    loss = F.mse_loss(model(noisy, times).float(), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update(model)
    losses.append(loss.detach())
