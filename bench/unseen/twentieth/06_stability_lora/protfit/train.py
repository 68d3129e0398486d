import argparse
import tempfile

import torch

from .adapters import inject
from .backbone import StabilityModel
from .config import RunConfig
from .data import mutant_library
from .trainer import Trainer


def main():
    cfg = RunConfig()
    ap = argparse.ArgumentParser("protfit")
    for name in ("seed", "batch", "steps", "log_every"):
        ap.add_argument(f"--{name}", type=int, default=getattr(cfg, name))
    ap.add_argument("--lr", type=float, default=cfg.lr)
    ap.add_argument("--run_dir", default=cfg.run_dir)
    for k, v in vars(ap.parse_args()).items():
        setattr(cfg, k, v)

    torch.manual_seed(cfg.seed)
    model = StabilityModel(cfg.model)
    params = inject(model, cfg.adapter)
    print(f"trainable {sum(p.numel() for p in params) / 1e3:.0f}k of {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M")
    train_set = mutant_library(4096, cfg.model.max_len, cfg.seed)
    test_set = mutant_library(256, cfg.model.max_len, cfg.seed)
    run_dir = cfg.run_dir or tempfile.mkdtemp(prefix="protfit_")
    r = Trainer(model, params, train_set, test_set, cfg, run_dir).fit()
    print(f"pearson {r:.3f}")


if __name__ == "__main__":
    main()
