import torch


class StationRecords:
    """Weather histories with a measured snow water equivalent, held in memory."""

    def __init__(self, atlas, cfg, patch, seed):
        gen = torch.Generator().manual_seed(seed + 19)
        count, history = cfg["count"], cfg["history"]
        size = atlas.shape[-1]
        self.corner = torch.randint(0, size - patch, (count, 2), generator=gen)
        centre = self.corner + patch // 2
        height = atlas[0, centre[:, 0], centre[:, 1]]
        canopy = atlas[5, centre[:, 0], centre[:, 1]]

        base = torch.randn(count, history, cfg["variables"], generator=gen)
        weather = base.cumsum(1) / torch.arange(1, history + 1).sqrt()[None, :, None]
        weather[..., 0] -= 0.8 * height[:, None]
        self.weather = weather
        cold = torch.sigmoid(-2.0 * weather[..., 0])
        snowfall = (cold * weather[..., 1].clamp_min(0)).sum(1)
        melt = ((1 - cold) * weather[..., 2].abs()).sum(1) * torch.sigmoid(-canopy)
        self.swe = torch.log1p((snowfall - 0.4 * melt).clamp_min(0)) + 0.05 * torch.randn(count, generator=gen)

    def __len__(self):
        return len(self.swe)

    def take(self, index):
        return self.weather[index], self.corner[index], self.swe[index]


def endless_batches(records, batch, rank, world, seed):
    epoch = 0
    while True:
        order = torch.randperm(len(records), generator=torch.Generator().manual_seed(seed + epoch))
        mine = order[rank::world]
        for start in range(0, len(mine) - batch + 1, batch):
            yield records.take(mine[start:start + batch])
        epoch += 1
