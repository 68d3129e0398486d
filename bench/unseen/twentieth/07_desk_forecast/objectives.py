import torch
from torch.distributions import MultivariateNormal


def joint_nll(mean, cov, target):
    """Negative log likelihood of the whole cross-section, per name."""
    dist = MultivariateNormal(mean, covariance_matrix=cov)
    return -dist.log_prob(target).mean() / target.shape[-1]


def turnover_penalty(mean):
    w = mean - mean.mean(-1, keepdim=True)
    w = w / (w.abs().sum(-1, keepdim=True) + 1e-6)
    return w.square().sum(-1).mean()


def information_coefficient(mean, target):
    m = mean - mean.mean(-1, keepdim=True)
    t = target - target.mean(-1, keepdim=True)
    return ((m * t).sum(-1) / (m.norm(dim=-1) * t.norm(dim=-1) + 1e-9)).mean()
