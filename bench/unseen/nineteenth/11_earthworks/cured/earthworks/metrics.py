import torch

from .loop import Callback


class Metric:
    name = "metric"

    def reset(self):
        raise NotImplementedError

    def update(self, output, target):
        raise NotImplementedError

    def compute(self):
        raise NotImplementedError


class MeanIoU(Metric):
    name = "miou"

    def __init__(self, classes):
        self.classes = classes
        self.reset()

    def reset(self):
        self.confusion = torch.zeros(self.classes, self.classes, dtype=torch.long)

    def update(self, output, target):
        code = target["feature"] * self.classes + output["feature"].argmax(1)
        self.confusion += torch.bincount(code.flatten(), minlength=self.classes**2).view_as(self.confusion)

    def compute(self):
        hit = self.confusion.diagonal()
        union = self.confusion.sum(0) + self.confusion.sum(1) - hit
        return (hit / union.clamp_min(1)).mean().item()


class LineAveragePrecision(Metric):
    """Area under the precision-recall curve of the bank lines, over all cells seen."""

    name = "line_ap"

    def __init__(self):
        self.reset()

    def reset(self):
        self.scores, self.truth = [], []

    def update(self, output, target):
        self.scores.append(output["line"].flatten())
        self.truth.append(target["line"].flatten())

    def compute(self):
        order = torch.cat(self.scores).argsort(descending=True)
        truth = torch.cat(self.truth)[order]
        hits = truth.cumsum(0)
        precision = hits / torch.arange(1, len(hits) + 1)
        return ((precision * truth).sum() / truth.sum().clamp_min(1)).item()


class PeriodAccuracy(Metric):
    name = "period_acc"

    def __init__(self):
        self.reset()

    def reset(self):
        self.right = self.seen = 0

    def update(self, output, target):
        dated = target["period"] > 0
        self.right += (output["period"].argmax(1) == target["period"])[dated].sum()
        self.seen += dated.sum()

    def compute(self):
        return float(self.right) / max(1, int(self.seen))


class MetricSuite:
    def __init__(self, metrics):
        self.metrics = metrics

    def reset(self):
        for metric in self.metrics:
            metric.reset()

    def update(self, output, target):
        for metric in self.metrics:
            metric.update(output, target)

    def compute(self):
        return {metric.name: metric.compute() for metric in self.metrics}


def build_suite(classes, periods):
    return MetricSuite([MeanIoU(classes), LineAveragePrecision(), PeriodAccuracy()])


class EpochReport(Callback):
    """Keeps the scores of the running epoch in ``loop.scores`` and prints them at its end."""

    def __init__(self, suite):
        self.suite = suite

    def phase_start(self, loop, phase):
        self.suite.reset()

    def batch_end(self, loop, phase, output, target):
        self.suite.update(output, target)

    def phase_end(self, loop, phase):
        loop.scores = self.suite.compute()
        text = "  ".join(f"{name} {value:.4f}" for name, value in loop.scores.items())
        print(f"epoch {loop.epoch} {phase:5s}  loss {loop.mean_loss:.4f}  {text}", flush=True)
