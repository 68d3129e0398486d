"""Adversarial training with two optimizers and an averaged generator."""
import copy
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict

import torch

from .farm import FarmConfig, Portfolio, endless
from .nets import Critic, Generator
from .scoring import coverage, energy_score

log = logging.getLogger("windgen")


@dataclass
class AdversarialConfig:
    seed: int = 41
    steps: int = 150              # generator updates
    critic_steps: int = 2
    batch_size: int = 96
    lr_generator: float = 2e-4
    lr_critic: float = 4e-4
    penalty: float = 10.0
    anchor: float = 0.3           # pull of the ensemble mean to the observation
    ema: float = 0.99
    score_every: int = 40
    score_days: int = 160
    members: int = 12
    patience: int = 6


class AdversarialTrainer:
    def __init__(self, cfg: AdversarialConfig, farm: FarmConfig, train: Portfolio, holdout: Portfolio, directory: Path):
        torch.manual_seed(cfg.seed)
        self.cfg, self.farm, self.directory = cfg, farm, directory
        self.rng = torch.Generator().manual_seed(cfg.seed)
        self.batches = endless(train, cfg.batch_size, self.rng)
        self.holdout = Portfolio(*(x[: cfg.score_days] for x in holdout))
        self.generator, self.critic = Generator(farm.sites), Critic(farm.sites)
        self.averaged = copy.deepcopy(self.generator).requires_grad_(False).eval()
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=cfg.lr_generator, betas=(0.0, 0.9))
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=cfg.lr_critic, betas=(0.0, 0.9))
        self.best, self.stale = float("inf"), 0

    def noise(self, n: int) -> torch.Tensor:
        return self.generator.sample_noise(n, self.farm.horizon, self.rng)

    def critic_step(self) -> Dict[str, torch.Tensor]:
        cfg, batch = self.cfg, next(self.batches)
        with torch.no_grad():
            fake = self.generator(batch.forecast, self.noise(len(batch.power)))
        both = self.critic(batch.forecast.repeat(2, 1, 1), torch.cat([batch.power, fake]))
        real_score, fake_score = both.chunk(2)

        mix = torch.rand(len(fake), 1, 1, generator=self.rng)
        between = torch.lerp(batch.power, fake, mix).requires_grad_()
        slope, = torch.autograd.grad(self.critic(batch.forecast, between).sum(), between, create_graph=True)
        penalty = (slope.flatten(1).norm(dim=1) - 1).square().mean()

        gap = fake_score.mean() - real_score.mean()
        self.opt_c.zero_grad(set_to_none=True)
        (gap + cfg.penalty * penalty).backward()
        self.opt_c.step()
        return {"gap": gap.detach(), "penalty": penalty.detach()}

    def generator_step(self) -> Dict[str, torch.Tensor]:
        cfg, batch = self.cfg, next(self.batches)
        n = len(batch.power)
        self.critic.requires_grad_(False)
        pair = self.generator(batch.forecast.repeat(2, 1, 1), self.noise(2 * n))
        adversarial = -self.critic(batch.forecast.repeat(2, 1, 1), pair).mean()
        anchor = (pair.view(2, n, *pair.shape[1:]).mean(dim=0) - batch.power).square().mean()
        self.opt_g.zero_grad(set_to_none=True)
        (adversarial + cfg.anchor * anchor).backward()
        self.opt_g.step()
        self.critic.requires_grad_(True)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averaged.parameters()), list(self.generator.parameters()), 1 - cfg.ema)
        return {"adversarial": adversarial.detach(), "anchor": anchor.detach()}

    @torch.inference_mode()
    def score(self) -> Dict[str, float]:
        cfg, hold = self.cfg, self.holdout
        g = torch.Generator().manual_seed(cfg.seed)      # the same noise at every visit
        n = len(hold.power)
        members = [
            self.averaged(hold.forecast, self.averaged.sample_noise(n, self.farm.horizon, g))
            for _ in range(cfg.members)
        ]
        ensemble, truth = torch.stack(members).flatten(2), hold.power.flatten(1)
        return {"energy": float(energy_score(ensemble, truth)), "cover80": float(coverage(ensemble, truth))}

    def checkpoint(self, step: int, result: Dict[str, float]):
        torch.save({"generator": self.averaged.state_dict(), "step": step, **result}, self.directory / "best.pt")

    def fit(self):
        began = time.perf_counter()
        for step in range(1, self.cfg.steps + 1):
            for _ in range(self.cfg.critic_steps):
                terms = self.critic_step()
            terms.update(self.generator_step())
            if step % self.cfg.score_every:
                continue
            result = self.score()
            shown = {**{k: float(v) for k, v in terms.items()}, **result}
            log.info("step %4d %s (%.1fs)", step, " ".join(f"{k} {v:.3f}" for k, v in shown.items()),
                     time.perf_counter() - began)
            if result["energy"] < self.best:
                self.best, self.stale = result["energy"], 0
                self.checkpoint(step, result)
            else:
                self.stale += 1
                if self.stale > self.cfg.patience:
                    log.info("energy score does not improve, stopping")
                    break
        return self.best
