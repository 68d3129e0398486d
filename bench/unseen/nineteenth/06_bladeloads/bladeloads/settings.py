from dataclasses import dataclass, field, fields, is_dataclass


@dataclass(frozen=True)
class SimulatorSettings:
    cases: int = 8000
    samples: int = 512
    rate: float = 20.0
    rotor_hz: float = 0.22


@dataclass(frozen=True)
class NetworkSettings:
    latent: int = 48
    condition: int = 2
    stem: int = 32
    generator_channels: tuple = (96, 80, 64, 48)
    critic_channels: tuple = (32, 48, 64, 96)


@dataclass(frozen=True)
class OptimSettings:
    steps: int = 252
    critic_steps: int = 3
    batch: int = 24
    lr_generator: float = 2e-4
    lr_critic: float = 4e-4
    betas: tuple = (0.0, 0.9)
    average_decay: float = 0.995


@dataclass(frozen=True)
class MonitorSettings:
    every: int = 12
    reference: int = 8000
    drawn: int = 96
    wohler: tuple = (4.0, 10.0)


@dataclass(frozen=True)
class RunSettings:
    seed: int = 3
    log_every: int = 10
    simulator: SimulatorSettings = field(default_factory=SimulatorSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    monitor: MonitorSettings = field(default_factory=MonitorSettings)


def describe(settings, indent=0):
    for f in fields(settings):
        value = getattr(settings, f.name)
        if is_dataclass(value):
            print(" " * indent + f.name)
            describe(value, indent + 2)
        else:
            print(" " * indent + f"{f.name} = {value}")
