from torch import nn
from torch.nn import functional as F

from .forward import apparent


class InversionLoss(nn.Module):
    """Data misfit through the solver, section misfit, and anisotropic roughness."""

    def __init__(self, survey, settings):
        super().__init__()
        self.survey = survey
        self.settings = settings

    def forward(self, section, data, target):
        predicted = apparent(self.survey(section), self.survey.grid.reference)
        misfit = F.huber_loss(predicted.float(), data, delta=0.5)
        match = F.l1_loss(section, target)
        rough = section.diff(dim=2).abs().mean() + 0.4 * section.diff(dim=1).abs().mean()
        weights = self.settings
        total = weights.data_weight * misfit + weights.section_weight * match + weights.roughness_weight * rough
        return total, {"misfit": misfit.detach(), "section": match.detach(), "rough": rough.detach()}
