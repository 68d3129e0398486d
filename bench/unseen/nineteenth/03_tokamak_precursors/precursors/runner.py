from __future__ import annotations

import torch
from torch.utils.data import DataLoader

from .campaign import simulate_campaign
from .losses import WeightedSum
from .registry import DATASETS, MODELS, OPTIMIZERS, SCHEDULES
from .hooks import EvalHook, HistoryHook, LogHook


class Runner:
    def __init__(self, config: dict):
        self.config = config
        torch.manual_seed(config["seed"])
        run, data, optim = config["run"], dict(config["data"]), dict(config["optim"])
        shots = simulate_campaign(**config["campaign"])
        holdout, batch_size = data.pop("holdout_shots"), data.pop("batch_size")
        train_set = DATASETS.build(data, shots=shots[holdout:], seed=config["seed"])
        eval_set = DATASETS.build(data, shots=shots[:holdout], seed=config["seed"] + 1)
        self.loader = DataLoader(train_set, batch_size, shuffle=True, drop_last=True)
        self.eval_loader = DataLoader(eval_set, 2 * batch_size, shuffle=True)
        self.model = MODELS.build(
            config["model"], n_channels=config["campaign"]["n_channels"], n_horizons=len(data["horizons"])
        )
        self.criterion = WeightedSum(config["losses"])
        self.clip = optim.pop("clip")
        self.optimizer = OPTIMIZERS.build(optim, params=self.model.parameters())
        self.schedule = SCHEDULES.build(config["schedule"], optimizer=self.optimizer, total=run["max_steps"])
        self.hooks = [
            LogHook(run["log_every"]),
            EvalHook(run["eval_every"], run["eval_batches"]),
            HistoryHook(config["output_dir"]),
        ]
        self.max_steps = run["max_steps"]
        self.history: list[dict] = []
        self.step = 0

    def record(self, **entry) -> None:
        self.history.append(entry)
        print("eval", "  ".join(f"{k} {v:.4g}" for k, v in entry.items()), flush=True)

    def _batches(self):
        while True:
            yield from self.loader

    def train_step(self, batch: dict[str, torch.Tensor]) -> None:
        out = self.model(batch)
        self.loss, self.parts = self.criterion(out, batch)
        self.optimizer.zero_grad(set_to_none=True)
        self.loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1

    def run(self) -> None:
        self.model.train()
        for hook in self.hooks:
            hook.before_run(self)
        for batch in self._batches():
            self.train_step(batch)
            for hook in self.hooks:
                hook.after_step(self)
            if self.step >= self.max_steps:
                break
        for hook in self.hooks:
            hook.after_run(self)
