"""Random dyke sections and the noisy surveys measured over them."""
import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import splu
from torch.utils.data import TensorDataset

from .forward import apparent


def random_section(rng, shape):
    depth, length = shape
    rows = np.arange(depth)[:, None]
    cols = np.arange(length)[None]
    section = 0.35 * gaussian_filter(rng.standard_normal(shape), (1.5, 4.0)) / 0.12
    water_table = depth * rng.uniform(0.35, 0.8) + rng.normal(0, 1) * np.sin(cols / length * np.pi)
    section = section + 0.9 * (rows > water_table)
    for _ in range(rng.integers(0, 3)):
        centre = rng.uniform(1, depth - 3), rng.uniform(3, length - 3)
        radius = rng.uniform(1.0, 2.5), rng.uniform(1.5, 5.0)
        lens = ((rows - centre[0]) / radius[0]) ** 2 + ((cols - centre[1]) / radius[1]) ** 2 < 1
        section = np.where(lens, section + rng.choice([-1.4, 1.2]), section)
    return np.clip(section, -2.5, 2.5)


def measure(grid, section, sources, receivers):
    sigma = np.exp(section).ravel()
    left, right = grid.left.numpy(), grid.right.numpy()
    conductance = grid.face_factor.numpy() * 2 * sigma[left] * sigma[right] / (sigma[left] + sigma[right])
    diagonal = np.arange(grid.cells)
    rows = np.concatenate([left, right, left, right, diagonal])
    cols = np.concatenate([right, left, left, right, diagonal])
    values = np.concatenate([-conductance, -conductance, conductance, conductance, sigma * grid.leak.numpy()])
    factors = splu(coo_matrix((values, (rows, cols))).tocsc())
    return factors.solve(sources.T).T @ receivers.T


def simulate_surveys(settings, grid):
    rng = np.random.default_rng(settings.seed)
    sources = grid.dipoles(grid.injections).numpy()
    receivers = grid.dipoles(grid.potentials).numpy()
    reference = measure(grid, np.zeros(grid.shape), sources, receivers)
    sections = np.stack([random_section(rng, grid.shape) for _ in range(settings.surveys + 40)])
    voltages = np.stack([measure(grid, section, sources, receivers) for section in sections])
    voltages *= 1 + settings.noise * rng.standard_normal(voltages.shape)
    grid.reference = torch.from_numpy(reference)
    data = apparent(torch.from_numpy(voltages), grid.reference).float()
    data = data.clamp(-4, 4)
    sections = torch.from_numpy(sections).float()
    cut = settings.surveys
    return TensorDataset(data[:cut], sections[:cut]), TensorDataset(data[cut:], sections[cut:])
