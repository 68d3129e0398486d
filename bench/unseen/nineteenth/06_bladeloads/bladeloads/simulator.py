"""Stand-in for the aeroelastic code: Kaimal turbulence plus rotor harmonics."""
import numpy as np
import torch


def kaimal(freq, speed, length=340.0):
    ratio = length / speed
    return 4.0 * ratio / (1.0 + 6.0 * freq * ratio) ** (5.0 / 3.0)


def simulate(settings, seed):
    rng = np.random.default_rng(seed)
    n, t_len = settings.cases, settings.samples
    speed = rng.uniform(5.0, 24.0, (n, 1))
    intensity = np.clip(rng.normal(0.14, 0.04, (n, 1)), 0.05, 0.3)

    freq = np.fft.rfftfreq(t_len, 1.0 / settings.rate)
    amplitude = np.sqrt(kaimal(freq[None, :], speed))
    amplitude[:, 0] = 0.0
    phase = rng.uniform(0.0, 2.0 * np.pi, (n, len(freq)))
    gust = np.fft.irfft(amplitude * np.exp(1j * phase), t_len, axis=1)
    gust *= intensity * speed / gust.std(axis=1, keepdims=True)

    t = np.arange(t_len) / settings.rate
    azimuth = 2.0 * np.pi * (settings.rotor_hz * t + rng.random((n, 1)))
    thrust = np.where(speed < 11.5, speed ** 2 / 132.0, 11.5 / speed)
    moment = thrust * (1.0 + 0.09 * gust)
    moment += 0.08 * np.cos(azimuth) + 0.03 * np.cos(2.0 * azimuth + 0.7)
    moment += 0.015 * intensity * speed * np.cos(3.0 * azimuth) * (1.0 + gust / speed)
    moment += 0.01 * rng.standard_normal((n, t_len))
    moment = (moment - moment.mean()) / moment.std()

    condition = np.hstack([(speed - 14.5) / 5.5, (intensity - 0.14) / 0.04])
    return (torch.from_numpy(moment.astype(np.float32)).unsqueeze(1),
            torch.from_numpy(condition.astype(np.float32)))


class LoadCases:
    """In-memory load cases with endless random minibatches."""

    def __init__(self, settings, seed):
        self.moments, self.conditions = simulate(settings, seed)
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self, batch):
        index = torch.randint(len(self.moments), (batch,), generator=self.generator)
        return self.moments[index], self.conditions[index]
