import torch


def charbonnier(pred, target, eps=1e-3):
    return torch.sqrt((pred - target) ** 2 + eps ** 2).mean((0, 2, 3, 4))


def smoothness(flow):
    dx = (flow[..., 1:] - flow[..., :-1]).abs().mean()
    dy = (flow[..., 1:, :] - flow[..., :-1, :]).abs().mean()
    return dx + dy


class NowcastObjective:
    def __init__(self, leads, smooth=0.02, discount=0.9):
        w = discount ** torch.arange(leads)
        self.weights, self.smooth = w / w.sum(), smooth

    def __call__(self, pred, flow, target):
        data = (charbonnier(pred, target) * self.weights).sum()
        return data + self.smooth * smoothness(flow), data
