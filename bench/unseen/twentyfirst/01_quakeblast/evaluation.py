"""Scores reported in the paper, with percentile intervals."""
import numpy as np
from sklearn.metrics import average_precision_score, brier_score_loss, matthews_corrcoef, roc_auc_score


def mcc_at_half(y, p):
    return matthews_corrcoef(y, p >= 0.5)


METRICS = {
    "auc": roc_auc_score,
    "ap": average_precision_score,
    "brier": brier_score_loss,
    "mcc": mcc_at_half,
}


def point_scores(y, p):
    return {name: float(fn(y, p)) for name, fn in METRICS.items()}


def bootstrap_intervals(y, p, n_boot, level, seed=0):
    rng = np.random.default_rng(seed)
    draws = {name: [] for name in METRICS}
    for _ in range(n_boot):
        idx = rng.integers(0, len(y), len(y))
        if y[idx].min() == y[idx].max():
            continue
        for name, value in point_scores(y[idx], p[idx]).items():
            draws[name].append(value)
    tail = 50.0 * (1.0 - level)
    return {name: tuple(np.percentile(v, [tail, 100.0 - tail]).tolist()) for name, v in draws.items()}


def score_report(y, p, n_boot=0, level=0.95):
    report = {"scores": point_scores(y, p)}
    if n_boot > 0:
        report["intervals"] = bootstrap_intervals(y, p, n_boot, level)
    return report


def format_report(report):
    parts = []
    for name, value in report["scores"].items():
        text = f"{name} {value:.3f}"
        if "intervals" in report:
            lo, hi = report["intervals"][name]
            text += f" [{lo:.3f}, {hi:.3f}]"
        parts.append(text)
    return "  ".join(parts)
