from __future__ import annotations

from textwrap import dedent, indent

import pytest

from perfdoctor.facts.user_source.parse import Listing
from perfdoctor.facts.user_source.update_dependence import Dependence, dependence

UPDATE, REPORTED, UNKNOWN = Dependence.UPDATE, Dependence.REPORTED, Dependence.UNKNOWN

LOOP = """
import torch
from torch import nn
import torch.nn.functional as F
{imports}
{above}
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    out = model(x)
{after_forward}
    loss = F.cross_entropy(out, y)
{after_loss}
    loss.backward()
{after_backward}
    optimizer.step()
{line}
"""


def of(text, anchors=()):
    """What the line is that ends in `# ?`."""
    lines = dedent(text).strip("\n").split("\n")
    (asked,) = (number for number, line in enumerate(lines, 1) if line.endswith("# ?"))
    known = [number for number, line in enumerate(lines, 1) if any(anchor in line for anchor in anchors)]
    return dependence(Listing(lines), asked, known)


def in_loop(line="", *, above="", before="", imports="", **places):
    """What the line is in a usual loop, which it ends unless a place says otherwise."""
    inside = dict.fromkeys(("after_forward", "after_loss", "after_backward"), "") | places
    inside["line"] = line
    inside = {name: indent(dedent(text).strip("\n"), "    ") for name, text in inside.items()}
    text = LOOP.format(imports=imports, above=dedent(above), before=dedent(before), **inside)
    return of(text)


@pytest.mark.parametrize(
    "line",
    [
        "print(step, loss.item())  # ?",
        "losses.append(loss.item())  # ?",
        "accuracy = (out.argmax(1) == y).float().mean().item()  # ?",
        "writer.add_scalar('loss', loss.item(), step)  # ?",
        "seen.append(np.percentile(out.detach().numpy(), 95))  # ?",
        "norms = [p.grad.norm().item() for p in model.parameters()]  # ?",
        "hits[step] = int((out.argmax(1) == y).sum())  # ?",
        "total += loss.item()  # ?",
        "torch.save(model.state_dict(), 'last.pt')  # ?",
        "print(f'{optimizer.param_groups[0][\"lr\"]:.4f}')  # ?",
        "with torch.no_grad():  # ?\n    best = max(best, out.max().item())",
        "for name, p in model.named_parameters():  # ?\n    writer.add_histogram(name, p, step)",
        "score = f1_score(y, out.argmax(1))  # ?\nprint(score)",
        "area = roc_auc_score(y, out.detach()[:, 1])  # ?",
        "stats.update(out, y)  # ?",
        "rows.write(f'{loss.item()}')  # ?",
        "csv.writer(rows).writerow([loss.item()])  # ?",
        "log_file.write(f'{loss.item()}')  # ?",
    ],
)
def test_what_is_only_reported(line):
    before = """
    losses, seen, hits, total, best = [], [], {}, 0.0, 0.0
    writer = SummaryWriter()
    rows = open('rows.csv', 'w')
    stats = Accuracy(task='multiclass', num_classes=2)
    """
    imports = (
        "import csv\nimport numpy as np\nfrom sklearn.metrics import f1_score, roc_auc_score\n"
        "from torchmetrics import Accuracy\nfrom torch.utils.tensorboard import SummaryWriter"
    )
    assert in_loop(line, before=before, imports=imports) is REPORTED


@pytest.mark.parametrize(
    "line",
    [
        "replay.write(out.tolist(), y)  # ?",
        "replay.save(out.tolist(), y)  # ?",
        "np.copyto(table, loss.item())  # ?",
        "np.add(table, loss.item(), table)  # ?",
        "np.sqrt(table, table)  # ?",
        "np.add.at(table, 0, loss.item())  # ?",
        "operator.setitem(table, 0, loss.item())  # ?",
        "same.append(loss.item())  # ?",
    ],
)
def test_what_changes_what_the_next_loss_is_made_of(line):
    before = "replay = Replay(1000)\ntable = np.ones(3)\nsame = other = []"
    loss = "loss = loss * sum(other) * table[0] + replay.sample(3).sum()"
    imports = "import numpy as np\nimport operator\nfrom buffers import Replay"
    assert in_loop(line, before=before, imports=imports, after_forward=loss) is UPDATE
    assert in_loop(line, before=before, imports=imports) is REPORTED


def test_what_is_set_in_another_module_may_be_read_by_any():
    assert in_loop("os.environ['LEVEL'] = str(loss.item())  # ?", imports="import os") is UNKNOWN
    assert in_loop("self.buffer.write(out.tolist())  # ?") is UNKNOWN


@pytest.mark.parametrize(
    "line",
    [
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # ?",
        "nn.utils.clip_grad_value_(model.parameters(), 0.5)  # ?",
        "for p in model.parameters():  # ?\n    p.grad.mul_(0.5)",
        "for p in model.parameters():\n    p.grad = torch.nan_to_num(p.grad)  # ?",
        "scheduler.step()  # ?",
        "scaler.update(); scaler.step(optimizer)  # ?",
        "for group in optimizer.param_groups:  # ?\n    group['lr'] = 0.1 / (1 + step)",
        "optimizer.param_groups[0]['lr'] *= 0.99  # ?",
        "for p, q in zip(model.parameters(), slow.parameters()):  # ?\n    q.data = 0.9 * q.data + 0.1 * p.data",
        "for p, q in zip(model.parameters(), slow.parameters()):  # ?\n    q.data.mul_(0.9).add_(p.data, alpha=0.1)",
        "with torch.no_grad():  # ?\n    model.weight.clamp_(-1, 1)",
        "with torch.no_grad():  # ?\n    model.weight -= 0.01 * model.weight",
        "slow.load_state_dict(model.state_dict())  # ?",
        "if torch.isnan(loss):  # ?\n    raise ValueError('diverged')",
        "if loss.item() < 0.01:  # ?\n    break",
        "model.train()  # ?",
    ],
)
def test_what_changes_parameters_gradients_optimizers_or_the_loop(line):
    before = """
    slow = copy.deepcopy(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    scaler = torch.amp.GradScaler()
    """
    assert in_loop(line, before=before, imports="import copy") is UPDATE


def test_gradient_clipping_by_hand_between_backward_and_update():
    clip = """
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    for p in model.parameters():  # ?
        p.grad.mul_(1.0 / norm)
    """
    assert in_loop(after_backward=clip) is UPDATE
    factor = """
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()  # ?
    for p in model.parameters():
        p.grad.mul_(1.0 / norm)
    """
    assert in_loop(after_backward=factor) is UPDATE
    shown = "norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()  # ?"
    assert in_loop("print(norm)", after_backward=shown) is REPORTED


def test_a_term_of_the_loss_through_several_names():
    term = """
    penalty = sum(p.pow(2).sum() for p in model.parameters())  # ?
    weighted = 0.01 * penalty
    loss = loss + weighted
    """
    assert in_loop(after_loss=term) is UPDATE
    unused = term.replace("loss = loss + weighted", "history.append(weighted.item())")
    assert in_loop(after_loss=unused, before="history = []") is REPORTED


def test_a_list_of_losses_that_is_summed_later():
    assert in_loop(
        after_forward="terms.append(out.abs().mean())  # ?", after_loss="loss = loss + sum(terms)",
        before="terms = []",
    ) is UPDATE  # fmt: skip


def test_a_helper_of_the_same_file():
    soft = """
    def follow(online, target, tau):
        for p, q in zip(online.parameters(), target.parameters()):
            q.data.lerp_(p.data, tau)
    """
    assert in_loop("follow(model, slow, 0.01)  # ?", above=soft, before="slow = Net()") is UPDATE
    study = """
    def study(net, out):
        rows = []
        for name, p in net.named_parameters():
            rows.append((name, p.norm().item()))
        return sorted(rows), out.std().item()
    """
    assert in_loop("found.append(study(model, out))  # ?", above=study, before="found = []") is REPORTED


def test_a_helper_that_changes_what_it_is_given():
    helper = """
    def note(values, value):
        values.append(value)
    """
    read = "    loss = loss * (1 + len(values))"
    assert in_loop("note(values, loss.item())  # ?", above=helper, before="values = []") is REPORTED
    used = {"after_loss": read, "above": helper, "before": "values = []"}
    assert in_loop("note(values, loss.item())  # ?", **used) is UPDATE


def test_a_helper_of_another_file_is_unknown():
    assert in_loop("study(loss.item())  # ?", imports="from helpers import study") is UNKNOWN
    assert in_loop("after_step()  # ?", imports="from helpers import after_step") is UNKNOWN


def test_a_result_that_trains_is_needed_whatever_else_its_function_does():
    used = in_loop(after_forward="weight = weigh(step)  # ?", after_loss="loss = weight * loss")
    assert used is UPDATE
    assert in_loop(after_forward="weight = weigh(step)  # ?", after_loss="print(weight)") is UNKNOWN


def test_an_average_of_the_weights_is_no_report():
    ema = "from helpers import EMA"
    assert in_loop("ema.update(model)  # ?", before="ema = EMA(0.99)", imports=ema) is UNKNOWN
    assert (
        in_loop("ema.update()  # ?", before="ema = EMA(model.parameters(), 0.99)", imports=ema)
        is not REPORTED
    )
    own = """
    class Average:
        def __init__(self, net):
            self.net = copy.deepcopy(net)
        def follow(self, net):
            for p, q in zip(net.parameters(), self.net.parameters()):
                q.data = 0.9 * q.data + 0.1 * p.data
    """
    assert in_loop("average.follow(model)  # ?", above=own, before="average = Average(model)") is UPDATE


def test_an_object_of_the_same_file_that_only_writes():
    log = """
    class Log:
        def __init__(self, path):
            self.path = path
        def write_all(self, step, net):
            line = {"step": step}
            for name, p in net.named_parameters():
                line[name] = self.bins(p)
            with open(self.path, "a") as file:
                file.write(json.dumps(line))
        def bins(self, tensor):
            return np.histogram(tensor.detach().numpy())[0].tolist()
    """
    imports = "import json\nimport numpy as np"
    assert (
        in_loop("log.write_all(step, model)  # ?", above=log, before="log = Log('x')", imports=imports)
        is REPORTED
    )


def test_a_replay_buffer_feeds_the_batch():
    filled = "memory.append((x, y))  # ?"
    drawn = "x, y = random.choice(memory)\nout = model(x)"
    given = {"before": "memory = []", "imports": "import random"}
    assert in_loop(filled, after_forward=drawn, **given) is UPDATE
    assert in_loop(filled, **given) is REPORTED


def test_a_counter_that_decides_about_updates():
    text = """
    seen = 0
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        seen += 1  # ?
        if seen % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    """
    assert of(text) is UPDATE
    assert of(text.replace("if seen % 4 == 0:", "if True:")) is REPORTED


def test_a_metric_that_decides_about_the_learning_rate():
    decided = "plateau.step(error)"
    line = "error = (out.argmax(1) != y).float().mean().item()  # ?"
    before = "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
    assert in_loop(f"{line}\n{decided}", before=before) is UPDATE
    assert in_loop(f"{line}\nprint(error)", before=before) is REPORTED


def test_early_stopping_by_several_names():
    line = """
    history.append(loss.item())  # ?
    recent = history[-10:]
    worse = min(recent) > min(history)
    if worse:
        break
    """
    assert in_loop(line, before="history = []") is UPDATE


def test_a_closure_given_to_the_optimizer():
    text = """
    for x, y in loader:
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            {line}
            return loss
        optimizer.step(closure)
    """
    assert of(text.format(line="print(loss.item())  # ?")) is REPORTED
    assert of(text.format(line="torch.nn.utils.clip_grad_norm_(model.parameters(), 1)  # ?")) is UPDATE


def test_a_closure_sees_names_of_the_loop():
    text = """
    for x, y in loader:
        weight = x.abs().mean()  # ?
        def closure():
            loss = weight * F.mse_loss(model(x), y)
            loss.backward()
            return loss
        optimizer.step(closure)
    """
    assert of(text) is UPDATE


def test_attributes_of_a_trainer():
    text = """
    class Trainer:
        def __init__(self, model):
            self.model = model
            self.opt = torch.optim.Adam(model.parameters())
            self.losses, self.scale = [], 1.0
        def fit(self, loader):
            for x, y in loader:
                loss = self.scale * F.mse_loss(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                {line}
        {more}
    """
    kept = "self.losses.append(loss.item())  # ?"
    assert of(text.format(line=kept, more="")) is REPORTED
    shown = "def show(self):\n            print(self.losses)"
    assert of(text.format(line=kept, more=shown)) is REPORTED
    asked = "def done(self):\n            return self.losses[-1] < 0.1"
    assert of(text.format(line=kept, more=asked)) is UNKNOWN
    assert of(text.format(line="self.scale = 1.0 / loss.item()  # ?", more="")) is UPDATE
    assert (
        of(
            text.format(
                line="self.follow()  # ?", more="def follow(self):\n            self.model.bias.data.zero_()"
            )
        )
        is UPDATE
    )
    assert of(text.format(line="self.after_step(loss)  # ?", more="")) is UNKNOWN
    inherited = text.replace("class Trainer:", "class Trainer(Base):")
    assert of(inherited.format(line=kept, more="")) is UNKNOWN


def test_a_value_returned_to_a_caller():
    text = """
    def epoch(model, optimizer, loader):
        total = 0.0
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()  # ?
        return total / len(loader)
    def main():
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        for _ in range(10):
            mean = epoch(model, optimizer, loader)
            {line}
    """
    assert of(text.format(line="print(mean)")) is REPORTED
    assert of(text.format(line="scheduler.step(mean)")) is UPDATE
    assert of(text.split("def main")[0].rstrip()) is UNKNOWN


EVALUATES = """
    def evaluate(policy):
        total = 0
        for _ in range(9):
            {line}
        return total

    for generation in range(9):
        optimizer.zero_grad()
        for i in range(4):
            {stored} = evaluate(policy)
        loss = -(rewards * out).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("stored", ["rewards[i]", "rewards"])
def test_a_value_that_a_caller_stores_in_a_part_of_something(stored):
    assert of(EVALUATES.format(line="total += float(step())  # ?", stored=stored)) is not REPORTED


def test_of_several_statements_on_a_line_the_one_that_matters_most_counts():
    lines = "for x, y in loader:\n    {}  # ?\n    loss = model(x * scale)\n    loss.backward()\n    optimizer.step()"
    assert of(lines.format("seen = 1; print(seen)")) is REPORTED
    assert of(lines.format("scale = 2; seen = 1")) is UPDATE
    assert of(lines.format("seen = 1; scale = 2")) is UPDATE


def test_a_step_function_that_somebody_else_calls():
    text = """
    def training_step(self, batch, index):
        x, y = batch
        loss = F.mse_loss(self(x), y)
        {line}
        return loss
    """
    assert of(text.format(line="self.log('loss', loss)  # ?"), ["self(x)"]) is REPORTED
    assert of(text.format(line="loss = loss + self.reg()  # ?"), ["self(x)"]) is not REPORTED
    assert of(text.format(line="self.log('loss', loss)  # ?")) is UNKNOWN


def test_a_training_function_of_another_file_is_known_by_its_anchor():
    text = """
    for i in range(100):
        batch = make_batch(i)
        weights = weigh(batch)  # ?
        loss = trainer.train_step(batch, weights)
        seen.append(float(loss))
    """
    assert of(text, ["train_step"]) is not REPORTED
    shown = text.replace("seen.append(float(loss))", "print(float(loss))  # ?").replace(
        "(batch)  # ?", "(batch)"
    )
    assert of(shown, ["train_step"]) is REPORTED
    assert of(shown) is UNKNOWN


def test_loop_variables_of_other_loops_do_not_count():
    text = "for p in model.parameters():  # ?\n    norms.append(p.norm().item())"
    clip = "for p in model.parameters():\n    p.grad.clamp_(-1, 1)"
    assert in_loop(text, after_backward=clip, before="norms = []") is REPORTED


def test_the_batch_and_its_moves_are_needed():
    assert in_loop(after_forward="y = y.clamp(0, 1)  # ?") is UPDATE
    assert in_loop(after_forward="y.clamp_(0, 1)  # ?") is UPDATE
    assert in_loop(after_forward="out[:, 0] = 0  # ?") is UPDATE


def test_a_validation_by_a_function_of_the_same_file():
    function = """
    @torch.no_grad()
    def validate(net, batches):
        net.eval()
        right = 0
        for x, y in batches:
            right += (net(x).argmax(1) == y).sum().item()
        net.train()
        return right
    """
    line = "right = validate(model, held_out)  # ?\n"
    assert in_loop(line + "print(right)", above=function) is REPORTED
    assert in_loop(line + "if right > 90:\n    break", above=function) is UPDATE
    careless = function.replace("    net.train()\n", "")
    assert in_loop(line + "print(right)", above=careless) is not REPORTED
    elsewhere = "from helpers import validate"
    assert in_loop(line + "print(right)", imports=elsewhere) is UNKNOWN


def test_the_model_run_again_may_change_its_running_statistics():
    assert in_loop("again = model(x)  # ?") is UNKNOWN


def test_the_line_of_the_training_loop_itself_and_lines_outside():
    assert of("for x in loader:  # ?\n    model(x).sum().backward()") is UPDATE
    assert of("print('begins')  # ?\nfor x in loader:\n    model(x).sum().backward()") is UNKNOWN


@pytest.mark.parametrize("text", ["", "this is ( not python"])
def test_without_source_nothing_is_known(text):
    assert dependence(Listing(text.split("\n")), 1) is UNKNOWN


def test_names_of_the_module_that_other_functions_read():
    text = """
    SEEN = []
    def fit(model, optimizer, loader):
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            SEEN.append(loss.item())  # ?
    """
    assert of(text) is REPORTED
    assert of(text + "    def rate():\n        return 0.1 / len(SEEN)") is UNKNOWN


def test_a_list_that_the_caller_handed_in():
    text = """
    def fit(model, optimizer, loader, seen):
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            seen.append(loss.item())  # ?
    def main():
        losses = []
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            fit(model, optimizer, loader, losses)
            {line}
    """
    assert of(text.format(line="print(losses[-1])")) is REPORTED
    assert of(text.format(line="if losses[-1] < 0.1:\n                break")) is UPDATE
    assert of(text.split("def main")[0].rstrip()) is UNKNOWN


def test_a_function_handed_to_another_one_is_unknown():
    helper = """
    def halve(p):
        p.grad.mul_(0.5)
    """
    assert in_loop("list(map(halve, model.parameters()))  # ?", above=helper) is not REPORTED
    assert in_loop("model.apply(halve)  # ?", above=helper) is not REPORTED


@pytest.mark.parametrize(
    "line",
    [
        "model.cpu()  # ?",
        "torch.manual_seed(step)  # ?",
        "torch.distributed.barrier()  # ?",
        "torch.clamp(out, 0, 1, out=out)  # ?",
        "F.relu(out, inplace=True)  # ?",
        "setattr(model, 'scale', 0.5)  # ?",
        "extra = next(batches)  # ?",
        "callback.on_step_end(loss.item())  # ?",
        "model.scale = 1.0 / (1 + step)  # ?",
        "[p.grad.clamp_(-1, 1) for p in model.parameters()]  # ?",
        "dist.all_reduce(loss)  # ?",
        "nn.init.zeros_(model.bias)  # ?",
    ],
)
def test_what_may_matter_is_never_called_a_report(line):
    assert in_loop(line) is not REPORTED


MODULES = {
    "helpers": """
def follow(online, target):
    for p, q in zip(online.parameters(), target.parameters()):
        q.data.lerp_(p.data, 0.01)
def study(net, out):
    return [p.norm().item() for p in net.parameters()], np.std(out.detach().numpy())
class Meter:
    def __init__(self):
        self.values = []
    def take(self, value):
        self.values.append(value)
class Bank:
    def __init__(self, rows):
        self.data, self.at = np.zeros((rows, 4)), 0
    def push(self, rows):
        self.data[self.at] = rows
        self.at += 1
def counted(value):
    SEEN.append(value)
""",
}


def elsewhere(module):
    text = MODULES.get(module)
    return (Listing(("import numpy as np\nSEEN = []" + text).split("\n")), elsewhere) if text else None


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("follow(model, slow)", UPDATE),
        ("helpers.follow(model, slow)", UPDATE),
        ("seen.append(study(model, out))", REPORTED),
        ("helpers.study(model, out)", REPORTED),
        ("meter.take(loss.item())", REPORTED),
        ("bank.push(out.detach().numpy())", REPORTED),
        ("counted(loss.item())", UNKNOWN),
        ("other(loss.item())", UNKNOWN),
    ],
)
def test_functions_of_another_file_of_the_users(line, answer):
    text = f"""
    import helpers
    from helpers import Bank, Meter, counted, follow, study
    from unseen import other
    meter, bank, seen = Meter(), Bank(8), []
    for x, y in loader:
        out = model(x)
        loss = F.mse_loss(out, y)
        loss.backward()
        optimizer.step()
        {line}  # asked
    """
    lines = dedent(text).strip("\n").split("\n")
    assert dependence(Listing(lines), len(lines), imported=elsewhere) is answer


@pytest.mark.parametrize("module", ["torch.optim", "torch.utils.data", "torch.distributed", "torch.cuda.amp"])
def test_a_part_of_a_library_that_is_imported_leaves_its_name_to_the_library(module):
    text = f"""
    import torch
    import {module}
    curve = torch.zeros(9)
    for step, (x, y) in enumerate(loader):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        curve[step] = torch.mean(loss)  # asked
    """
    lines = dedent(text).strip("\n").split("\n")
    assert dependence(Listing(lines), len(lines)) is REPORTED


BASES = """
class Base:
    def tell(self, loss):
        print(loss)
    def count(self, loss):
        self.seen = self.seen + 1
    def push(self, loss):
        loss.backward()
    def later(self, loss):
        pass
    def ask(self, loss):
        self.answer(loss)
    def answer(self, loss):
        pass
"""


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("self.tell(loss.item())", REPORTED),
        ("super().tell(loss.item())", REPORTED),
        ("self.push(loss)", UPDATE),
        ("super().push(loss)", UPDATE),
        ("self.count(loss)", UNKNOWN),
        ("super().count(loss)", UNKNOWN),
        ("self.later(loss)", UNKNOWN),
        ("self.ask(loss)", UNKNOWN),
        ("own.ask(loss)", UNKNOWN),
        ("own.tell(loss.item())", REPORTED),
    ],
)
def test_what_a_class_inherits_from_another_file(line, answer):
    text = f"""
    from bases import Base
    class Own(Base):
        def answer(self, loss):
            self.model.step(loss)
        def fit(self, loader):
            for x, y in loader:
                loss = F.mse_loss(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                {line}  # asked
    own = Own()
    """
    lines = dedent(text).strip("\n").split("\n")
    asked = next(number for number, line in enumerate(lines, 1) if "# asked" in line)

    def imported(module):
        return (Listing(BASES.split("\n")), imported) if module == "bases" else None

    assert dependence(Listing(lines), asked, imported=imported) is answer
