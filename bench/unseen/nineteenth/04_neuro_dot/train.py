import torch

from callbacks import ProgressPrinter, Snapshot, Validation
from optics import extinction, sensitivity, tikhonov_inverse
from options import Options
from phantoms import make_loaders
from process_group import process_group
from trainer import Trainer
from unrolled import UnrolledReconstruction


def main() -> None:
    options = Options.from_command_line()
    with process_group("gloo") as rank:
        torch.manual_seed(options.seed)
        jacobian = sensitivity(options.grid, options.layers, options.optodes)
        train_loader, valid_loader = make_loaders(jacobian, options, rank.index, rank.world)
        network = UnrolledReconstruction(
            jacobian,
            tikhonov_inverse(jacobian),
            extinction(),
            shape=(options.layers, options.grid, options.grid),
            iterations=options.iterations,
            channels=options.channels,
        )
        trainer = Trainer(
            network,
            train_loader,
            options,
            rank,
            callbacks=[
                ProgressPrinter(options.log_every),
                Validation(valid_loader, options.valid_every),
                Snapshot(options.snapshot),
            ],
        )
        trainer.fit()


if __name__ == "__main__":
    main()
