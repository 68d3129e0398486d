"""Proper scores for ensembles."""
import torch


def energy_score(ensemble: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Mean energy score; ensemble [M, N, D], truth [N, D]."""
    members = ensemble.transpose(0, 1)
    accuracy = torch.cdist(members, truth.unsqueeze(1)).mean(dim=(1, 2))
    m = members.shape[1]
    spread = torch.cdist(members, members).sum(dim=(1, 2)) / (m * (m - 1))
    return (accuracy - 0.5 * spread).mean()


def coverage(ensemble: torch.Tensor, truth: torch.Tensor, level: float = 0.8) -> torch.Tensor:
    low, high = torch.quantile(ensemble, torch.tensor([(1 - level) / 2, (1 + level) / 2]), dim=0)
    return ((truth >= low) & (truth <= high)).float().mean()
