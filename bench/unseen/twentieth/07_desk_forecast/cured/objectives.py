import math

import torch


def joint_nll(mean, cov, target):
    """Negative log likelihood of the whole cross-section, per name."""
    d = target.shape[-1]
    chol = torch.linalg.cholesky(cov)
    z = torch.linalg.solve_triangular(chol, (target - mean).T, upper=False)
    half_logdet = chol.diagonal().log().sum()
    return (0.5 * z.square().sum(0).mean() + half_logdet + 0.5 * d * math.log(2 * math.pi)) / d


def turnover_penalty(mean):
    w = mean - mean.mean(-1, keepdim=True)
    w = w / (w.abs().sum(-1, keepdim=True) + 1e-6)
    return w.square().sum(-1).mean()


def information_coefficient(mean, target):
    m = mean - mean.mean(-1, keepdim=True)
    t = target - target.mean(-1, keepdim=True)
    return ((m * t).sum(-1) / (m.norm(dim=-1) * t.norm(dim=-1) + 1e-9)).mean()
