"""Writes a synthetic set of binding pockets to disk, one npz per pocket, and lists it."""
import json
import tempfile
from pathlib import Path

import numpy as np

ELEMENTS = ("C", "N", "O", "S", "P", "F", "Cl", "Zn")
ELEMENT_PROB = (0.62, 0.15, 0.16, 0.03, 0.01, 0.01, 0.01, 0.01)


def _walk(rng, n):
    steps = rng.normal(0, 1, (n, 3))
    steps *= 1.5 / np.linalg.norm(steps, axis=1, keepdims=True)
    xyz = np.cumsum(steps, 0)
    return (xyz - xyz.mean(0)) * rng.uniform(0.55, 0.8)


def _affinity(xyz, kind, charge):
    d = np.linalg.norm(xyz[:, None] - xyz[None], axis=-1) + np.eye(len(xyz)) * 9
    coulomb = (charge[:, None] * charge[None] * np.exp(-d / 3.0)).sum() / len(xyz)
    polar = np.isin(kind, (1, 2)).mean()
    return 4.0 * polar - 2.5 * coulomb + 3.0 / np.sqrt((xyz ** 2).sum(1).mean())


def write_archive(root, count, atoms, seed):
    rng = np.random.default_rng(seed)
    index = []
    for i in range(count):
        n = int(rng.integers(*atoms))
        xyz = _walk(rng, n)
        kind = rng.choice(len(ELEMENTS), n, p=ELEMENT_PROB)
        charge = rng.normal(0, 0.4, n)
        path = root / f"pocket_{i:05d}.npz"
        np.savez(path, xyz=xyz.astype(np.float32), kind=kind, charge=charge.astype(np.float32))
        index.append({"file": path.name, "pkd": float(_affinity(xyz, kind, charge))})
    (root / "index.json").write_text(json.dumps(index))


class PocketArchive:
    def __init__(self, cfg):
        self._tmp = tempfile.TemporaryDirectory(prefix="pockets_")
        self.root = Path(self._tmp.name)
        write_archive(self.root, cfg["pockets"], cfg["atoms"], cfg["seed"])
        entries = json.loads((self.root / "index.json").read_text())
        self.paths = [str(self.root / e["file"]) for e in entries]
        y = np.array([e["pkd"] for e in entries])
        self.targets = ((y - y.mean()) / y.std()).astype(np.float32)

    def __len__(self):
        return len(self.paths)
