import torch
from torch import nn
from torch.nn import functional as F


class ReleveLoss(nn.Module):
    """Bernoulli likelihood, rare species weighted up, with a penalty on total richness."""

    def __init__(self, species, prevalence, richness_weight=0.01):
        super().__init__()
        weight = (1.0 / prevalence.clamp_min(0.02)).sqrt()
        self.weight = weight * species / weight.sum()
        self.richness_weight = richness_weight

    def forward(self, logits, present):
        likelihood = F.binary_cross_entropy_with_logits(logits, present, weight=self.weight)
        richness = torch.sigmoid(logits).sum(1)
        penalty = F.smooth_l1_loss(richness, present.sum(1))
        return likelihood + self.richness_weight * penalty
