import torch
from torch import nn
from torch.nn import functional as F


def to_network_scale(batch):
    """Targets at the half resolution that the dense heads predict."""
    return {
        "feature": batch["feature"][:, ::2, ::2],
        "line": F.max_pool2d(batch["line"].unsqueeze(1), 2).squeeze(1),
        "period": batch["period"],
    }


def soft_dice(logits, target):
    probability = logits.softmax(1)[:, 1:]
    wanted = F.one_hot(target, logits.shape[1]).movedim(-1, 1)[:, 1:].to(probability.dtype)
    overlap = (probability * wanted).sum((0, 2, 3))
    return 1 - ((2 * overlap + 1) / (probability.sum((0, 2, 3)) + wanted.sum((0, 2, 3)) + 1)).mean()


class MultiTaskLoss(nn.Module):
    def __init__(self, dice, line, period):
        super().__init__()
        self.dice = dice
        self.weights = {"feature": 1.0, "line": line, "period": period}

    def forward(self, output, target):
        parts = {
            "feature": F.cross_entropy(output["feature"], target["feature"])
            + self.dice * soft_dice(output["feature"], target["feature"]),
            "line": F.binary_cross_entropy_with_logits(output["line"], target["line"], pos_weight=torch.tensor(3.0)),
            "period": F.cross_entropy(output["period"], target["period"]),
        }
        total = sum(self.weights[name] * value for name, value in parts.items())
        return total, {name: value.detach() for name, value in parts.items()}
