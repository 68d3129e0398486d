"""Forecast verification: contingency scores and the fractions skill score (Roberts & Lean 2008)."""
import numpy as np

from engine import Hook

THRESHOLDS = (0.35, 0.5, 0.65, 0.8)
WINDOWS = (1, 3, 5, 9, 17, 33)


def box_fraction(mask, window):
    if window == 1:
        return mask.astype(np.float64)
    pad = window // 2
    table = np.pad(mask.astype(np.float64), ((pad + 1, pad), (pad + 1, pad))).cumsum(0).cumsum(1)
    total = table[window:, window:] - table[:-window, window:] - table[window:, :-window] + table[:-window, :-window]
    return total / (window * window)


def fractions_skill(pred, obs, window):
    fp, fo = box_fraction(pred, window), box_fraction(obs, window)
    ref = (fp ** 2).mean() + (fo ** 2).mean()
    return 1.0 - ((fp - fo) ** 2).mean() / ref if ref > 0 else np.nan


def critical_success(pred, obs):
    union = (pred | obs).sum()
    return (pred & obs).sum() / union if union else np.nan


class SkillTable:
    def __init__(self, thresholds=THRESHOLDS, windows=WINDOWS):
        self.thresholds, self.windows = thresholds, windows

    def score(self, forecast, observed):
        forecast, observed = forecast.numpy()[:, :, 0], observed.numpy()[:, :, 0]
        n, leads = forecast.shape[:2]
        fss = np.full((n, leads, len(self.thresholds), len(self.windows)), np.nan)
        csi = np.full((n, leads, len(self.thresholds)), np.nan)
        for i in range(n):
            for t in range(leads):
                for a, level in enumerate(self.thresholds):
                    p, o = forecast[i, t] >= level, observed[i, t] >= level
                    csi[i, t, a] = critical_success(p, o)
                    for b, window in enumerate(self.windows):
                        fss[i, t, a, b] = fractions_skill(p, o, window)
        return {"csi": np.nanmean(csi, (0, 1)), "fss": np.nanmean(fss, (0, 1))}


class VerificationHook(Hook):
    def __init__(self, every):
        self.every, self.table, self.latest = every, SkillTable(), None

    def after_step(self, state):
        if state.step % self.every == 0:
            self.latest = self.table.score(state.forecast, state.observed)
            csi = " ".join(f"{v:.2f}" for v in self.latest["csi"])
            fss = " ".join(f"{v:.2f}" for v in self.latest["fss"].mean(0))
            print(f"  csi by threshold [{csi}]  fss by window [{fss}]", flush=True)
