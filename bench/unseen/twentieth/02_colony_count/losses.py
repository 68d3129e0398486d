from torch import nn

from net import to_quarter


class CountLoss(nn.Module):
    def __init__(self, count_weight):
        super().__init__()
        self.count_weight = count_weight

    def forward(self, density, target, count):
        pixel = (density - to_quarter(target)).square().sum((1, 2, 3)).mean()
        total = (density.sum((1, 2, 3)) - count).abs().mean()
        return pixel + self.count_weight * total
