"""Recognises bird species in short cuts of long recordings: log-mel spectra and a transformer encoder."""

# expect: verdict=data finding=oversized-reads

import pathlib
import tempfile

import common
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE = 16_000
SPECIES = 96
MELS = 80


def record(folder, count, seconds):
    """Field recordings, one file each: background noise with the tones of some calls in it."""
    rng = np.random.default_rng(3)
    noise = rng.integers(-900, 900, RATE * seconds, dtype=np.int16)
    time = np.arange(RATE) / RATE
    paths = []
    for number in range(count):
        sound = np.roll(noise, number * 7919)
        for start in rng.integers(0, len(sound) - RATE, 20):
            sound[start : start + RATE] += (2000 * np.sin(6.28 * (800 + 150 * number) * time)).astype(
                np.int16
            )
        paths.append(folder / f"station-{number:03d}.pcm")
        sound.tofile(paths[-1])
    return paths


class Calls(Dataset):
    """Cuts of a fixed length at annotated places of the recordings, with the species that was heard."""

    def __init__(self, paths, cuts, seconds, cut_s):
        rng = np.random.default_rng(5)
        self.paths = paths
        self.samples = int(RATE * cut_s)
        self.stations = rng.integers(0, len(paths), cuts)
        self.starts = rng.integers(0, RATE * seconds - self.samples, cuts)
        self.species = (self.stations * 5 + rng.integers(0, 3, cuts)) % SPECIES

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, index):
        path, start = self.paths[self.stations[index]], self.starts[index]
        cut = np.fromfile(path, np.int16)[start : start + self.samples]  # <- finding
        # cured: cut = np.fromfile(path, np.int16, self.samples, offset=2 * start)
        return torch.from_numpy(cut), int(self.species[index])


def mel_filters(bins):
    """Triangles that get wider with the frequency."""
    centres = (torch.logspace(0, 1, MELS + 2) - 1) / 9 * (bins - 1)
    low, mid, high = (centres[i : i + MELS, None] for i in range(3))
    bin_numbers = torch.arange(bins)[None]
    rising = (bin_numbers - low) / (mid - low).clamp(min=1)
    falling = (high - bin_numbers) / (high - mid).clamp(min=1)
    return torch.minimum(rising, falling).clamp(min=0).T.contiguous()


class CallNet(nn.Module):
    def __init__(self, width, depth, heads):
        super().__init__()
        self.register_buffer("window", torch.hann_window(512), persistent=False)
        self.register_buffer("filters", mel_filters(257), persistent=False)
        self.embed = nn.Linear(MELS, width)
        self.place = nn.Parameter(torch.randn(1, 512, width) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, SPECIES)

    def spectra(self, sound):
        power = torch.stft(sound, 512, 160, window=self.window, return_complex=True).abs().square()
        return torch.log1p(power.transpose(1, 2) @ self.filters)

    def forward(self, sound):
        x = self.embed(self.spectra(sound))
        x = x + self.place[:, : x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


def main():
    args = common.arguments()
    torch.set_float32_matmul_precision("high")
    batch = common.sized(args, 64, 4)
    workers = common.sized(args, 12, 0)
    seconds = common.sized(args, 720, 8)
    with tempfile.TemporaryDirectory() as folder:
        paths = record(pathlib.Path(folder), common.sized(args, 12, 3), seconds)
        calls = Calls(paths, common.sized(args, 40_000, 200), seconds, cut_s=common.sized(args, 1.5, 0.5))
        loader = DataLoader(
            calls,
            batch,
            shuffle=True,
            drop_last=True,
            num_workers=workers,
            pin_memory=args.device == "cuda",
            persistent_workers=workers > 0,
        )
        batches = common.endless(loader)
        model = CallNet(common.sized(args, 768, 32), common.sized(args, 8, 2), common.sized(args, 12, 4))
        model.to(args.device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.05, fused=True)
        losses = []
        for _ in common.steps(args, losses, batch):
            sound, species = (t.to(args.device, non_blocking=True) for t in next(batches))
            with torch.autocast(args.device, torch.bfloat16):
                logits = model(sound.float() / 32768)
            loss = nn.functional.cross_entropy(logits.float(), species, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())


if __name__ == "__main__":
    main()
