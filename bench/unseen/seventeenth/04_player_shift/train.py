"""Short-term player displacement from broadcast frames.

Given the patch around a player in frame t and the same window in frame t+1, predict how far
the player has moved (pixels). The tracker downstream uses it as its motion prior.
"""
import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

HEIGHT, WIDTH = 288, 512
MEAN = torch.tensor([0.31, 0.42, 0.27]).view(3, 1, 1)
STD = torch.tensor([0.21, 0.20, 0.22]).view(3, 1, 1)


def render_match(folder, n_frames, n_players, seed):
    """Pitch with mowing stripes, two teams of blobs; writes frames.npy and tracks.npy."""
    rng = np.random.default_rng(seed)
    stripes = (np.arange(WIDTH) // 64 % 2) * 18
    pitch = np.stack([60 + stripes, 120 + stripes, 55 + stripes], axis=-1).astype(np.float32)
    pitch = np.repeat(pitch[None], HEIGHT, axis=0)
    pitch += rng.normal(0, 6, size=pitch.shape)
    shirts = np.where(np.arange(n_players)[:, None] < n_players // 2, [[200, 40, 40]], [[230, 230, 240]])
    pos = np.stack([rng.uniform(60, WIDTH - 60, n_players), rng.uniform(60, HEIGHT - 60, n_players)], axis=1)
    vel = rng.normal(0, 3, size=(n_players, 2))
    frames = np.lib.format.open_memmap(
        folder / "frames.npy", mode="w+", dtype=np.uint8, shape=(n_frames, HEIGHT, WIDTH, 3)
    )
    tracks = np.zeros((n_frames, n_players, 2), dtype=np.float32)
    for f in range(n_frames):
        image = pitch.copy()
        for p in range(n_players):
            x, y = pos[p].astype(int)
            image[y - 9:y + 3, x - 4:x + 5] = shirts[p]
            image[y + 3:y + 10, x - 3:x + 4] = 30
        frames[f] = np.clip(image, 0, 255)
        tracks[f] = pos.astype(int)
        vel = np.clip(0.9 * vel + rng.normal(0, 1.4, size=vel.shape), -8, 8)
        pos = np.clip(pos + vel, 50, [WIDTH - 50, HEIGHT - 50])
    frames.flush()
    np.save(folder / "tracks.npy", tracks)


class ShiftDataset(Dataset):
    def __init__(self, folder, first, last, window=48):
        self.frames = np.load(folder / "frames.npy", mmap_mode="r")
        self.tracks = np.load(folder / "tracks.npy")
        players = self.tracks.shape[1]
        self.items = [(f, p) for f in range(first, last - 1) for p in range(players)]
        self.half = window // 2

    def __len__(self):
        return len(self.items)

    def load_patch(self, frame, centre):
        x, y = centre.astype(int)
        h = self.half
        image = torch.from_numpy(np.array(self.frames[frame])).permute(2, 0, 1)
        image = (image.float() / 255.0 - MEAN) / STD
        return image[:, y - h:y + h, x - h:x + h]

    def __getitem__(self, i):
        frame, player = self.items[i]
        here, there = self.tracks[frame, player], self.tracks[frame + 1, player]
        pair = torch.cat([self.load_patch(frame, here), self.load_patch(frame + 1, here)])
        return {"pair": pair, "shift": torch.from_numpy(there - here), "key": torch.tensor([frame, player])}


class ResidualBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(4, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1)
        )

    def forward(self, x):
        return torch.relu(x + self.body(x))


class ShiftNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(6, width, 5, stride=2, padding=2), nn.ReLU())
        self.blocks = nn.Sequential(
            ResidualBlock(width), nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), ResidualBlock(2 * width)
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(2 * width * 12 * 12, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, pair):
        return self.head(self.blocks(self.stem(pair)))


class History:
    """Everything we want to look at in the notebook afterwards."""

    def __init__(self, path):
        self.path = path
        self.records = []

    def add(self, step, loss, lr, batch, output):
        error = (output - batch["shift"]).detach()
        self.records.append({
            "step": step, "loss": loss, "lr": lr,
            "samples": [
                {"frame": k[0], "player": k[1], "true": s, "dx": round(e[0], 3), "dy": round(e[1], 3)}
                for k, s, e in zip(batch["key"].tolist(), batch["shift"].tolist(), error.tolist())
            ],
        })

    def save(self):
        with open(self.path, "w") as f:
            json.dump(self.records, f)


@torch.no_grad()
def mean_pixel_error(model, loader, accelerator):
    model.eval()
    distances = []
    for batch in loader:
        distance = (model(batch["pair"]) - batch["shift"]).norm(dim=1)
        distances.append(accelerator.gather_for_metrics(distance))
    model.train()
    return torch.cat(distances).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=420)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--frames", type=int, default=90)
    parser.add_argument("--players", type=int, default=22)
    parser.add_argument("--eval-every", type=int, default=140)
    args = parser.parse_args()

    set_seed(4)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=1)
    tmp = tempfile.TemporaryDirectory(prefix="match_")
    work = Path(tmp.name)
    render_match(work, args.frames, args.players, seed=6)

    split = args.frames - 8
    train_loader = DataLoader(ShiftDataset(work, 0, split), batch_size=args.batch_size, shuffle=True, drop_last=True)
    valid_loader = DataLoader(ShiftDataset(work, split, args.frames), batch_size=44)
    model = ShiftNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.max_steps)
    model, optimizer, train_loader, valid_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, valid_loader, scheduler
    )
    criterion = nn.SmoothL1Loss()
    history = History(work / "history.json")

    step = 0
    start = time.perf_counter()
    while step < args.max_steps:
        for batch in train_loader:
            with accelerator.accumulate(model):
                output = model(batch["pair"])
                loss = criterion(output, batch["shift"])
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            step += 1
            history.add(step, loss.item(), scheduler.get_last_lr()[0], batch, output)
            history.save()
            if step % 20 == 0:
                accelerator.print(f"step {step:4d} loss {loss.item():.4f} {time.perf_counter() - start:.1f} s", flush=True)
            if step % args.eval_every == 0:
                error = mean_pixel_error(model, valid_loader, accelerator)
                accelerator.print(f"  validation error {error:.3f} px")
                accelerator.save(accelerator.unwrap_model(model).state_dict(), work / f"shift_{step}.pt")
            if step >= args.max_steps:
                break
    accelerator.print(f"finished {step} steps in {time.perf_counter() - start:.1f} s")
    tmp.cleanup()


if __name__ == "__main__":
    main()
