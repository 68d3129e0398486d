"""Random district metered areas and their linearised steady state."""
import numpy as np
from scipy.spatial import cKDTree


def layout(rng, n):
    """Junction coordinates and a connected, street-like set of pipes."""
    xy = rng.uniform(0.0, 1.0, (n, 2)) * np.sqrt(n)
    _, near = cKDTree(xy).query(xy, k=4)
    pairs = {tuple(sorted((i, int(j)))) for i in range(n) for j in near[i, 1:]}
    order = np.argsort(xy[:, 0], kind="stable")
    pairs |= {tuple(sorted((int(a), int(b)))) for a, b in zip(order[:-1], order[1:])}
    return xy, np.array(sorted(pairs))


def steady_state(n, pipes, conductance, demand, source):
    """Heads for a fixed reservoir head of zero at `source`."""
    lap = np.zeros((n, n))
    a, b = pipes.T
    np.add.at(lap, (a, b), -conductance)
    np.add.at(lap, (b, a), -conductance)
    lap[np.arange(n), np.arange(n)] = -lap.sum(1)
    free = np.arange(n) != source
    heads = np.zeros(n)
    heads[free] = np.linalg.solve(lap[np.ix_(free, free)], -demand[free])
    return heads


def simulate(rng, n):
    xy, pipes = layout(rng, n)
    length = np.linalg.norm(xy[pipes[:, 0]] - xy[pipes[:, 1]], axis=1) + 0.05
    diameter = rng.choice([0.08, 0.1, 0.15, 0.2, 0.3], len(pipes))
    conductance = 900.0 * diameter ** 2.63 / length
    demand = rng.gamma(2.0, 0.02, n)
    source = int(rng.integers(n))
    leak = int(rng.choice(np.delete(np.arange(n), source)))
    before = steady_state(n, pipes, conductance, demand, source)
    leaking = demand.copy()
    leaking[leak] += rng.uniform(0.15, 0.5)
    after = steady_state(n, pipes, conductance, leaking, source)
    sensors = rng.random(n) < 0.3
    residual = np.where(sensors, after - before + rng.normal(0.0, 0.004, n), 0.0)
    return {
        "pipes": pipes, "length": length, "diameter": diameter, "demand": demand,
        "elevation": rng.normal(0.0, 1.0, n), "residual": residual, "sensor": sensors,
        "degree": np.bincount(pipes.ravel(), minlength=n), "leak": leak,
    }
