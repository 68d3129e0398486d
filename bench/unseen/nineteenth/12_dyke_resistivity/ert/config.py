from dataclasses import dataclass


@dataclass
class Settings:
    depth_cells: int = 16
    length_cells: int = 32
    electrodes: int = 13
    surveys: int = 320
    noise: float = 0.02

    width: int = 96
    levels: int = 3

    steps: int = 400
    batch_size: int = 5
    lr: float = 8e-4
    data_weight: float = 1.0
    section_weight: float = 0.5
    roughness_weight: float = 0.02

    print_every: int = 20
    seed: int = 3
