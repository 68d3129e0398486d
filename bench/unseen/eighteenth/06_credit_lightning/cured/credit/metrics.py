"""Ranking quality of a score, overall and per segment, over everything seen in an epoch."""
from dataclasses import dataclass, field

import numpy as np


@dataclass
class RankingReport:
    auc: float
    gini: float
    ks: float
    worst_segment: int
    worst_auc: float
    segments: dict = field(default_factory=dict)

    def flat(self, prefix=""):
        return {
            f"{prefix}auc": self.auc,
            f"{prefix}gini": self.gini,
            f"{prefix}ks": self.ks,
            f"{prefix}worst_auc": self.worst_auc,
        }


def rank_curve(score, label):
    """AUC and Kolmogorov-Smirnov distance of one population."""
    order = np.argsort(-score, kind="stable")
    hit = label[order]
    tpr = np.cumsum(hit)
    fpr = np.cumsum(1.0 - hit)
    if tpr.size == 0 or tpr[-1] == 0 or fpr[-1] == 0:
        return float("nan"), float("nan")
    tpr, fpr = tpr / tpr[-1], fpr / fpr[-1]
    auc = float(np.sum(np.diff(fpr, prepend=0.0) * tpr))
    return auc, float(np.max(np.abs(tpr - fpr)))


class EpochRanking:
    def __init__(self, n_segments):
        self.n_segments = n_segments
        self.reset()

    def reset(self):
        self._score, self._label, self._segment = [], [], []
        self._report = None

    def __len__(self):
        return sum(len(part) for part in self._score)

    def update(self, score, label, segment):
        self._score.append(np.asarray(score, dtype=np.float64))
        self._label.append(np.asarray(label, dtype=np.float64))
        self._segment.append(np.asarray(segment))
        self._report = None

    def _summarise(self):
        score = np.concatenate(self._score)
        label = np.concatenate(self._label)
        segment = np.concatenate(self._segment)
        auc, ks = rank_curve(score, label)
        per = {}
        for s in range(self.n_segments):
            inside = segment == s
            per[s] = rank_curve(score[inside], label[inside])[0]
        worst = min(per, key=lambda s: np.inf if np.isnan(per[s]) else per[s])
        return RankingReport(auc, 2 * auc - 1, ks, worst, per[worst], per)

    @property
    def report(self):
        if self._report is None:
            self._report = self._summarise()
        return self._report
