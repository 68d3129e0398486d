import math

import torch

from .encoder import Student, TraceEncoder
from .experiment import Experiment
from .probe import RidgeProbe
from .teacher import MomentumTeacher
from .traces import ChromatogramSet, make_loader
from .views import SpanMasker


def param_groups(model, weight_decay):
    decayed = [p for p in model.parameters() if p.ndim == 2]
    plain = [p for p in model.parameters() if p.ndim != 2]
    return [{"params": decayed, "weight_decay": weight_decay},
            {"params": plain, "weight_decay": 0.0}]


def build_experiment(cfg):
    data = ChromatogramSet(**vars(cfg.data), seed=cfg.seed)
    views = SpanMasker(**vars(cfg.views))
    m = cfg.model
    encoder = TraceEncoder(cfg.views.patch, cfg.data.length // cfg.views.patch,
                           m.dim, m.depth, m.heads, m.mlp_ratio)
    student = Student(encoder, m.dim, m.head_hidden)

    total = cfg.train.epochs * cfg.train.steps_per_epoch
    teacher = MomentumTeacher(encoder, **vars(cfg.teacher), total_steps=total)
    optimizer = torch.optim.AdamW(param_groups(student, cfg.train.weight_decay),
                                  lr=cfg.train.lr, betas=(0.9, 0.98), fused=True)

    def schedule(step):
        if step < cfg.train.warmup:
            return (step + 1) / cfg.train.warmup
        done = (step - cfg.train.warmup) / max(1, total - cfg.train.warmup)
        return 0.5 * (1.0 + math.cos(math.pi * done))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    return Experiment(
        student=student, teacher=teacher, views=views,
        loader=make_loader(data, cfg.loader.batch_size, cfg.seed),
        optimizer=optimizer, scheduler=scheduler,
        probe=RidgeProbe(data, views, **vars(cfg.probe)), settings=cfg.train)
