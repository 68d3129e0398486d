import time

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class PinballLoss(nn.Module):
    def __init__(self, quantiles):
        super().__init__()
        self.register_buffer("levels", torch.tensor(quantiles))

    def forward(self, forecast, future):
        error = future.unsqueeze(-1) - forecast
        return torch.maximum(self.levels * error, (self.levels - 1) * error).mean()


class Trainer:
    def __init__(self, model, quantiles, config, out):
        self.model, self.config, self.out = model, config, out
        self.loss = PinballLoss(quantiles)
        self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config["ema"]))
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=config["lr"], weight_decay=config["weight_decay"], fused=True
        )
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, config["lr"], total_steps=config["steps"])
        self.best = float("inf")

    def fit(self, train, val):
        self.model.train()
        every = self.config["print_every"]
        running, since = torch.zeros(()), time.perf_counter()
        for step, (past, future) in enumerate(train.batches(self.config["steps"]), 1):
            loss = self.loss(self.model(past), future)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.average.update_parameters(self.model)
            running += loss.detach()
            if step % every == 0:
                now = time.perf_counter()
                print(f"step {step:4d}  pinball {running.item() / every:.4f}  {(now - since) / every * 1e3:.0f} ms/step", flush=True)
                running.zero_()
                since = now
            if step % self.config["eval_every"] == 0:
                self.evaluate(step, val)

    @torch.inference_mode()
    def evaluate(self, step, val):
        self.average.eval()
        losses, inside = [], []
        for past, future in val.batches(self.config["eval_batches"]):
            forecast = self.average(past)
            losses.append(self.loss(forecast, future))
            inside.append(((future > forecast[..., 0]) & (future < forecast[..., -1])).float().mean())
        score = torch.stack(losses).mean().item()
        print(f"step {step:4d}  validation pinball {score:.4f}  coverage {torch.stack(inside).mean().item():.3f}", flush=True)
        if score < self.best:
            self.best = score
            self.out.mkdir(parents=True, exist_ok=True)
            torch.save(self.average.module.state_dict(), self.out / "best.pt")
