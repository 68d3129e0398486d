"""Rainflow counting (ASTM E1049) and damage equivalent loads."""
import numpy as np
import torch
from scipy.stats import wasserstein_distance


def reversals(series):
    slope = np.diff(series)
    turning = np.flatnonzero(slope[:-1] * slope[1:] < 0.0) + 1
    return series[np.concatenate(([0], turning, [len(series) - 1]))]


def rainflow(series):
    """Ranges and counts (0.5 or 1.0) of the load cycles of one series."""
    ranges, counts, stack = [], [], []
    for point in reversals(series).tolist():
        stack.append(point)
        while len(stack) >= 3:
            recent = abs(stack[-1] - stack[-2])
            earlier = abs(stack[-2] - stack[-3])
            if recent < earlier:
                break
            ranges.append(earlier)
            if len(stack) == 3:
                counts.append(0.5)
                stack.pop(0)
            else:
                counts.append(1.0)
                del stack[-3:-1]
    for a, b in zip(stack, stack[1:]):
        ranges.append(abs(b - a))
        counts.append(0.5)
    return np.asarray(ranges), np.asarray(counts)


def equivalent_loads(moments, wohler):
    """Damage equivalent load per series (rows) and Woehler exponent (columns)."""
    rows = []
    for series in moments:
        ranges, counts = rainflow(series)
        rows.append([(counts @ ranges ** m / len(series)) ** (1.0 / m) for m in wohler])
    return np.array(rows)


class FatigueMonitor:
    """Distance between the fatigue loads of simulated and generated cases."""

    def __init__(self, cases, settings):
        self.settings = settings
        self.reference = cases.moments[:settings.reference].squeeze(1).double().numpy()
        self.conditions = cases.conditions[:settings.drawn]

    @torch.inference_mode()
    def draw(self, generator):
        return generator.sample(self.conditions).squeeze(1).double().numpy()

    def __call__(self, generator):
        wohler = self.settings.wohler
        simulated = equivalent_loads(self.reference, wohler)
        generated = equivalent_loads(self.draw(generator), wohler)
        return {f"del_m{m:g}": wasserstein_distance(simulated[:, i], generated[:, i])
                for i, m in enumerate(wohler)}
