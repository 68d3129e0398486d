import tempfile
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader

from .models import DefectClassifier
from .shards import DefectDataset, write_shards
from .tracking import Tally
from .transforms import Compose, Normalize, RandomFlips


class Runner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.accelerator = Accelerator(cpu=True)
        set_seed(cfg.seed)
        self.scratch = tempfile.TemporaryDirectory(prefix="defects_")
        paths = write_shards(
            self.scratch.name, cfg.shards, cfg.images_per_shard, cfg.image_size, cfg.classes, cfg.seed
        )
        augment = Compose(RandomFlips(torch.Generator().manual_seed(cfg.seed)), Normalize())
        loader = DataLoader(
            DefectDataset(paths, augment), batch_size=cfg.batch_size, shuffle=True, drop_last=True,
            generator=torch.Generator().manual_seed(cfg.seed),
        )
        model = DefectClassifier(cfg.width, cfg.pool_heads, cfg.classes)
        optimizer = torch.optim.AdamW(model.tunable(), lr=cfg.lr, weight_decay=cfg.weight_decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=cfg.steps)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=cfg.label_smoothing)
        self.model, self.optimizer, self.loader, self.schedule = self.accelerator.prepare(
            model, optimizer, loader, schedule
        )

    def batches(self):
        done = 0
        while True:
            for batch in self.loader:
                yield batch
                done += 1
                if done == self.cfg.steps:
                    return

    def run(self):
        cfg, tally = self.cfg, Tally(self.cfg.classes)
        self.model.train()
        head = self.accelerator.unwrap_model(self.model).tunable()
        began = time.perf_counter()
        for step, (images, labels) in enumerate(self.batches(), start=1):
            logits = self.model(images)
            loss = self.criterion(logits, labels)
            self.accelerator.backward(loss)
            self.accelerator.clip_grad_norm_(head, cfg.clip)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
            tally.add(loss.detach(), logits.detach(), labels)
            if step % cfg.log_every == 0 or step == cfg.steps:
                stats = tally.flush()
                self.accelerator.print(
                    f"step {step:4d}  loss {stats['loss']:.4f}  acc {stats['accuracy']:.3f}  "
                    f"macro recall {stats['recall']:.3f}  {time.perf_counter() - began:.1f}s"
                )
        self.scratch.cleanup()
