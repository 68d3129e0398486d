"""Synthetic infrared cloud scenes: smooth fields drifting and growing."""
import torch
import torch.nn.functional as F


def _field(gen, n, size):
    out = torch.zeros(n, 1, size, size)
    for cells, weight in ((4, 1.0), (8, 0.6), (16, 0.35)):
        coarse = torch.randn(n, 1, cells, cells, generator=gen)
        out += weight * F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=False)
    return out


def make_sequences(cfg, seed):
    gen = torch.Generator().manual_seed(seed)
    frames = cfg.past + cfg.future
    big = _field(gen, cfg.sequences, 2 * cfg.size)
    drift = (torch.rand(cfg.sequences, 2, generator=gen) - 0.5) * 0.12
    growth = (torch.rand(cfg.sequences, generator=gen) - 0.5) * 0.1
    seq = []
    for t in range(frames):
        theta = torch.zeros(cfg.sequences, 2, 3)
        theta[:, 0, 0] = theta[:, 1, 1] = 0.5
        theta[:, :, 2] = drift * (t - frames / 2)
        grid = F.affine_grid(theta, (cfg.sequences, 1, cfg.size, cfg.size), align_corners=False)
        frame = F.grid_sample(big, grid, align_corners=False, padding_mode="reflection")
        seq.append(torch.sigmoid(1.5 * (frame + growth[:, None, None, None] * t)))
    return torch.stack(seq, 1)


class SceneStream:
    """Endless random mini-batches (past, future) from an in-memory archive."""

    def __init__(self, cfg, seed):
        self.cfg = cfg
        self.archive = make_sequences(cfg, seed)
        self.gen = torch.Generator().manual_seed(seed + 1)

    def __iter__(self):
        while True:
            idx = torch.randint(len(self.archive), (self.cfg.batch,), generator=self.gen)
            clip = self.archive[idx]
            if torch.rand((), generator=self.gen) < 0.5:
                clip = clip.flip(-1)
            yield clip[:, : self.cfg.past], clip[:, self.cfg.past:]
