"""Feature steps over one compartment's table, composed by name from the configuration."""
import numpy as np
import pandas as pd
from scipy.ndimage import uniform_filter1d
from scipy.signal import savgol_coeffs

STEPS = {}


def step(name):
    def register(cls):
        STEPS[name] = cls
        return cls
    return register


@step("humidity")
class Humidity:
    """Vapour pressure deficit (kPa) from the Magnus formula."""

    def __init__(self, per_day):
        pass

    def __call__(self, table):
        saturated = 0.6108 * np.exp(17.27 * table["temperature"] / (table["temperature"] + 237.3))
        return table.assign(deficit=(saturated - table["vapour"]).clip(lower=0))


@step("clock")
class Clock:
    def __init__(self, per_day):
        pass

    def __call__(self, table):
        phase = 2 * np.pi * table["day"]
        extra = {f"{f.__name__}{k}": f(k * phase) for k in (1, 2) for f in (np.sin, np.cos)}
        return table.assign(**extra)


@step("trend")
class Trend:
    """Causal Savitzky-Golay slope."""

    def __init__(self, per_day, columns, window):
        self.columns = columns
        self.taps = savgol_coeffs(window, 2, deriv=1, pos=window - 1, use="dot")

    def __call__(self, table):
        extra = {}
        for column in self.columns:
            padded = np.pad(table[column].to_numpy(), (len(self.taps) - 1, 0), mode="edge")
            extra[f"{column}_slope"] = np.convolve(padded, self.taps[::-1], mode="valid")
        return table.assign(**extra)


@step("rolling")
class Rolling:
    def __init__(self, per_day, columns, spans):
        self.columns, self.spans = columns, spans

    def __call__(self, table):
        extra = {}
        for column in self.columns:
            for span in self.spans:
                values = table[column].to_numpy()
                extra[f"{column}_mean{span}"] = uniform_filter1d(values, span, mode="nearest", origin=(span - 1) // 2)
        return table.assign(**extra)


@step("lagged_day")
class LaggedDay:
    def __init__(self, per_day, columns):
        self.columns, self.per_day = columns, per_day

    def __call__(self, table):
        return table.assign(**{f"{c}_yesterday": table[c].shift(self.per_day).bfill() for c in self.columns})


class FeaturePipeline:
    """Runs every step once over the full tables and standardises with training statistics."""

    def __init__(self, specs, per_day):
        self.steps = [STEPS[spec["name"]](per_day, **{k: v for k, v in spec.items() if k != "name"}) for spec in specs]
        self.mean = self.std = None

    def _expand(self, tables):
        expanded = []
        for table in tables:
            for transform in self.steps:
                table = transform(table)
            expanded.append(table.drop(columns=["day"]))
        return expanded

    def fit_transform(self, tables):
        expanded = self._expand(tables)
        pooled = pd.concat(expanded)
        self.mean, self.std = pooled.mean(), pooled.std().clip(lower=1e-6)
        return self._pack(expanded)

    def transform(self, tables):
        return self._pack(self._expand(tables))

    def _pack(self, expanded):
        packed = np.stack([((table - self.mean) / self.std).to_numpy(np.float32) for table in expanded])
        return list(expanded[0].columns), packed
