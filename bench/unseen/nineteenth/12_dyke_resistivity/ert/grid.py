"""Cell-centred mesh under a line of electrodes."""
import numpy as np
import torch


class DykeGrid:
    def __init__(self, depth_cells, length_cells, electrodes):
        self.shape = (depth_cells, length_cells)
        self.cells = depth_cells * length_cells
        number = np.arange(self.cells).reshape(self.shape)
        horizontal = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()])
        vertical = np.stack([number[:-1].ravel(), number[1:].ravel()])
        self.left, self.right = torch.from_numpy(np.concatenate([horizontal, vertical], axis=1))
        thickness = np.linspace(1.0, 2.5, depth_cells)
        across = np.repeat(thickness, length_cells - 1)
        down = np.repeat(2.0 / (thickness[:-1] + thickness[1:]), length_cells)
        self.face_factor = torch.from_numpy(np.concatenate([across, down]))

        # the far field is held at zero potential through a weak leak on the outer cells
        leak = np.zeros(self.shape)
        leak[:, 0] += 0.05
        leak[:, -1] += 0.05
        leak[-1] += 0.05
        self.leak = torch.from_numpy(leak.ravel())

        spots = np.linspace(1, length_cells - 2, electrodes).round().astype(int)
        self.electrode_cells = number[0, spots]
        self.injections = [(a, a + 2) for a in range(0, electrodes - 2)]
        self.potentials = [(m, m + 1) for m in range(electrodes - 1)]

    def dipoles(self, pairs):
        pattern = torch.zeros(len(pairs), self.cells, dtype=torch.float64)
        for row, (plus, minus) in enumerate(pairs):
            pattern[row, self.electrode_cells[plus]] += 1.0
            pattern[row, self.electrode_cells[minus]] -= 1.0
        return pattern
