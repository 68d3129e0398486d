"""Samplers and collation for variable-length clips."""
import torch
from torch.utils.data import DataLoader


class ClipCollate:
    """Stacks clips into (B, T, J*C) with a key mask; root-centres on the shoulders."""

    SHOULDERS = (2, 5)

    def __init__(self, joints, max_frames, channels=3):
        self.joints, self.max_frames, self.channels = joints, max_frames, channels

    def centre(self, clip):
        root = clip[:, self.SHOULDERS, :2].mean(1, keepdim=True)
        return torch.cat([clip[..., :2] - root, clip[..., 2:]], -1)

    def __call__(self, items):
        lengths = torch.tensor([min(len(c), self.max_frames) for c, _ in items])
        frames = int(lengths.max())
        x = torch.zeros(len(items), frames, self.joints * self.channels)
        mask = torch.arange(frames)[None, :] < lengths[:, None]
        for row, (clip, _), n in zip(x, items, lengths.tolist()):
            row[:n] = self.centre(clip[:n]).flatten(1)
        return {"x": x, "mask": mask, "y": torch.tensor([y for _, y in items])}


def endless(loader):
    while True:
        yield from loader


def make_loader(dataset, batch_size, seed, train):
    gen = torch.Generator().manual_seed(seed)
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=train,
        drop_last=train,
        generator=gen,
        collate_fn=ClipCollate(dataset.joints, dataset.max_frames),
    )
