"""Discrimination and calibration measures used by model validation."""
from abc import ABC, abstractmethod
from typing import Dict, List, Sequence

import torch


class Measure(ABC):
    name: str

    @abstractmethod
    def __call__(self, pd: torch.Tensor, default: torch.Tensor, product: torch.Tensor) -> Dict[str, float]:
        ...


def auroc(pd: torch.Tensor, default: torch.Tensor) -> float:
    """Mann-Whitney statistic with mid-ranks for ties."""
    _, inverse, counts = torch.unique(pd, return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    rank = (last - (counts.double() - 1) / 2)[inverse]
    bad = default.bool()
    n1, n0 = int(bad.sum()), int((~bad).sum())
    if not n1 or not n0:
        return float("nan")
    return float((rank[bad].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


class Gini(Measure):
    name = "gini"

    def __call__(self, pd, default, product):
        return {"gini": 2 * auroc(pd, default) - 1}


class ProductGini(Measure):
    """The weakest product decides on the approval of the model."""

    name = "gini_worst"

    def __call__(self, pd, default, product):
        values = []
        for code in product.unique():
            rows = product == code
            values.append(2 * auroc(pd[rows], default[rows]) - 1)
        return {"gini_worst": min(v for v in values)}


class KolmogorovSmirnov(Measure):
    name = "ks"

    def __call__(self, pd, default, product):
        bad = default[pd.argsort()]
        tpr = bad.cumsum(0) / bad.sum().clamp(min=1)
        fpr = (1 - bad).cumsum(0) / (1 - bad).sum().clamp(min=1)
        return {"ks": float((tpr - fpr).abs().max())}


class CalibrationError(Measure):
    name = "ece"

    def __init__(self, bins: int = 20):
        self.bins = bins

    def __call__(self, pd, default, product):
        edges = torch.quantile(pd.double(), torch.linspace(0, 1, self.bins + 1, dtype=torch.double)[1:-1])
        which = torch.bucketize(pd.double(), edges)
        count = torch.bincount(which, minlength=self.bins)
        gap = torch.bincount(which, weights=(pd - default).double(), minlength=self.bins).abs()
        return {"ece": float(gap.sum() / count.sum())}


class MeasureSet:
    """Collects scores; the measures are evaluated on what was collected since the last reset."""

    def __init__(self, measures: Sequence[Measure] = None):
        self.measures = list(measures or (Gini(), ProductGini(), KolmogorovSmirnov(), CalibrationError()))
        self.reset()

    def reset(self):
        self._pd: List[torch.Tensor] = []
        self._default: List[torch.Tensor] = []
        self._product: List[torch.Tensor] = []

    def update(self, logits: torch.Tensor, batch) -> None:
        self._pd.append(logits.detach().sigmoid())
        self._default.append(batch.default)
        self._product.append(batch.categorical[:, 0])

    def compute(self) -> Dict[str, float]:
        pd, default, product = map(torch.cat, (self._pd, self._default, self._product))
        out: Dict[str, float] = {}
        for measure in self.measures:
            out.update(measure(pd, default, product))
        return out
