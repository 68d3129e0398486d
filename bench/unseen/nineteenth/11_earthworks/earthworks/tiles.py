import numpy as np
import torch
from scipy.ndimage import binary_dilation, grey_erosion
from torch.utils.data import DataLoader, Dataset


def bank_line(feature):
    """One-cell outline where the feature class changes, widened by one cell."""
    edge = grey_erosion(feature, size=3) != feature
    return binary_dilation(edge)


def turn(arrays, quarter, flip):
    """Dihedral augmentation; the aspect components turn along with the tile."""
    arrays = [np.rot90(a, quarter, axes=(-2, -1)) for a in arrays]
    east, north = arrays[0][4], arrays[0][5]
    for _ in range(quarter):
        east, north = -north, east
    if flip:
        arrays = [a[..., ::-1] for a in arrays]
        east, north = -east[..., ::-1], north[..., ::-1]
    relief = arrays[0].copy()
    relief[4], relief[5] = east, north
    return [relief, *arrays[1:]]


class TileDataset(Dataset):
    def __init__(self, catalogue, size, per_epoch, seed, augment):
        self.catalogue = catalogue
        self.size, self.per_epoch, self.seed, self.augment = size, per_epoch, seed, augment
        self.epoch = 0

    def __len__(self):
        return self.per_epoch

    def __getitem__(self, index):
        rng = np.random.default_rng([self.seed, self.epoch, index])
        survey = self.catalogue[int(rng.integers(len(self.catalogue)))]
        row, col = rng.integers(0, survey.extent - self.size, 2)
        bands, feature, period = survey.window(row, col, self.size)
        if self.augment:
            bands, feature, period = turn([bands, feature, period], int(rng.integers(4)), rng.random() < 0.5)
            bands[:4] *= rng.uniform(0.8, 1.2)
        dated = np.bincount(period.ravel(), minlength=5)[1:]
        return {
            "relief": torch.from_numpy(np.ascontiguousarray(bands)),
            "feature": torch.from_numpy(np.ascontiguousarray(feature)).long(),
            "line": torch.from_numpy(bank_line(feature).astype(np.float32)),
            "period": int(dated.argmax()) + 1 if dated.any() else 0,
        }


def make_loader(dataset, batch_size, shuffle):
    return DataLoader(dataset, batch_size, shuffle=shuffle, drop_last=shuffle)
