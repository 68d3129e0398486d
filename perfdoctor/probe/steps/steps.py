"""Step boundaries and phases, from the calls every training loop makes: modules, backward, optimizers."""

from __future__ import annotations

from typing import Any

from .. import patch
from ..fetch_turns import FetchTurns
from ..loader.dataset_sizes import DatasetSizes
from ..moments import Moments
from ..on_import import on_import
from ..schedule import SamplingSchedule
from ..session import Session
from ..wrapping import nothing
from .backwards import Backwards
from .eval_passes import EvalPasses
from .forward_names import ForwardNames
from .gradient_clearing import GradientClearing
from .losses import LossReader
from .modules import ModuleCallPhases
from .samples import SampleCount
from .thread import TrainingThread
from .updates import Updates


class StepTracker:
    """What sees the steps of one process, part by part."""

    def __init__(self, session: Session, torch: Any) -> None:
        self.session = session
        self.torch = torch
        self.moments = Moments()
        self.schedule = SamplingSchedule()
        self.fetches = FetchTurns()
        self.sizes = DatasetSizes()
        self.samples = SampleCount()
        self.thread = TrainingThread(session, self.moments)
        self.evals = EvalPasses(session)
        self.clearing = GradientClearing(session, torch)
        self.losses = LossReader(self.moments, torch)
        self.updates = Updates(self.thread, self.clearing, torch)
        self.modules = ModuleCallPhases(self.thread, self.samples, self.evals, self.updates, torch)
        names = ForwardNames(session, torch.Tensor, self.modules.any_trained)
        self.backwards = Backwards(
            self.thread,
            self.samples,
            self.updates,
            self.losses,
            self.clearing,
            self.schedule,
            names,
            self.modules,
        )
        self.moments.second.append(self.evals.pulse)


def install(steps: StepTracker) -> None:
    """Put the hooks into torch."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    torch, modules, backwards, updates = steps.torch, steps.modules, steps.backwards, steps.updates
    begins, ends = updates.hooks()
    register_optimizer_step_pre_hook(begins)
    register_optimizer_step_post_hook(ends)
    patch.replace(torch.nn.Module, "__call__", modules.wrapped)
    # By the name that it says: so `pickle` looks for it.
    patch.replace(torch.nn.Module, "_wrapped_call_impl", lambda _: torch.nn.Module.__call__)
    patch.replace(torch.autograd, "backward", backwards.wrapped)
    patch.replace(torch.autograd, "grad", backwards.wrapped_grad)
    patch.guarded("torchscript", _tell_torchscript)(torch)
    scaler = torch.amp.grad_scaler.GradScaler
    patch.wrap(scaler, "step", updates.before_scaled_step, updates.after_scaled_step, "optimizer")
    patch.wrap(scaler, "scale", steps.losses.before_scale, nothing, "scale")

    def shards(module: Any) -> None:  # FSDP's scaler has a `scale` of its own, and inherits the rest
        patch.wrap(module.ShardedGradScaler, "scale", steps.losses.before_scale, nothing, "scale")

    on_import("torch.distributed.fsdp.sharded_grad_scaler", patch.guarded("scale", shards))


def _tell_torchscript(torch: Any) -> None:
    """TorchScript knows by their identity the functions that it compiles to operators of its own."""
    for name in ("grad", "backward"):
        torch.jit._builtins._register_builtin(getattr(torch.autograd, name), f"aten::{name}")
