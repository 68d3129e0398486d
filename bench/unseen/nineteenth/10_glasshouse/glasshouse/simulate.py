"""Coupled heat, vapour and CO2 balance of glasshouse compartments under random weather."""
import numpy as np
import pandas as pd
from scipy.signal import lfilter


def red_noise(rng, shape, memory):
    white = rng.standard_normal(shape) * np.sqrt(1 - memory**2)
    return lfilter([1.0], [1.0, -memory], white, axis=-1)


def simulate_compartments(compartments, days, per_day, seed):
    rng = np.random.default_rng(seed)
    rows = days * per_day
    day = np.arange(rows) / per_day
    sun = np.clip(np.sin(2 * np.pi * (day - 0.25)), 0, None) * (1 + 0.3 * np.sin(2 * np.pi * day / 365))
    cloud = 0.75 + 0.25 * np.tanh(red_noise(rng, rows, 0.98))
    outside = 9 + 5 * np.sin(2 * np.pi * (day - 0.35)) + 3 * red_noise(rng, rows, 0.995)

    leak = rng.uniform(0.01, 0.04, (compartments, 1))
    gain = rng.uniform(0.25, 0.55, (compartments, 1))
    setpoint = rng.uniform(17, 21, (compartments, 1))
    radiation = 600 * sun * cloud * (1 + 0.05 * red_noise(rng, (compartments, rows), 0.9))
    lamp = (rng.random((compartments, 1)) < 0.5) * 120.0 * ((day % 1 > 0.15) & (day % 1 < 0.4))

    temperature = np.empty((compartments, rows))
    vapour = np.empty((compartments, rows))
    co2 = np.empty((compartments, rows))
    vent = np.empty((compartments, rows))
    t, v, c = setpoint[:, 0].copy(), np.full(compartments, 1.4), np.full(compartments, 600.0)
    shock = red_noise(rng, (compartments, rows), 0.8)
    for i in range(rows):
        opening = 1 / (1 + np.exp(-(t - setpoint[:, 0] - 4)))
        light = radiation[:, i] + lamp[:, i]
        heat = 0.6 * np.clip(setpoint[:, 0] - t, 0, 1.5)
        t = t + gain[:, 0] * light / 200 - (leak[:, 0] + 0.12 * opening) * (t - outside[i]) + heat + 0.08 * shock[:, i]
        v = v + 0.0006 * light - 0.12 * (0.4 + opening) * (v - 0.9) + 0.01 * shock[:, i]
        c = c - 0.10 * light + 40 * (c < 700) - 0.15 * opening * (c - 420) + 6
        temperature[:, i], vapour[:, i], co2[:, i], vent[:, i] = t, v, c, opening
    return [
        pd.DataFrame({
            "temperature": temperature[k], "vapour": vapour[k], "co2": co2[k], "vent": vent[k],
            "radiation": radiation[k] + lamp[k], "outside": outside, "day": day,
        })
        for k in range(compartments)
    ]
