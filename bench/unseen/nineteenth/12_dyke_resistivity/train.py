"""Amortised inversion of electrical resistivity surveys over river dykes."""
import argparse
from dataclasses import fields

import torch

from ert.config import Settings
from ert.forward import ResistivitySurvey
from ert.grid import DykeGrid
from ert.losses import InversionLoss
from ert.net import SectionDecoder
from ert.surveys import simulate_surveys
from ert.trainer import InversionTrainer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for field in fields(Settings):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    settings = Settings(**vars(parser.parse_args()))

    torch.manual_seed(settings.seed)
    grid = DykeGrid(settings.depth_cells, settings.length_cells, settings.electrodes)
    train, test = simulate_surveys(settings, grid)
    print(f"{len(train)} surveys, {grid.cells} cells, {len(grid.injections)} injections x {len(grid.potentials)} dipoles")

    survey = ResistivitySurvey(grid)
    net = SectionDecoder(settings, grid)
    loss = InversionLoss(survey, settings)
    trainer = InversionTrainer(net, loss, settings)
    trainer.fit(train)
    trainer.report(test)


if __name__ == "__main__":
    main()
