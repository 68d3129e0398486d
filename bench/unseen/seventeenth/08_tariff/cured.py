"""Claim frequency model for a motor portfolio (Poisson with exposure offset)."""
import argparse
import json
import logging
import math
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

logger = logging.getLogger("tariff")

FUELS = ["petrol", "diesel", "hybrid", "electric"]
BODIES = ["saloon", "estate", "suv", "van", "coupe"]
N_REGIONS = 90


@dataclass
class Claim:
    day: int
    amount: float


@dataclass
class Vehicle:
    fuel: str
    body: str
    power_kw: float
    age: int


@dataclass
class Policy:
    number: str
    region: int
    driver_age: int
    bonus: float
    exposure: float
    vehicle: Vehicle
    claims: list = field(default_factory=list)


def write_portfolio(path, n, seed):
    rng = random.Random(seed)
    with open(path, "w") as f:
        for i in range(n):
            age = rng.randint(18, 88)
            bonus = rng.uniform(0.5, 1.6)
            power = rng.gauss(85, 30)
            exposure = rng.uniform(0.1, 1.0)
            region = rng.randrange(N_REGIONS)
            fuel, body = rng.choice(FUELS), rng.choice(BODIES)
            risk = -2.2 + 0.9 * (age < 25) + 0.6 * (bonus - 1) + 0.003 * power
            risk += 0.3 * math.sin(region) + 0.2 * (body == "coupe")
            claims = []
            while rng.random() < 1 - math.exp(-exposure * math.exp(risk)):
                claims.append([rng.randrange(365), round(rng.lognormvariate(7, 1), 2)])
            f.write(json.dumps([f"P{i:07d}", region, age, bonus, exposure,
                                [fuel, body, power, rng.randint(0, 20)], claims]) + "\n")


def read_portfolio(path):
    policies = []
    with open(path) as f:
        for line in f:
            number, region, age, bonus, exposure, vehicle, claims = json.loads(line)
            policies.append(Policy(number, region, age, bonus, exposure, Vehicle(*vehicle),
                                   [Claim(*c) for c in claims]))
    return policies


class PortfolioDataset(Dataset):
    def __init__(self, policies):
        self.policies = policies
        numeric = [[p.driver_age, p.bonus, p.vehicle.power_kw, p.vehicle.age] for p in policies]
        numeric = np.asarray(numeric, dtype=np.float32)
        self.numeric = torch.from_numpy((numeric - numeric.mean(0)) / numeric.std(0))
        self.codes = torch.tensor(
            [[p.region, FUELS.index(p.vehicle.fuel), BODIES.index(p.vehicle.body)] for p in policies]
        )
        self.exposure = torch.tensor([p.exposure for p in policies])
        self.counts = torch.tensor([float(len(p.claims)) for p in policies])

    def __len__(self):
        return len(self.policies)

    def __getitem__(self, rows):
        return self.numeric[rows], self.codes[rows], self.exposure[rows], self.counts[rows]


class FrequencyNet(nn.Module):
    def __init__(self, width=512, depth=4):
        super().__init__()
        self.region = nn.Embedding(N_REGIONS, 16)
        self.fuel = nn.Embedding(len(FUELS), 4)
        self.body = nn.Embedding(len(BODIES), 4)
        self.inp = nn.Linear(4 + 24, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(depth)
        )
        self.out = nn.Linear(width, 1)
        nn.init.constant_(self.out.bias, -2.0)

    def forward(self, numeric, codes):
        e = [self.region(codes[:, 0]), self.fuel(codes[:, 1]), self.body(codes[:, 2])]
        h = self.inp(torch.cat([numeric, *e], dim=1))
        for block in self.blocks:
            h = h + block(h)
        return self.out(h).squeeze(1)


def poisson_deviance(log_rate, exposure, counts):
    log_mu = log_rate + torch.log(exposure)
    saturated = torch.xlogy(counts, counts) - counts
    return 2 * (saturated - counts * log_mu + torch.exp(log_mu)).mean()


def batches(dataset, batch_size, shuffle):
    sampler = torch.utils.data.BatchSampler(
        torch.utils.data.RandomSampler(dataset) if shuffle else torch.utils.data.SequentialSampler(dataset),
        batch_size, drop_last=shuffle)
    return DataLoader(dataset, sampler=sampler, batch_size=None)


class Trainer:
    def __init__(self, model, train_set, val_set, workdir, args):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.train_loader = batches(train_set, args.batch_size, shuffle=True)
        self.val_loader = batches(val_set, 2048, shuffle=False)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
        self.workdir = Path(workdir)
        self.args = args
        self.step = 0
        self.best = math.inf
        self.history = []

    def fit(self):
        while self.step < self.args.max_steps:
            for batch in self.train_loader:
                loss = self._train_step(batch)
                self._after_step(loss)
                if self.step >= self.args.max_steps:
                    break
            self._validate()

    def _train_step(self, batch):
        numeric, codes, exposure, counts = [x.to(self.device) for x in batch]
        loss = poisson_deviance(self.model(numeric, codes), exposure, counts)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        self.step += 1
        return loss.item()

    def _after_step(self, loss):
        self.history.append(loss)
        if self.step % self.args.log_every == 0:
            window = self.history[-self.args.log_every:]
            logger.info("step %d deviance %.4f", self.step, sum(window) / len(window))

    @torch.no_grad()
    def _validate(self):
        self.model.eval()
        rates, exposures, counts = [], [], []
        for numeric, codes, exposure, count in self.val_loader:
            rates.append(self.model(numeric.to(self.device), codes.to(self.device)).cpu())
            exposures.append(exposure)
            counts.append(count)
        self.model.train()
        deviance = poisson_deviance(torch.cat(rates), torch.cat(exposures), torch.cat(counts)).item()
        logger.info("validation after step %d: deviance %.5f", self.step, deviance)
        if deviance < self.best:
            self.best = deviance
            torch.save({"model": self.model.state_dict(), "step": self.step}, self.workdir / "best.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--policies", type=int, default=12_000)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--max-steps", type=int, default=400)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(1)

    with tempfile.TemporaryDirectory(prefix="tariff_") as workdir:
        path = Path(workdir) / "portfolio.jsonl"
        write_portfolio(path, args.policies, seed=1)
        policies = read_portfolio(path)
        cut = int(0.9 * len(policies))
        trainer = Trainer(FrequencyNet(), PortfolioDataset(policies[:cut]),
                          PortfolioDataset(policies[cut:]), workdir, args)
        trainer.fit()
        logger.info("best deviance %.5f", trainer.best)


if __name__ == "__main__":
    main()
