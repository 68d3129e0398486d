"""Winter wheat yield regression from daily weather between sowing and harvest."""
import argparse
import json
import logging
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("yield")
WEATHER_COLS = ["tmin", "tmax", "rain", "radiation", "humidity", "wind"]
SOIL_COLS = ["clay", "sand", "ph", "organic_carbon"]


def build_tables(root: Path, n_stations=70, n_years=10, n_plots=3200, seed=11):
    weather_path, plots_path = root / "weather.parquet", root / "plots.parquet"
    if plots_path.exists():
        return weather_path, plots_path
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    dates = pd.date_range("2009-01-01", periods=365 * n_years, freq="D")
    season = np.sin(2 * math.pi * (dates.day_of_year.to_numpy() - 105) / 365.25)
    frames, cubes = [], []
    for s in range(n_stations):
        level, swing = rng.normal(9, 2), rng.normal(10, 1)
        tmean = level + swing * season + rng.normal(0, 2.5, len(dates))
        spread = rng.gamma(4, 1.2, len(dates))
        values = np.stack([
            tmean - spread, tmean + spread,
            rng.exponential(2.2, len(dates)) * (rng.random(len(dates)) < 0.4),
            np.clip(11 + 8 * season + rng.normal(0, 2, len(dates)), 0.5, None),
            np.clip(75 - 8 * season + rng.normal(0, 7, len(dates)), 20, 100),
            rng.gamma(2, 1.6, len(dates)),
        ], axis=1).astype(np.float32)
        cubes.append(values)
        frame = pd.DataFrame(values, columns=WEATHER_COLS)
        frame.insert(0, "station", f"DE-{s:04d}")
        frame.insert(1, "date", dates)
        frames.append(frame)
    pd.concat(frames, ignore_index=True).to_parquet(weather_path)

    rows = []
    for _ in range(n_plots):
        s, year = int(rng.integers(n_stations)), int(rng.integers(n_years - 1))
        start = year * 365 + 270 + int(rng.integers(40))
        stop = start + 150 + int(rng.integers(50))
        soil = rng.normal(0, 1, len(SOIL_COLS))
        cultivar = int(rng.integers(24))
        window = cubes[s][start:stop + 1]
        growth = np.clip(window[:, :2].mean(1), 0, 22).sum() / 900
        water = window[-90:, 2].sum() / 80
        target = 4 + 2.2 * growth + 1.5 * np.tanh(water) + 0.4 * soil[3] - 0.25 * soil[1]
        target += 0.05 * (cultivar - 12) + rng.normal(0, 0.25)
        rows.append([f"DE-{s:04d}", dates[start], dates[stop], cultivar, *soil, target])
    columns = ["station", "sowing", "harvest", "cultivar", *SOIL_COLS, "yield_t_ha"]
    pd.DataFrame(rows, columns=columns).to_parquet(plots_path)
    return weather_path, plots_path


class SeasonDataset(Dataset):
    """One sample per plot and season: daily weather, soil description, cultivar, yield."""

    def __init__(self, weather, plots, mean, std):
        self.stations = {}
        for station, rows in weather.groupby("station", sort=False):
            rows = rows.sort_values("date")
            self.stations[station] = (rows["date"].to_numpy("datetime64[ns]"), rows[WEATHER_COLS].to_numpy(np.float32))
        self.plots = plots.reset_index(drop=True)
        self.mean, self.std = mean, std

    def __len__(self):
        return len(self.plots)

    def season(self, station, sowing, harvest):
        dates, values = self.stations[station]
        first = np.searchsorted(dates, sowing.to_datetime64(), side="left")
        last = np.searchsorted(dates, harvest.to_datetime64(), side="right")
        return values[first:last]

    def __getitem__(self, index):
        plot = self.plots.iloc[index]
        daily = (self.season(plot["station"], plot["sowing"], plot["harvest"]) - self.mean) / self.std
        degree_days = np.cumsum(np.clip(daily[:, :2].mean(1, keepdims=True), 0, None), 0) / 100
        return {
            "daily": torch.from_numpy(np.concatenate([daily, degree_days], 1).astype(np.float32)),
            "soil": torch.tensor([plot[c] for c in SOIL_COLS], dtype=torch.float32),
            "cultivar": int(plot["cultivar"]),
            "target": float(plot["yield_t_ha"]),
        }


def collate(samples):
    lengths = torch.tensor([len(s["daily"]) for s in samples])
    return {
        "daily": pad_sequence([s["daily"] for s in samples], batch_first=True),
        "lengths": lengths,
        "soil": torch.stack([s["soil"] for s in samples]),
        "cultivar": torch.tensor([s["cultivar"] for s in samples]),
        "target": torch.tensor([s["target"] for s in samples]),
    }


class YieldNet(nn.Module):
    def __init__(self, n_weather, n_soil, n_cultivars=24, width=64):
        super().__init__()
        layers, channels = [], n_weather
        for dilation in (1, 2, 4, 8):
            layers += [nn.Conv1d(channels, width, 5, padding=2 * dilation, dilation=dilation),
                       nn.BatchNorm1d(width), nn.GELU()]
            channels = width
        self.encoder = nn.Sequential(*layers)
        self.score = nn.Conv1d(width, 1, 1)
        self.cultivar = nn.Embedding(n_cultivars, 12)
        self.head = nn.Sequential(nn.Linear(width + n_soil + 12, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, batch):
        x = batch["daily"].transpose(1, 2)
        hidden = self.encoder(x)
        valid = torch.arange(x.shape[-1])[None] < batch["lengths"][:, None]
        weight = self.score(hidden).squeeze(1).masked_fill(~valid, float("-inf")).softmax(-1)
        pooled = torch.einsum("bct,bt->bc", hidden, weight)
        return self.head(torch.cat([pooled, batch["soil"], self.cultivar(batch["cultivar"])], 1)).squeeze(1)


@torch.no_grad()
def validate(model, loader, scale):
    model.eval()
    squared, count = 0.0, 0
    for batch in loader:
        error = model(batch) * scale[1] + scale[0] - batch["target"]
        squared += error.square().sum().item()
        count += len(error)
    return math.sqrt(squared / count)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "wheat_yield")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "wheat_runs")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--max-steps", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)

    weather_path, plots_path = build_tables(args.data)
    weather, plots = pd.read_parquet(weather_path), pd.read_parquet(plots_path)
    is_val = plots["sowing"].dt.year >= 2017
    mean = weather[WEATHER_COLS].mean().to_numpy(np.float32)
    std = weather[WEATHER_COLS].std().to_numpy(np.float32)
    train_set = SeasonDataset(weather, plots[~is_val], mean, std)
    val_set = SeasonDataset(weather, plots[is_val], mean, std)
    scale = (float(train_set.plots["yield_t_ha"].mean()), float(train_set.plots["yield_t_ha"].std()))
    common = dict(batch_size=args.batch_size, collate_fn=collate, num_workers=args.workers,
                  persistent_workers=args.workers > 0)
    train_loader = DataLoader(train_set, shuffle=True, drop_last=True, **common)
    val_loader = DataLoader(val_set, **common)
    log.info("%d training seasons, %d held out", len(train_set), len(val_set))

    model = YieldNet(len(WEATHER_COLS) + 1, len(SOIL_COLS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    total = args.epochs * len(train_loader)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=total)
    history, best, step = [], float("inf"), 0
    for epoch in range(args.epochs):
        model.train()
        started, running = time.perf_counter(), 0.0
        for batch in train_loader:
            prediction = model(batch)
            loss = nn.functional.smooth_l1_loss(prediction, (batch["target"] - scale[0]) / scale[1])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            scheduler.step()
            running += loss.item()
            step += 1
            if step % 25 == 0:
                log.info("epoch %d step %d loss %.4f", epoch, step, loss.item())
            if args.max_steps and step >= args.max_steps:
                return
        rmse = validate(model, val_loader, scale)
        history.append({"epoch": epoch, "loss": running / len(train_loader), "rmse": rmse,
                        "seconds": time.perf_counter() - started})
        log.info("epoch %d train %.4f rmse %.3f t/ha (%.1fs)", epoch, history[-1]["loss"], rmse,
                 history[-1]["seconds"])
        if rmse < best:
            best = rmse
            torch.save({"model": model.state_dict(), "scale": scale, "epoch": epoch}, args.out / "best.pt")
    (args.out / "history.json").write_text(json.dumps(history, indent=2))


if __name__ == "__main__":
    main()
