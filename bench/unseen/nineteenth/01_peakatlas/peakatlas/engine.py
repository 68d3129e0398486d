from __future__ import annotations

import time

import torch

from .objective import WarmupELBO, kl_standard_normal, reconstruction
from .settings import FitSettings


class Fitter:
    def __init__(self, model: torch.nn.Module, cfg: FitSettings, steps_total: int):
        self.model = model
        self.cfg = cfg
        self.objective = WarmupELBO(cfg.kl_warmup_steps)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay, fused=True)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, cfg.lr, total_steps=steps_total)
        self.steps_total = steps_total
        self.step = 0

    def _update(self, x, donor):
        logits, mean, logvar = self.model(x, donor)
        loss, rec, kl = self.objective(logits, mean, logvar, x, self.step)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        return loss, rec, kl

    def run_epoch(self, loader) -> None:
        self.model.train()
        started = time.perf_counter()
        first = self.step
        for x, donor, _ in loader:
            loss, rec, kl = self._update(x, donor)
            if self.step % self.cfg.log_every == 0:
                print(f"step {self.step:4d}  loss {loss.item():9.3f}  rec {rec.item():9.3f}  kl {kl.item():7.3f}", flush=True)
            if self.step >= self.steps_total:
                break
        per_step = (time.perf_counter() - started) / max(1, self.step - first)
        print(f"  {1e3 * per_step:.1f} ms/step", flush=True)

    @torch.inference_mode()
    def evaluate(self, loader) -> dict[str, float]:
        self.model.eval()
        total, cells, latent, labels = 0.0, 0, [], []
        for x, donor, program in loader:
            logits, mean, logvar = self.model(x, donor)
            elbo = reconstruction(logits, x) + kl_standard_normal(mean, logvar)
            total += elbo.item() * x.shape[0]
            cells += x.shape[0]
            latent.append(mean)
            labels.append(program)
        return {"heldout_elbo": total / cells, "program_purity": purity(torch.cat(latent), torch.cat(labels))}


def purity(latent: torch.Tensor, labels: torch.Tensor, k: int = 8) -> float:
    distance = torch.cdist(latent, latent)
    distance.fill_diagonal_(float("inf"))
    neighbours = distance.topk(k, largest=False).indices
    return (labels[neighbours] == labels[:, None]).float().mean().item()
