"""A classifier of small images; an average of its weights is kept in place, and batches are taken by index.

It copies what it needs: a batch converted in each step, feature maps that are joined, the average of the
weights once in a hundred steps.
"""

# expect: verdict=healthy finding=none

import argparse
import copy

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.third = nn.Conv2d(48, 48, 3, padding=1)
        self.classify = nn.Linear(48 * 16, 300)
        self.output = nn.Linear(300, classes)

    def forward(self, images):
        first = torch.relu(self.first(images))
        both = torch.cat([first, torch.relu(self.second(first))], 1)
        features = nn.functional.adaptive_max_pool2d(torch.relu(self.third(both)), 4)
        return self.output(torch.relu(self.classify(features.flatten(1))))


def main(args):
    torch.manual_seed(0)
    labels = torch.randint(10, (4000,))
    images = (torch.rand(4000, 3, 16, 16) * 128 + 12 * labels[:, None, None, None]).to(torch.uint8)
    model = Classifier(10)
    average = copy.deepcopy(model).requires_grad_(False)
    best = None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(1, args.steps + 1):
        index = torch.randint(len(images), (args.batch_size,))
        loss = nn.functional.cross_entropy(model(images[index].float() / 255), labels[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.02)
        if step % 100 == 0:
            best = copy.deepcopy(average.state_dict())
            print(f"step {step}: loss {loss.item():.3f}")
    model.load_state_dict(best)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--batch-size", type=int, default=64)
    main(parser.parse_args())
