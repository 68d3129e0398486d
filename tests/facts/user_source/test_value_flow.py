from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.value_flow import ValueFlow
from tests.support.records import source_of


def feeds(text, **modules):
    """Whether backward passes compute with what the line gives that ends in `# ?`."""
    lines = dedent(text).strip("\n").split("\n")
    (asked,) = (number for number, line in enumerate(lines, 1) if line.endswith("# ?"))
    sources = Sources(
        source_of(train="\n".join(lines), **{name: dedent(one) for name, one in modules.items()})
    )
    return ValueFlow(sources).feeds_backward("/home/me/train.py", asked)


REPLAY = """
    policy.train()
    for episode in range(50):
        policy.eval()
        state = env.reset()
        while not env.done:
            action = policy(state).argmax()  # ?
            following, reward = env.step(action)
            {keep}
            state = following
        policy.train()
        {before}
        loss = F.mse_loss(policy(states), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("keep", "before"),
    [
        ("buffer.push(state, action, reward)", "states, targets = buffer.sample(32)"),
        ("seen.append((state, reward))", "states, targets = map(torch.stack, zip(*seen))"),
        ("rewards[episode] = reward", "states, targets = states, advantages(rewards)"),
        ("total += reward", "targets = total * torch.ones(4)"),
    ],
)
def test_what_a_policy_plays_feeds_the_update(keep, before):
    assert feeds(REPLAY.format(keep=keep, before=before)) is True


def test_what_is_only_counted_does_not():
    text = REPLAY.format(keep="total += reward", before="print(total); writer.add_scalar('return', total)")
    assert feeds(text) is False


VALIDATING = """
    best, history = 0.0, []
    for epoch in range(9):
        model.train()
        for x, y in loader:
            out = model(x)
            loss = criterion(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        for x, y in validation:
            out = model(x)  # ?
            loss = criterion(out, y)
            score = (out.argmax(1) == y).float().mean().item()
        {then}
"""


@pytest.mark.parametrize(
    "then",
    [
        "print(score)",
        "scheduler.step(loss)",
        "best = max(best, score); history.append(loss)",
        "bar.set_postfix(score=score)",
        "if score < best: break",
        "model.load_state_dict(best_of(history, score))",
        "for group in optimizer.param_groups: group['lr'] = rate(loss)",
    ],
)
def test_validation_feeds_nothing_whatever_names_it_shares_with_training(then):
    assert feeds(VALIDATING.format(then=then)) is False


def test_what_makes_backward_passes_for_others_keeps_no_values_of_what_it_gathers():
    text = VALIDATING.replace("loss.backward()", "accelerator.backward(loss)")
    gathered = "score, y = accelerator.gather_for_metrics((score, y))"
    assert feeds(text.format(then=gathered)) is False
    assert feeds(text.format(then=f"{gathered}; loader = weighted(data, score)")) is True


@pytest.mark.parametrize(
    "then", ["loader = weighted(data, score)", "criterion = focal(score)", "loader.sampler.weigh(score)"]
)
def test_a_score_that_decides_what_is_trained_on_does(then):
    assert feeds(VALIDATING.format(then=then)) is True


AGENT = """
    class Agent:
        def __init__(self, net):
            self.net, self.memory, self.steps, self.rewards = net, [], 0, []
        def act(self, state):
            self.net.eval()
            self.steps += 1
            return self.net(state).argmax()
        def remember(self, *moment):
            self.memory.append(moment)
        def note(self, reward):
            self.rewards.append(reward)
        def learn(self):
            self.net.train()
            print(self.rewards)
            states, actions = zip(*random.sample(self.memory, 32))
            loss = F.mse_loss(self.net(states), actions)
            loss.backward()
            self.optimizer.step()

    def main():
        agent = Agent(Net())
        for episode in range(50):
            state = env.reset()
            for _ in range(200):
                action = agent.act(state)  # ?
                state, reward, done = env.step(action)
                {keep}
            {learn}
"""


@pytest.mark.parametrize("learn", ["agent.learn()", "update(agent)"])
@pytest.mark.parametrize(
    ("keep", "fed"), [("agent.remember(state, action)", True), ("agent.note(reward)", False)]
)
def test_attributes_of_an_object_are_told_apart(keep, fed, learn):
    update = "\n    def update(agent):\n        agent.learn()\n"
    assert feeds(AGENT.format(keep=keep, learn=learn) + update) is fed


TRAINER = """
    class Trainer:
        def fit(self):
            for epoch in range(9):
                self.train_epoch()
                self.validate()  # ?
        def train_epoch(self):
            self.model.train()
            for x, y in self.loader:
                loss = self.criterion(self.model(x), y)
                self.meter.update(loss.item())
                loss.backward()
                self.optimizer.step()
        def validate(self):
            self.model.eval()
            for x, y in self.validation:
                self.meter.update(self.criterion(self.model(x), y).item())
            {last}
"""


def test_a_trainer_that_meters_both_keeps_no_values():
    assert feeds(TRAINER.format(last="self.history.append(self.meter.avg)")) is False
    assert feeds(TRAINER.format(last="self.loader = self.reweighted(self.meter.avg)")) is True


def test_a_function_without_a_backward_leaves_it_to_its_caller():
    assert feeds("def play(policy, state):\n    return policy(state)  # ?") is None
    assert feeds("x = (  # ?") is None


def test_what_another_file_does_is_followed():
    training = """
        def update(model, batch):
            loss = model(batch).mean()
            loss.backward()

        def report(model, batch):
            loss = model(torch.ones(3)).mean()
            loss.backward()
            print(batch)
    """
    text = "from training import {name}\nfor _ in range(9):\n    batch = label(model)  # ?\n    {name}(model, batch)"
    assert feeds(text.format(name="update"), training=training) is True
    assert feeds(text.format(name="report"), training=training) is False


def test_functions_that_call_each_other_are_no_trouble():
    text = """
        def a(x, n):
            loss = x * n
            loss.backward()
            b(x, n - 1)
        def b(x, n):
            if n:
                a(x, n)
        for _ in range(9):
            x = label(model)  # ?
            b(x, 3)
    """
    assert feeds(text) is True
