"""Recurrent layers name the sound in each frame of speech, in float16 with scaled gradients."""

# expect: verdict=healthy finding=none

import common
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Utterances(Dataset):
    """Pieces of recordings: spectra of frames, and the sound in each of them."""

    def __init__(self, frames, bands, sounds, count=2048):
        rng = np.random.default_rng(0)
        self.spectra = rng.standard_normal((count, frames, bands), np.float32).astype(np.float16)
        self.sounds = rng.integers(0, sounds, (count, frames))

    def __len__(self):
        return 64 * len(self.spectra)

    def __getitem__(self, index):
        return self.spectra[index % len(self.spectra)], self.sounds[index % len(self.spectra)]


class Recogniser(nn.Module):
    def __init__(self, bands, hidden, sounds):
        super().__init__()
        self.normalise = nn.LayerNorm(bands)
        self.layers = nn.LSTM(bands, hidden, num_layers=2, batch_first=True)
        self.name = nn.Linear(hidden, sounds)

    def forward(self, spectra):
        return self.name(self.layers(self.normalise(spectra))[0])


class Accuracy:
    """The share of frames that were named rightly, counted on the device."""

    def __init__(self, device):
        self.right, self.all = torch.zeros((), device=device), 0

    @torch.no_grad()
    def update(self, named, sounds):
        self.right += (named.argmax(-1) == sounds).sum()
        self.all += sounds.numel()

    def share(self):
        return self.right.item() / self.all


class Trainer:
    def __init__(self, model, device):
        self.model, self.device, self.scaled = model, device, device == "cuda"
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
        self.scaler = torch.amp.GradScaler(device, init_scale=2.0**10, enabled=self.scaled)
        self.accuracy = Accuracy(device)

    def step(self, spectra, sounds):
        spectra = spectra.to(self.device, non_blocking=True).float()
        sounds = sounds.to(self.device, non_blocking=True)
        with torch.autocast(self.device, torch.float16, enabled=self.scaled):
            named = self.model(spectra)
            loss = nn.functional.cross_entropy(named.flatten(0, 1), sounds.flatten())
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.accuracy.update(named, sounds)
        return loss.detach()


def main():
    args = common.arguments()
    on_device = args.device == "cuda"
    size, frames, bands, hidden, sounds = common.sized(args, (512, 64, 80, 2048, 64), (4, 8, 8, 16, 5))
    loader = DataLoader(
        Utterances(frames, bands, sounds), size, shuffle=True, num_workers=4 if on_device else 1,
        pin_memory=on_device, persistent_workers=True,
    )  # fmt: skip
    trainer = Trainer(Recogniser(bands, hidden, sounds).to(args.device), args.device)
    losses = []
    for _, batch in zip(common.steps(args, losses, size), common.endless(loader), strict=False):
        losses.append(trainer.step(*batch))
    print(f"accuracy {trainer.accuracy.share():.1%}")


if __name__ == "__main__":
    main()
