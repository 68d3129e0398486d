import torch


class GearboxBank:
    """Accelerometer windows of a synthetic gearbox, four fault types."""

    def __init__(self, n, length, seed):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(length) / 12000.0
        fault = torch.randint(0, 4, (n,), generator=g)
        speed = 18 + 12 * torch.rand(n, 1, generator=g)
        phase = 6.28 * torch.rand(n, 4, generator=g)
        x = torch.zeros(n, length)
        for k, ratio in enumerate((1.0, 23.0, 46.0, 69.0)):
            x += torch.sin(6.2832 * speed * ratio * t + phase[:, k: k + 1]) / (k + 1)
        rate = torch.tensor([0.0, 3.6, 5.4, 8.2])[fault].unsqueeze(1)
        bursts = torch.cos(6.2832 * speed * rate * t).clamp_min(0).pow(24)
        x += (rate > 0) * bursts * torch.sin(6.2832 * 2900.0 * t)
        x += 0.3 * torch.randn(n, length, generator=g)
        self.x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
        self.y = fault

    def epochs(self, batch, seed):
        g = torch.Generator().manual_seed(seed)
        while True:
            for idx in torch.randperm(len(self.x), generator=g).split(batch):
                if len(idx) == batch:
                    yield self.x[idx]


class TwoViews:
    def __init__(self, crop, seed):
        self.crop = crop
        self.g = torch.Generator().manual_seed(seed)

    def _view(self, x):
        b, n = x.shape
        start = torch.randint(0, n - self.crop + 1, (b, 1), generator=self.g)
        v = x.gather(1, start + torch.arange(self.crop))
        gain = 0.7 + 0.6 * torch.rand(b, 1, generator=self.g)
        return v * gain + 0.1 * torch.randn(v.shape, generator=self.g)

    def __call__(self, x):
        return torch.cat([self._view(x), self._view(x)])
