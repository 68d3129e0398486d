from __future__ import annotations

import json
import time
from pathlib import Path

import torch
from sklearn.metrics import roc_auc_score


class Hook:
    def before_run(self, runner) -> None: ...

    def after_step(self, runner) -> None: ...

    def after_run(self, runner) -> None: ...


class LogHook(Hook):
    def __init__(self, every: int):
        self.every = every

    def before_run(self, runner) -> None:
        self.clock = time.perf_counter()

    def after_step(self, runner) -> None:
        if runner.step % self.every:
            return
        now = time.perf_counter()
        parts = "  ".join(f"{k} {v.item():.4f}" for k, v in runner.parts.items())
        rate = 1e3 * (now - self.clock) / self.every
        print(f"[{runner.step:4d}] loss {runner.loss.item():.4f}  {parts}  {rate:.0f} ms/step", flush=True)
        self.clock = now


class EvalHook(Hook):
    def __init__(self, every: int, batches: int):
        self.every, self.batches = every, batches

    def after_step(self, runner) -> None:
        if runner.step % self.every == 0:
            runner.record(step=runner.step, **self.evaluate(runner))

    @torch.inference_mode()
    def evaluate(self, runner) -> dict[str, float]:
        runner.model.eval()
        scores, labels, losses = [], [], []
        for number, batch in enumerate(runner.eval_loader):
            if number == self.batches:
                break
            out = runner.model(batch)
            losses.append(runner.criterion(out, batch)[0].item())
            scores.append(out["alarm"])
            labels.append(batch["precursor"])
        runner.model.train()
        auc = roc_auc_score(torch.cat(labels).numpy(), torch.cat(scores).numpy())
        return {"eval_loss": sum(losses) / len(losses), "alarm_auc": float(auc)}


class HistoryHook(Hook):
    def __init__(self, output_dir: str):
        self.path = Path(output_dir)

    def after_run(self, runner) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "history.json").write_text(json.dumps(runner.history, indent=2))
        torch.save(runner.model.state_dict(), self.path / "final.pt")
