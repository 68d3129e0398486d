"""Fine-tunes a deep speech transformer to hear the emotion in an utterance; layers near the input
learn more slowly than those near the output."""

# expect: verdict=host finding=unfused-optimizer

import math

import common
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Utterances(torch.utils.data.Dataset):
    """Log-mel frames with a tilt of the spectrum by emotion; a band and a span are blanked out at random."""

    def __init__(self, count, frames, mels, emotions):
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.randint(emotions, (count,), generator=generator)
        tilt = torch.randn(emotions, mels, generator=generator)
        self.features = (
            torch.randn(count, frames, mels, generator=generator) + 0.3 * tilt[self.labels][:, None]
        )
        self.features = self.features.half()

    def __len__(self):
        return 40 * len(self.labels)

    def __getitem__(self, index):
        index %= len(self.labels)
        features = self.features[index].clone()
        frames, mels = features.shape
        start, band = int(torch.randint(frames * 3 // 4, ())), int(torch.randint(mels * 3 // 4, ()))
        features[start : start + frames // 10] = 0
        features[:, band : band + mels // 8] = 0
        return features, self.labels[index]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale_1, self.scale_2 = (nn.Parameter(torch.full((width,), 0.1)) for _ in range(2))

    def forward(self, x):
        q, k, v = self.qkv(self.norm_1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = torch.addcmul(x, self.scale_1, self.out(attended))
        return torch.addcmul(x, self.scale_2, self.down(F.gelu(self.up(self.norm_2(x)))))


class Listener(nn.Module):
    def __init__(self, mels, width, heads, depth, tokens, emotions):
        super().__init__()
        self.stem = nn.Conv1d(mels, width, 4, stride=4)
        self.positions = nn.Parameter(0.02 * torch.randn(tokens, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, emotions)

    def forward(self, features):
        x = self.stem(features.transpose(1, 2)).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def layer_of(name, depth):
    if name.startswith("blocks."):
        return int(name.split(".")[1]) + 1
    return 0 if name.startswith(("stem", "positions")) else depth + 1


def layer_wise(model, depth, rate, decay=0.9, weight_decay=0.05):
    """Rates that shrink from the head down to the stem; no weight decay for vectors."""
    groups = {}
    for name, parameter in model.named_parameters():
        lr = rate * decay ** (depth + 1 - layer_of(name, depth))
        shrink = weight_decay if parameter.ndim > 1 else 0.0
        group = {"params": [], "lr": lr, "weight_decay": shrink}
        group = groups.setdefault(name, group)  # <- finding
        # cured: group = groups.setdefault((lr, shrink), group)
        group["params"].append(parameter)
    return list(groups.values())


def main():
    args = common.arguments()
    torch.set_float32_matmul_precision("high")
    batch, frames, mels = common.sized(args, (24, 1024, 80), (4, 64, 16))
    width, heads, depth = common.sized(args, (512, 8, 24), (32, 2, 3))
    workers, emotions = common.sized(args, 6, 0), 8
    loader = torch.utils.data.DataLoader(
        Utterances(common.sized(args, 320, 16), frames, mels, emotions),
        batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=args.device == "cuda",
    )
    model = Listener(mels, width, heads, depth, frames // 4, emotions).to(args.device)
    optimizer = torch.optim.AdamW(layer_wise(model, depth, 5e-4), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 100, 0.5 + 0.5 * math.cos(math.pi * min(step / 20_000, 1)))
    )
    batches, losses = common.endless(loader), []
    for _ in common.steps(args, losses, batch):
        features, labels = (part.to(args.device, non_blocking=True) for part in next(batches))
        with torch.autocast(args.device, torch.bfloat16):
            loss = F.cross_entropy(model(features.bfloat16()), labels, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())


if __name__ == "__main__":
    main()
