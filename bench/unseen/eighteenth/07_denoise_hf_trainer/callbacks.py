import time

from transformers import TrainerCallback


class ProgressLines(TrainerCallback):
    """One line per log event in place of the progress bar."""

    def __init__(self):
        self.began = None
        self.tokens = 0

    def on_train_begin(self, args, state, control, **kwargs):
        self.began = time.perf_counter()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not logs or "loss" not in logs:
            return
        took = time.perf_counter() - self.began
        print(
            f"step {state.global_step:4d}/{state.max_steps}  loss {float(logs['loss']):.4f}  "
            f"lr {float(logs['learning_rate']):.2e}  {took:.1f}s",
            flush=True,
        )


class DivergenceGuard(TrainerCallback):
    """Stops when the logged loss has blown up."""

    def __init__(self, factor=3.0):
        self.factor, self.best = factor, float("inf")

    def on_log(self, args, state, control, logs=None, **kwargs):
        loss = float((logs or {}).get("loss", self.best))
        self.best = min(self.best, loss)
        if loss > self.factor * self.best:
            print("loss diverged, stopping")
            control.should_training_stop = True
