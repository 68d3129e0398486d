from __future__ import annotations

import argparse
from dataclasses import replace

import torch

from .dataset import assemble, make_loaders
from .engine import Fitter
from .model import PeakVAE
from .settings import Settings
from .simulate import simulate_atlas


def parse(argv=None) -> Settings:
    base = Settings()
    parser = argparse.ArgumentParser(prog="peakatlas", description=__doc__)
    parser.add_argument("--cells", type=int, default=base.atlas.n_cells)
    parser.add_argument("--epochs", type=int, default=base.fit.epochs)
    parser.add_argument("--max-steps", type=int, default=None)
    parser.add_argument("--batch-size", type=int, default=base.fit.batch_size)
    parser.add_argument("--latent", type=int, default=base.model.latent)
    parser.add_argument("--seed", type=int, default=base.fit.seed)
    args = parser.parse_args(argv)
    return Settings(
        atlas=replace(base.atlas, n_cells=args.cells),
        filters=base.filters,
        model=replace(base.model, latent=args.latent),
        fit=replace(
            base.fit, epochs=args.epochs, max_steps=args.max_steps, batch_size=args.batch_size, seed=args.seed
        ),
    )


def main(argv=None) -> int:
    cfg = parse(argv)
    torch.manual_seed(cfg.fit.seed)
    matrix = assemble(simulate_atlas(cfg.atlas), cfg.filters)
    print(f"{matrix.n_cells} cells x {matrix.n_peaks} peaks, {matrix.counts.nnz} open", flush=True)

    train, held = make_loaders(matrix, cfg.filters, cfg.fit.batch_size, cfg.fit.seed)
    steps_total = cfg.fit.max_steps or cfg.fit.epochs * len(train)
    model = PeakVAE(matrix.n_peaks, cfg.atlas.n_donors, torch.from_numpy(matrix.idf), cfg.model)
    fitter = Fitter(model, cfg.fit, steps_total)
    for epoch in range(1, cfg.fit.epochs + 1):
        fitter.run_epoch(train)
        scores = fitter.evaluate(held)
        print(f"epoch {epoch}: " + "  ".join(f"{k} {v:.4f}" for k, v in scores.items()), flush=True)
        if fitter.step >= steps_total:
            break
    return 0
