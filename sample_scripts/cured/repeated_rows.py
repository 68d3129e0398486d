"""Jobs ranked for people: each profile is read once, for all the jobs that it is matched with."""

import argparse

import torch
from torch import nn


class Reader(nn.Module):
    """Reads texts into one vector each."""

    def __init__(self, words, length, width, layers):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.1 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, texts):
        return self.layers(self.words(texts) + self.places[: texts.shape[1]]).mean(1)


class Matcher(nn.Module):
    def __init__(self, words, width, profile_length, job_length):
        super().__init__()
        self.profiles = Reader(words, profile_length, width, 3)
        self.jobs = Reader(words, job_length, width, 1)
        self.score = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, profiles, jobs):
        """Scores of shape (people, jobs) for profiles (people, words) and jobs (people, jobs, words)."""
        people, choices, _ = jobs.shape
        person = self.profiles(profiles).repeat_interleave(choices, 0)
        job = self.jobs(jobs.flatten(0, 1))
        return self.score(torch.cat([person, job], 1)).view(people, choices)


def batch(people, choices, words, profile_length, job_length):
    """Profiles, jobs of which one shares words with the profile, and which."""
    profiles = torch.randint(words, (people, profile_length))
    jobs = torch.randint(words, (people, choices, job_length))
    right = torch.randint(choices, (people,))
    jobs[torch.arange(people), right] = profiles[:, :job_length]
    return profiles, jobs, right


def main(args):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    words, profile_length, job_length = 2000, 48, 12
    model = Matcher(words, 64, profile_length, job_length)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        profiles, jobs, right = batch(args.people, args.choices, words, profile_length, job_length)
        loss = nn.functional.cross_entropy(model(profiles, jobs), right)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--people", type=int, default=8)
    parser.add_argument("--choices", type=int, default=5)
    main(parser.parse_args())
