from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.loop_roles import Loop, Role
from perfdoctor.facts.user_source.parse import Listing


def roles(text, *anchors, results=()):
    """The roles of every line that ends in a comment naming one, as (found, named)."""
    lines = dedent(text).strip("\n").split("\n")
    at = [number for number, line in enumerate(lines, 1) if any(anchor in line for anchor in anchors)]
    loop = Loop(Listing(lines), at, results)
    named = {number: line.split("# ")[1] for number, line in enumerate(lines, 1) if "# " in line}
    return {number: loop.role(number).value for number in named}, named


def check(text, *anchors, results=()):
    found, named = roles(text, *anchors, results=results)
    assert found == named


def test_arrays_and_random_indices():
    check(
        """
        data = load()  # outside
        for step in range(1000):
            ix = rng.integers(0, len(data), 32)  # data
            x = torch.stack([torch.tensor(data[i]) for i in ix])  # data
            y = torch.tensor(labels[ix])  # data
            out = model(x)  # trains
            loss = F.cross_entropy(out, y)  # compute
            opt.zero_grad()  # rest
            loss.backward()  # trains
            opt.step()  # trains
            accuracy = (out.argmax(1) == y).float().mean().item()  # rest
            print(step, loss.item())  # rest
        print("done")  # outside
        """,
        "model(x)", ".backward()", "opt.step()",
    )  # fmt: skip


def test_what_a_progress_bar_shows_does_not_build_what_it_yields():
    check(
        """
        for epoch in range(3):
            bar = tqdm(range(0, n, 32))  # data
            for start in bar:  # data
                rows = order[start:start + 32]  # data
                loss = model(x[rows]).sum()  # trains
                loss.backward()  # trains
                seen.append(rows)  # rest
                score = roc_auc_score(labels, np.concatenate(seen))  # rest
                bar.set_postfix(score=score)  # rest
        """,
        "model(x", ".backward()",
    )  # fmt: skip


def test_a_list_filled_in_a_nested_loop():
    check(
        """
        for epoch in range(3):
            for start in range(0, n, 32):  # data
                rows = []  # data
                for index in order[start:start + 32]:  # data
                    image = decode(paths[index])  # data
                    rows.append(image)  # data
                history.append(start)  # rest
                x = torch.stack(rows)  # data
                loss = model(x).sum()  # trains
                loss.backward()
        """,
        "model(x)", ".backward()",
    )  # fmt: skip


def test_a_preallocated_array():
    check(
        """
        buffer = np.zeros((32, 64))
        while True:
            for row in range(32):  # data
                buffer[row] = features(row)  # data
            loss = model(torch.from_numpy(buffer))  # trains
            loss.backward()
        """,
        "model(", ".backward()",
    )  # fmt: skip


def test_a_name_used_for_batch_and_result():
    check(
        """
        for i in range(9):
            x = make(i)  # data
            x = x.float()  # data
            x = model(x)  # trains
            x = x.mean()  # compute
            x.backward()
        """,
        "model(x)", ".backward()",
    )  # fmt: skip


def test_a_loop_without_a_module_is_told_by_the_names_that_require_gradients():
    check(
        """
        for i in range(9):
            x = make(i)  # data
            hidden = (x @ w1).relu()  # compute
            loss = (hidden @ w2).pow(2).mean()  # compute
            loss.backward()  # trains
            with torch.no_grad():
                for w in (w1, w2):
                    w -= 0.1 * w.grad  # compute
        """,
        ".backward()",
        results=("w1", "w2", "hidden", "loss"),
    )


def test_a_function_called_once_a_step_is_a_body_of_its_own():
    check(
        """
        def train_step(self, batch):
            x = self.augment(batch)  # data
            self.out = self.model(x)  # trains
            loss = self.criterion(self.out)  # compute
            loss.backward()
            self.metric = compute(self.out)  # rest
        """,
        "self.model(x)", ".backward()",
    )  # fmt: skip


def test_the_loop_above_a_training_function():
    check(
        """
        def fit(trainer):
            setup()  # outside
            for i in range(10):
                batch = make_batch(i)  # data
                loss = trainer.train_step(batch)  # trains
                log(loss)  # rest
        """,
        "train_step",
    )


def test_a_hidden_state_carried_over_is_computed():
    check(
        """
        for x in batches:  # data
            out, h = model(x, h)  # trains
            h = h.detach()  # compute
            loss = out.mean()  # compute
            loss.backward()
        """,
        "model(x", ".backward()",
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "this is ( not python"], ids=["no-source", "not-python"])
def test_without_source_nothing_is_named(text):
    loop = Loop(Listing(text.split("\n") if text else []), [3])
    assert (loop.role(3), loop.role(4)) == (Role.TRAINS, Role.REST)
    assert loop.contains(99)


def test_an_environment_that_acts_on_the_models_choice_is_neither_batch_nor_compute():
    check(
        """
        for episode in range(300):
            chances = []
            state = env.reset()  # data
            while not done:
                p = policy(torch.tensor(state))  # trains
                action = p.sample()  # compute
                chances.append(p.log_prob(action))  # compute
                state, reward, done = env.step(action.item())  # acts
            loss = -torch.stack(chances).sum()  # compute
            loss.backward()  # trains
        """,
        "policy(",
        "backward",
    )


def test_a_batch_drawn_from_what_was_played_is_still_a_batch():
    check(
        """
        while True:
            action = net(torch.tensor(state)).argmax().item()  # trains
            after, reward = env.step(action)  # acts
            memory.append((state, action, reward, after))  # rest
            state = after  # acts
            rows = random.sample(memory, 32)  # data
            batch = torch.tensor(rows)  # data
            loss = F.mse_loss(net(batch), target(batch))  # trains
            loss.backward()  # trains
        """,
        "net(",
        "backward",
    )


def test_losses_of_results_that_were_kept_from_before_are_computed():
    check(
        """
        def learn():
            wins, losses = discounted(rewards), []  # compute
            for (chance, value), win in zip(kept, wins):  # compute
                gap = win - value.item()  # compute
                losses.append(-chance * gap)  # compute
            opt.zero_grad()  # rest
            loss = torch.stack(losses).sum()  # compute
            loss.backward()  # trains
            opt.step()  # trains
        """,
        "backward", "opt.step",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("torch.stack(losses).sum().backward()", "compute"),
        ("scaler.scale(losses).backward()", "compute"),
        ("accelerator.backward(losses)", "compute"),
        ("self.manual_backward(losses)", "compute"),
        ("sum(losses).backward()", "compute"),
        ("model(losses).backward()", "data"),
        ("agent.critic(losses).mean().backward()", "data"),
        ("F.mse_loss(self.model(losses), y).backward()", "data"),
        ("fit(losses)", "data"),
    ],
)
def test_what_feeds_a_backward_alone_is_no_batch(line, role):
    check(f"for i in range(9):\n    losses = make(i)  # {role}\n    {line}", line)


@pytest.mark.parametrize(
    ("back", "role"),
    [
        pytest.param("buffer.update_priorities(rows, gap.detach())", "draws", id="priorities"),
        pytest.param("buffer.update_priorities(rows, gap.tolist())", "draws", id="priorities-as-numbers"),
        pytest.param("buffer.update_priorities(rows, torch.log1p(gap))", "draws", id="logarithms"),
        pytest.param("buffer.update_priorities(rows, 1.0)", "data", id="no-results"),
        pytest.param("buffer.add(state, action, after)", "data", id="plain-replay"),
        pytest.param("seen.append(gap.item())", "data", id="history"),
        pytest.param("print(buffer, gap.item())", "data", id="printed"),
        pytest.param("writer.add_scalar(buffer, gap.item())", "data", id="logged"),
        pytest.param("buffer[rows] = gap.detach()", "draws", id="items"),
    ],
)
def test_a_batch_drawn_by_the_errors_of_the_last_update_cannot_be_drawn_ahead(back, role):
    check(
        f"""
        while True:
            action = net(torch.tensor(state)).argmax().item()  # trains
            after = env.step(action)  # acts
            state = after  # acts
            rows, drawn, weights = buffer.sample(32)  # {role}
            batch = torch.tensor(drawn)  # {role}
            batch = batch.float()  # {role}
            noise = make_noise()  # data
            gap = net(batch + noise) - target(batch)  # trains
            loss = (weights * gap.pow(2)).mean()  # compute
            loss.backward()  # trains
            {back}
        """,
        "net(", "backward",
    )  # fmt: skip


def test_a_learner_that_draws_by_its_own_priorities():
    check(
        """
        def learn(self):
            chances = self.weights / self.weights.sum()  # draws
            rows = np.random.choice(1000, 32, p=chances)  # draws
            batch = torch.stack([self.table[i] for i in rows])  # draws
            gap = self.net(batch)  # trains
            gap.mean().backward()  # trains
            self.weights[rows] = gap.abs().numpy()
        """,
        "self.net(", "backward",
    )  # fmt: skip


ACTED = """
            action = agent.act(state)  # trains
            after, reward, done = env.step(action{number})
            {kept}
            beta = 0.4 + 0.6 * step / 900
            chances = prio / prio.sum(){steered}
            at = rng.choice(1000, 32, p=chances){steered}
            {drawn}  # {role}
            gap = agent.learn(drawn)  # trains
            {back}
"""


@pytest.mark.parametrize("number", ["", ".item()"])
@pytest.mark.parametrize(
    ("kept", "drawn", "back", "role"),
    [
        pytest.param(
            "memory.add(state, action, reward, done)", "drawn = memory.sample(32, beta)",
            "memory.update(drawn, gap)", "draws", id="prioritised-buffer",
        ),
        pytest.param(
            "agent.memory.add(state, action, reward, done)", "drawn = agent.memory.sample(32, beta)",
            "agent.memory.update(drawn, gap)", "draws", id="buffer-of-the-agent",
        ),
        pytest.param(
            "memory.add(state, action, reward, done)", "drawn = memory.sample_batch(32)",
            "print(gap)", "data", id="plain-buffer",
        ),
        pytest.param(
            "rows[step], prio[step] = reward, reward", "drawn = torch.tensor(rows[at])",
            "prio[at] = gap", "draws", id="arrays",
        ),
        pytest.param(
            "rows[step] = reward", "drawn = torch.tensor(rows[rng.integers(0, 1000, 32)])",
            "print(gap)", "data", id="arrays-at-random",
        ),
        pytest.param(
            "memory.add(reward)", "drawn = memory.rows[rng.choice(99, 32, p=memory.prio)]",
            "memory.prio[drawn] = gap", "draws", id="items-of-an-attribute",
        ),
    ],
)  # fmt: skip
def test_rows_drawn_from_what_is_kept_of_many_turns_are_a_batch_whoever_acted(
    number, kept, drawn, back, role
):
    steered = "  # draws" if "[at] = gap" in back else ""
    loop = ACTED.format(number=number, kept=kept, drawn=drawn, back=back, role=role, steered=steered)
    check(f"""
        for step in range(9):
{loop}""", "agent.act", "agent.learn")  # fmt: skip


def test_what_is_read_in_order_of_what_was_kept_is_a_result_still():
    check(
        """
        for step in range(9):
            score = model(x)  # trains
            scores[step] = score  # compute
            total = scores.mean()  # compute
            total.backward()  # trains
        """,
        "model(x)", "backward",
    )  # fmt: skip


def test_rows_of_what_one_turn_fills_alone_are_results():
    check(
        """
        for rows in order:
            scores = torch.zeros(9)
            scores[rows] = model(x)  # trains
            others = scores[torch.randperm(9)]  # compute
            others.mean().backward()  # trains
        """,
        "model(x)", "backward",
    )  # fmt: skip


def test_a_target_that_is_calculated_in_numbers_is_computed():
    check(
        """
        for step in range(9):
            x, after, reward = memory.sample(32)  # data
            chances = target(after).exp().numpy()  # trains
            goal = np.zeros_like(chances)  # compute
            for i in range(len(chances)):  # compute
                at = int(chances[i].max() * 50)  # compute
                goal[i, at] += reward[i]  # compute
            goal = torch.from_numpy(goal)  # compute
            loss = -(goal * model(x)).sum()  # trains
            loss.backward()  # trains
        """,
        "target(", "model(x)", "backward",
    )  # fmt: skip


def test_what_an_environment_gives_acts_where_the_model_is_shown_it_and_is_computed_with_where_the_loss_is():
    check(
        """
        for step in range(9):
            chances = policy(state)  # trains
            action = chances.argmax().item()  # compute
            after, reward = env.step(action)  # acts
            state = np.asarray(after)  # acts
            goal = reward * 0.99  # compute
            loss = -(goal * chances).mean()  # compute
            loss.backward()  # trains
        """,
        "policy(", "backward",
    )  # fmt: skip


def test_a_function_of_the_file_calculates_a_target_and_acts_on_what_the_model_is_shown():
    check(
        """
        def move(state, action):
            return state + action
        def shared(chances):
            return chances / chances.sum()
        for step in range(9):
            chances = policy(state)  # trains
            numbers = chances.numpy()  # compute
            goal = shared(numbers)  # compute
            state = move(state, numbers)  # acts
            loss = -(torch.tensor(goal) * chances).mean()  # compute
            loss.backward()  # trains
        """,
        "policy(", "backward",
    )  # fmt: skip


def test_a_bar_that_is_told_results_yields_what_it_would_have_yielded():
    check(
        """
        for rows in progress.track(order):  # data
            x = table[rows]  # data
            loss = model(x).mean()  # trains
            loss.backward()  # trains
            progress.update(task, loss=loss.item())
        """,
        "model(x", "backward",
    )  # fmt: skip


def test_a_bank_of_features_gives_what_it_would_have_given_before():
    check(
        """
        for i in range(9):
            x = table[i]  # data
            others = bank[random_rows()]  # data
            out = model(x)  # trains
            loss = contrast(out, others)  # compute
            loss.backward()  # trains
            bank[i] = out.detach()
        """,
        "model(x", "backward",
    )  # fmt: skip


@pytest.mark.parametrize("line", ["torch.save(out, path)", "accelerator.log({'loss': loss.item()})"])
def test_what_is_saved_or_logged_through_a_name_changes_nothing_that_batches_need(line):
    check(
        f"""
        import torch
        for i in range(9):
            x = torch.stack(accelerator.pad(rows[i]))  # data
            out = model(x)  # trains
            loss = out.mean()  # compute
            loss.backward()  # trains
            {line}  # rest
        """,
        "model(x", "backward",
    )  # fmt: skip


CHOICES = """
def choose(state):
    probs, value = model(state)
    policy = Categorical(probs)
    action = policy.sample()
    {returned}
for episode in range(9):
    while playing:
        {chosen} = choose(state)
        state, reward = world.step(action)
    loss = chance * reward
    loss.backward()
"""


@pytest.mark.parametrize(
    ("returned", "chosen", "role"),
    [
        pytest.param("return action.item()", "action", "acts", id="a-number"),
        pytest.param("return action.item(), value", "action, value", "acts", id="a-number-of-two"),
        pytest.param("action = action.item(); return action", "action", "acts", id="by-name"),
        pytest.param("return int(action)", "action", "acts", id="made-a-number"),
        pytest.param("return int(action), value", "action, value", "acts", id="one-of-two-made-a-number"),
        pytest.param("return action", "action", "compute", id="a-tensor"),
        pytest.param("return action / float(9)", "action", "compute", id="a-tensor-with-a-number"),
        pytest.param("return value, action.item()", "action, value", "compute", id="a-number-for-the-other"),
        pytest.param("return action.item(), 0, 0", "action, value", "compute", id="not-told-for-which"),
    ],
)
def test_a_number_that_a_function_took_out_of_a_tensor_acts_like_one_taken_in_the_loop(
    returned, chosen, role
):
    lines = CHOICES.format(returned=returned, chosen=chosen).strip("\n").split("\n")
    loop = Loop(Listing(lines), [8, 11])
    assert lines[8].strip() == "state, reward = world.step(action)"
    assert loop.role(9).value == role


@pytest.mark.parametrize(
    ("action", "role"),
    [
        ("int(q.argmax())", "acts"),
        ("env.actions[int(q.argmax())]", "acts"),
        ("np.asarray(q).argmax()", "acts"),
        ("to_numpy(q)", "acts"),
        ("q * float(scale)", "compute"),
    ],
)
def test_what_is_made_a_number_acts_like_one_taken_out_of_a_tensor(action, role):
    check(
        f"""
        def to_numpy(tensor):
            return tensor.detach().cpu().numpy()
        for i in range(9):
            q = net(state)  # trains
            action = {action}
            state, reward = env.step(action)  # {role}
            loss = (q - reward).mean()
            loss.backward()  # trains
        """,
        "net(state)", "backward",
    )  # fmt: skip


@pytest.mark.parametrize(
    "loss", ["crit(out, y) / float(n)", "crit(out[:, : int(k)], y)", "out.mean() * float(q.max())"]
)
def test_a_loss_with_a_number_in_it_stays_a_tensor(loss):
    check(
        f"""
        for x, y in rows:  # data
            out = model(x)  # trains
            q = out * 2
            loss = {loss}  # compute
            loss *= 2  # compute
            total = penalty(loss)  # compute
            total.backward()  # trains
        """,
        "model(x)", "backward",
    )  # fmt: skip


@pytest.mark.parametrize("graph", ["graph", "self.graph"])
def test_attributes_that_are_set_build_what_they_belong_to(graph):
    check(
        f"""
        for i in range(9):  # data
            {graph}.points = clouds[i]  # data
            {graph}.edges = nearest({graph}.points, 16)  # data
            out = model({graph})  # trains
            out.mean().backward()  # trains
            stats.share = nearest(out, 2)  # rest
        """,
        "model(", "backward",
    )  # fmt: skip


@pytest.mark.parametrize(
    "setting",
    ["model.scale = warm(i)", "opt.param_groups[0]['lr'] = warm(i)", "opt.defaults['lr'] = warm(i)"],
)
def test_a_setting_of_the_model_or_of_an_optimizer_is_no_part_of_a_batch(setting):
    check(
        f"""
        for i in range(9):  # data
            {setting}  # rest
            out = model(table[i])  # trains
            opt.zero_grad()  # rest
            out.mean().backward()  # trains
            opt.step()  # trains
        """,
        "model(", "backward", "opt.step",
    )  # fmt: skip


@pytest.mark.parametrize(
    "filling",
    [
        "np.take(table, i, out=rows)",
        "np.copyto(rows, table[i])",
        "rng.shuffle(rows)",
        "setattr(rows, 'x', i)",
    ],
)
def test_what_is_overwritten_where_it_lies_is_built(filling):
    check(
        f"""
        for i in range(9):
            {filling}  # data
            out = model(rows)  # trains
            out.mean().backward()  # trains
        """,
        "model(", "backward",
    )  # fmt: skip
