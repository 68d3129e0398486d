"""Learns to step a global atmosphere (eight variables on a Gaussian grid of one degree) six hours ahead
with a neural operator that filters the fields in spherical harmonics."""

# expect: verdict=transfer finding=constants-copied-every-step

import common
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Reanalysis(torch.utils.data.Dataset):
    """Pairs of states: smooth waves that drift eastward with latitude-dependent speed."""

    def __init__(self, states, variables, lat, lon):
        rng = np.random.default_rng(0)
        self.waves = rng.integers(1, 8, (states, variables, 3))
        self.phases = rng.uniform(0, 2 * np.pi, (states, variables, 3)).astype(np.float32)
        self.lon = np.linspace(0, 2 * np.pi, lon, endpoint=False, dtype=np.float32)
        self.jet = np.cos(np.linspace(-np.pi / 2, np.pi / 2, lat, dtype=np.float32))
        self.states = [(self.state(one, 0.0), self.state(one, 0.2)) for one in range(states)]

    def state(self, index, time):
        angle = self.waves[index, :, :, None, None] * (self.lon - time * self.jet[:, None])
        field = np.sin(angle + self.phases[index, :, :, None, None]).sum(1) * self.jet[:, None]
        return torch.from_numpy(field.astype(np.float32))

    def __len__(self):
        return 100 * len(self.states)

    def __getitem__(self, index):
        return self.states[index % len(self.states)]


def associated_legendre(x, degrees):
    """Orthonormal functions as an array of (order, degree, latitude), by recursion over the degree."""
    p = np.zeros((degrees, degrees, len(x)))
    p[0, 0] = np.sqrt(1 / (4 * np.pi))
    for l in range(1, degrees):  # noqa: E741
        p[l, l] = -np.sqrt((2 * l + 1) / (2 * l)) * np.sqrt(1 - x**2) * p[l - 1, l - 1]
        p[l - 1, l] = np.sqrt(2 * l + 1) * x * p[l - 1, l - 1]
        m = np.arange(l - 1)[:, None]
        a = np.sqrt((4 * l**2 - 1) / (l**2 - m**2))
        b = np.sqrt((2 * l + 1) / max(2 * l - 3, 1) * ((l - 1) ** 2 - m**2) / (l**2 - m**2))
        p[: l - 1, l] = x * a * p[: l - 1, l - 1] - b * p[: l - 1, l - 2]
    return p


class Harmonics(nn.Module):
    """Fields to coefficients and back."""

    def __init__(self, lat, lon):
        super().__init__()
        self.lon, self.degrees = lon, min(lat, lon // 2)
        nodes, weights = np.polynomial.legendre.leggauss(lat)
        functions = associated_legendre(nodes, self.degrees)
        analysis = torch.from_numpy(2 * np.pi * weights * functions).float()
        synthesis = torch.from_numpy(functions).float()
        self.analysis = analysis  # <- finding
        # cured: self.register_buffer("analysis", analysis, persistent=False)
        self.synthesis = synthesis  # <- finding
        # cured: self.register_buffer("synthesis", synthesis, persistent=False)

    def forward(self, field):
        waves = torch.fft.rfft(field, dim=-1, norm="forward")[..., : self.degrees]
        basis = self.analysis.to(field.device)  # <- finding
        return torch.einsum("bckmr,mlk->bclmr", torch.view_as_real(waves), basis)

    def inverse(self, coefficients):
        basis = self.synthesis.to(coefficients.device)  # <- finding
        waves = torch.einsum("bclmr,mlk->bckmr", coefficients, basis).contiguous()
        return torch.fft.irfft(torch.view_as_complex(waves), n=self.lon, dim=-1, norm="forward")


class Pointwise(nn.Module):
    """The same linear map at each grid point."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs, 1))

    def forward(self, x):
        return (torch.matmul(self.weight, x.flatten(2)) + self.bias).unflatten(2, x.shape[2:])


class Block(nn.Module):
    def __init__(self, width, harmonics):
        super().__init__()
        self.harmonics = harmonics
        self.filter = nn.Parameter(torch.ones(width, harmonics.degrees, 1, 1))
        self.norm = nn.InstanceNorm2d(width, affine=True)
        self.mix = nn.Sequential(Pointwise(width, 2 * width), nn.GELU(), Pointwise(2 * width, width))

    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            filtered = self.harmonics.inverse(self.harmonics(x.float()) * self.filter)
        return x + self.mix(F.gelu(self.norm(filtered)))


def main():
    args = common.arguments()
    torch.set_float32_matmul_precision("high")
    batch, variables = 2, 8
    lat, lon = common.sized(args, (180, 360), (12, 24))
    width, depth = common.sized(args, (128, 8), (8, 2))
    workers = common.sized(args, 4, 0)
    loader = torch.utils.data.DataLoader(
        Reanalysis(common.sized(args, 12, 4), variables, lat, lon),
        batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=args.device == "cuda",
    )
    harmonics = Harmonics(lat, lon)
    model = nn.Sequential(
        Pointwise(variables, width),
        *(Block(width, harmonics) for _ in range(depth)),
        Pointwise(width, variables),
    ).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    area = torch.cos(torch.linspace(-np.pi / 2, np.pi / 2, lat, device=args.device))[:, None]
    batches, losses = common.endless(loader), []
    for _ in common.steps(args, losses, batch):
        now, later = (fields.to(args.device, non_blocking=True) for fields in next(batches))
        with torch.autocast(args.device, torch.bfloat16):
            change = model(now)
        loss = ((now + change.float() - later).square() * area).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())


if __name__ == "__main__":
    main()
