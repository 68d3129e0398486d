"""Friends of friends: a social network as Python objects; the garbage collector comes when it wants."""

import argparse
import random

import torch
from torch import nn


class Person:
    """Somebody with a few interests; friends point at each other."""

    def __init__(self, number, town):
        self.number, self.town = number, town
        self.interests = [town, (town * 7 + number) % 50]
        self.friends = []


def society(count):
    """People of fifty towns; most friends live in the same one."""
    people = [Person(number, number % 50) for number in range(count)]
    for person in people:
        for _ in range(3):
            near = random.randrange(count // 50) * 50 + person.town
            friend = people[near if random.random() < 0.9 else random.randrange(count)]
            person.friends.append(friend)
            friend.friends.append(person)
    return people


class Affinity(nn.Module):
    def __init__(self, people, width=32):
        super().__init__()
        self.vectors = nn.EmbeddingBag(people, width, mode="mean", sparse=True)
        self.layers = nn.Sequential(
            nn.Linear(2 * width, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)
        )

    def forward(self, left, right):
        return self.layers(torch.cat([self.vectors(left), self.vectors(right)], 1)).squeeze(1)


def circle(person, size=4):
    """A person and some friends of theirs."""
    chosen = [person, *person.friends[:size]]
    return [each.number for each in chosen] + [person.number] * (size + 1 - len(chosen))


def batch(people, size):
    lefts, rights, labels = [], [], []
    for person in random.sample(people, size):
        is_friend = random.random() < 0.5 and bool(person.friends)
        other = random.choice(person.friends if is_friend else people)
        lefts.append(circle(person))
        rights.append(circle(other))
        labels.append(float(is_friend))
    return torch.tensor(lefts), torch.tensor(rights), torch.tensor(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=40_000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()

    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    people = society(args.people)
    model = Affinity(args.people)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(args.steps):
        left, right, labels = batch(people, args.batch_size)
        loss = nn.functional.binary_cross_entropy_with_logits(model(left, right), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
