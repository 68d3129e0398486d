import gc
import os
from pathlib import Path

import torch
import torch.distributed as dist


class ProcessGroupMixin:
    """Rank bookkeeping; falls back to a single process when not launched by torchrun."""

    def init_process_group(self):
        self.world_size = int(os.environ.get("WORLD_SIZE", 1))
        self.rank = int(os.environ.get("RANK", 0))
        if self.world_size > 1:
            dist.init_process_group("gloo")

    @property
    def is_main(self):
        return self.rank == 0

    def mean_over_ranks(self, value):
        value = torch.as_tensor(value, dtype=torch.float64).clone()
        if self.world_size > 1:
            dist.all_reduce(value)
        return (value / self.world_size).tolist()

    def close(self):
        if self.world_size > 1:
            self.model = self.bare_model
            gc.collect()
            dist.barrier()
            dist.destroy_process_group()


class HookMixin:
    def init_hooks(self):
        self._hooks = []

    def register(self, *hooks):
        self._hooks.extend(hooks)

    def emit(self, event, **payload):
        for hook in self._hooks:
            handler = getattr(hook, event, None)
            if handler is not None:
                handler(self, **payload)


class CheckpointMixin:
    def save(self, path):
        if not self.is_main:
            return
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {"model": self.bare_model.state_dict(), "step": self.step}
        torch.save(state, path)
        print(f"saved {path}")


class ReportMixin:
    def print(self, *args):
        if self.is_main:
            print(*args, flush=True)
