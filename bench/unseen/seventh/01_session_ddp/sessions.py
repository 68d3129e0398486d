"""Synthetic click sessions: event ids, dwell times and whether the session ended in an order."""
import numpy as np
import torch

N_EVENTS = 400
MAX_LEN = 224


def make_sessions(n, seed):
    rng = np.random.default_rng(seed)
    lengths = np.clip(np.exp(rng.normal(3.9, 0.75, n)).astype(int), 10, MAX_LEN)
    sessions = []
    for length in lengths:
        intent = rng.normal()
        events = rng.integers(1, N_EVENTS, length)
        events[rng.random(length) < 0.08] = 7 if intent > 0 else 11
        dwell = rng.gamma(1.5, 1.0 + 0.4 * (intent > 0), length).astype(np.float32)
        label = float(intent + rng.normal(0, 0.6) > 0)
        sessions.append((torch.from_numpy(events), torch.from_numpy(dwell), label))
    return sessions


def pad_batch(items):
    longest = max(len(e) for e, _, _ in items)
    events = torch.zeros(len(items), longest, dtype=torch.long)
    dwell = torch.zeros(len(items), longest)
    for row, (e, d, _) in enumerate(items):
        events[row, :len(e)] = e
        dwell[row, :len(d)] = d
    return events, dwell, torch.tensor([y for _, _, y in items])


def make_batches(sessions, batch_size):
    """Sessions of similar length share a batch, so that there is next to no padding."""
    order = sorted(range(len(sessions)), key=lambda i: len(sessions[i][0]))
    full = len(order) // batch_size * batch_size
    return [pad_batch([sessions[i] for i in order[s:s + batch_size]])
            for s in range(0, full, batch_size)]
