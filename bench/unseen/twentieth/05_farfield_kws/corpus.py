"""Synthetic keyword corpus: formant-like sweeps written out as int16 shards."""
import json
import os

import numpy as np

KEYWORDS = ["on", "off", "up", "down", "left", "right", "stop", "go", "yes", "no", "wow", "follow"]


def _utterance(label, rng, sr):
    n = sr
    t = np.arange(n, dtype=np.float32) / sr
    base = np.random.RandomState(900 + label)
    f0 = rng.uniform(90, 220)
    start, stop = base.uniform(300, 1200, 3), base.uniform(800, 3200, 3)
    onset, length = rng.uniform(0.05, 0.3), rng.uniform(0.35, 0.6)
    env = np.exp(-0.5 * ((t - onset - length / 2) / (length / 4)) ** 2)
    pitch = 1.0 + 0.4 * np.sign(np.sin(2 * np.pi * f0 * t))
    wave = np.zeros(n, dtype=np.float32)
    for a, b in zip(start, stop):
        sweep = a + (b - a) * np.clip((t - onset) / length, 0, 1)
        wave += np.sin(2 * np.pi * np.cumsum(sweep) / sr * rng.uniform(0.95, 1.05)).astype(np.float32)
    wave = wave * env * pitch
    return (wave / np.abs(wave).max() * 20000).astype(np.int16)


def write_shards(folder, n_shards, per_shard, sr, seed):
    rng = np.random.RandomState(seed)
    manifest = []
    for s in range(n_shards):
        labels = rng.randint(0, len(KEYWORDS), per_shard)
        audio = np.stack([_utterance(k, rng, sr) for k in labels])
        path = os.path.join(folder, f"part-{s:04d}.npz")
        np.savez(path, audio=audio, labels=labels)
        manifest.append({"path": path, "count": int(per_shard)})
    with open(os.path.join(folder, "manifest.json"), "w") as f:
        json.dump(manifest, f)
    return manifest
