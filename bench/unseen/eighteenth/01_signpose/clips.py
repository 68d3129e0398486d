"""Keypoint clips: (frames, joints, 3) arrays of x, y, confidence, one gloss per clip."""
import numpy as np
import torch
from torch.utils.data import Dataset

from registry import DATASETS

LEFT_HAND = slice(12, 33)
RIGHT_HAND = slice(33, 54)


def synth_gloss_bank(rng, glosses, joints, harmonics=3):
    amp = rng.normal(0, 0.35, (glosses, harmonics, joints, 2)) / np.arange(1, harmonics + 1)[None, :, None, None]
    phase = rng.uniform(0, 2 * np.pi, (glosses, harmonics, joints, 2))
    rest = rng.normal(0, 0.5, (joints, 2))
    return rest, amp, phase


@DATASETS.register("keypoint_clips")
class KeypointClips(Dataset):
    def __init__(self, num_clips, num_glosses, joints, max_frames, median_frames, seed=0, split="train"):
        rng = np.random.default_rng(seed)
        rest, amp, phase = synth_gloss_bank(rng, num_glosses, joints)
        rng = np.random.default_rng((seed, 0 if split == "train" else 1))
        self.joints, self.max_frames, self.train = joints, max_frames, split == "train"
        self.labels = rng.integers(0, num_glosses, num_clips)
        lengths = rng.lognormal(np.log(median_frames), 0.38, num_clips)
        self.lengths = np.clip(lengths, 12, max_frames).astype(int)
        self.clips = []
        for label, n in zip(self.labels, self.lengths):
            t = np.linspace(0, 2 * np.pi, n)[:, None, None]
            xy = np.broadcast_to(rest, (n, joints, 2)).copy()
            for h in range(amp.shape[1]):
                xy += amp[label, h] * np.sin((h + 1) * t + phase[label, h])
            xy += rng.normal(0, 0.25, xy.shape)
            conf = rng.uniform(0.4, 1.0, (n, joints, 1))
            self.clips.append(np.concatenate([xy, conf], -1).astype(np.float32))

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, i):
        clip = torch.from_numpy(self.clips[i])
        if self.train:
            clip = self._augment(clip)
        return clip, int(self.labels[i])

    def _augment(self, clip):
        angle = (torch.rand(()) - 0.5) * 0.3
        scale = 1.0 + (torch.rand(()) - 0.5) * 0.2
        c, s = torch.cos(angle) * scale, torch.sin(angle) * scale
        rot = torch.stack([torch.stack([c, -s]), torch.stack([s, c])])
        return torch.cat([clip[..., :2] @ rot, clip[..., 2:]], -1)
