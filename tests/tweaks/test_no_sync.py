from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from importlib import import_module

import pytest

torch = pytest.importorskip("torch")

from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from perfdoctor.probe import compile_question
from tests.support import tweak_ranks
from tests.support.applying import applied

pytestmark = pytest.mark.process

SETTLED = [4] * 8 + [2] + [4] * 3


@pytest.fixture(scope="module")
def found():
    return tweak_ranks.together(__name__)


def network(**options):
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
    return DistributedDataParallel(layers, **options)


class Training:
    """A loop over batches of this rank's own; after each pass it notes whether the ranks have the same gradients."""

    def __init__(self, model):
        self.model = model
        own_class = type("SGD", (torch.optim.SGD,), {})  # whose steps no earlier tweak has seen
        self.optimizer = own_class(model.parameters(), lr=0.1, momentum=0.9)
        self.random = torch.Generator().manual_seed(distributed.get_rank())
        self.agreed = []
        self.losses = []

    def forward(self):
        return self.model(torch.randn(8, 4, generator=self.random)).square().mean()

    def backward(self, loss):
        loss.backward()
        gradient = next(p.grad for p in self.model.parameters() if p.grad is not None)
        self.agreed.append(tweak_ranks.agree(gradient))
        self.losses.append(loss.item())

    def update(self, passes):
        self.agreed.append("|")
        for _ in range(passes):
            self.backward(self.forward() / passes)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def result(self):
        """What was agreed on, as a word: `+` after a pass that exchanged gradients, `-` after one that did not."""
        word = "".join({True: "+", False: "-", "|": "|"}[each] for each in self.agreed)
        assert all(tweak_ranks.agree(value.detach()) for value in self.model.parameters())
        return word


def weights(model):
    return torch.cat([value.detach().flatten().double() for value in model.state_dict().values()])


def compare(train, beside=nullcontext):
    """The training `train(Training)` as it is and tweaked: what was exchanged, how far results are apart, what was told."""
    with beside():
        original = Training(network())
        train(original)
    with beside(), applied("no_sync") as told:
        tweaked = Training(network())
        train(tweaked)
    assert list(tweaked.model.state_dict()) == list(original.model.state_dict())
    return {
        "original": original.result(),
        "tweaked": tweaked.result(),
        "apart": (weights(tweaked.model) - weights(original.model)).abs().max().item(),
        "losses": max(abs(a - b) for a, b in zip(original.losses, tweaked.losses, strict=True)),
        "applied": [(place["was"], place["now"]) for place in told.applied],
        "left_alone": [place["because"] for place in told.left_alone],
    }


def on_two_ranks_accumulation():
    def train(training):
        for passes in SETTLED:
            training.update(passes)

    return compare(train)


def test_only_the_last_pass_exchanges_gradients_once_two_updates_were_alike(found):
    seen = found["accumulation"]
    assert seen["original"].startswith("|++++" * 8 + "|++|++++")
    assert seen["tweaked"].startswith("|++++" * 2 + "|---+" * 6)
    assert seen["applied"] == [["4 per update", "1 per update"]]


def test_an_update_that_comes_early_is_made_with_exchanged_gradients(found):
    seen = found["accumulation"]
    assert seen["tweaked"].endswith("|--" + "|---+" * 3)
    assert seen["left_alone"] == ["gradients are used after fewer passes than expected"]


def test_what_is_learnt_is_the_same_within_rounding(found):
    assert 0 < found["accumulation"]["apart"] < 1e-6
    assert found["accumulation"]["losses"] < 1e-6


def on_two_ranks_longer():
    def train(training):
        for passes in [2] * 3 + [3] * 4:
            training.update(passes)

    return compare(train)


def test_passes_beyond_the_expected_ones_exchange_gradients_until_that_is_the_habit(found):
    assert found["longer"]["tweaked"] == "|++" * 2 + "|-+" + "|-++" * 2 + "|--+" * 2
    assert found["longer"]["apart"] < 1e-6


def on_two_ranks_clipped():
    """An early update whose gradients are unscaled and clipped first, given as a generator."""

    def train(training):
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for passes in [3, 3, 3, 1, 3, 2]:
            training.agreed.append("|")
            for _ in range(passes):
                training.backward(scaler.scale(training.forward()))
            if passes > 1:
                scaler.unscale_(training.optimizer)
                nn.utils.clip_grad_norm_(training.model.parameters(), 0.1)
            scaler.step(training.optimizer)
            scaler.update()
            training.optimizer.zero_grad()

    return compare(train)


def test_gradients_are_exchanged_before_they_are_unscaled_and_clipped(found):
    assert found["clipped"]["tweaked"] == "|+++" * 2 + "|--+" + "|-" + "|--+" + "|--"
    assert found["clipped"]["apart"] < 1e-6


def on_two_ranks_clipped_alone():
    def train(training):
        for passes in [2, 2, 2, 1]:
            training.agreed.append("|")
            for _ in range(passes):
                training.backward(training.forward())
            nn.utils.clip_grad_value_(parameters=(p for p in training.model.parameters()), clip_value=0.01)
            training.optimizer.step()
            training.optimizer.zero_grad()

    return compare(train)


def test_gradients_are_exchanged_before_they_are_clipped_by_value(found):
    assert found["clipped_alone"]["tweaked"] == "|++" * 2 + "|-+" + "|-"
    assert found["clipped_alone"]["apart"] < 1e-6


def on_two_ranks_by_turns():
    """Together with a tweak that makes one update of two calls of step."""

    def train(training):
        for _ in range(8):
            training.update(1)

    return compare(train, beside=lambda: applied("accumulate", 2))


def test_calls_of_step_that_make_no_update_do_not_count(found):
    """The first call makes an update; those after it make one in pairs."""
    assert found["by_turns"]["tweaked"] == "|+" + "|+|+" * 2 + "|-|+" + "|-"
    assert found["by_turns"]["apart"] < 1e-6


def on_two_ranks_closure():
    def train(training):
        training.optimizer = torch.optim.LBFGS(training.model.parameters(), max_iter=3)

        def closure():
            training.optimizer.zero_grad()
            loss = training.forward()
            training.backward(loss)
            distributed.all_reduce(loss.detach())
            return loss

        for _ in range(4):
            training.optimizer.step(closure)

    return compare(train)


def test_passes_inside_an_optimizers_step_always_exchange_gradients(found):
    assert set(found["closure"]["tweaked"]) == {"+"}
    assert found["closure"]["apart"] == 0


def on_two_ranks_sharpness():
    """Sharpness-aware: the first of two passes moves the weights, and its gradients are cleared."""

    def train(training, to_none):
        weights = list(training.model.parameters())
        for _ in range(6):
            training.agreed.append("|")
            training.backward(training.forward())
            moved = [0.05 * weight.grad for weight in weights]
            with torch.no_grad():
                torch._foreach_add_(weights, moved)
            training.optimizer.zero_grad(set_to_none=to_none)
            training.backward(training.forward())
            with torch.no_grad():
                torch._foreach_sub_(weights, moved)
            training.optimizer.step()
            training.optimizer.zero_grad(set_to_none=to_none)

    return [compare(partial(train, to_none=to_none)) for to_none in (True, False)]


def test_a_pass_whose_gradients_are_used_before_the_next_exchanges_them(found):
    for seen in found["sharpness"]:
        assert seen["tweaked"] == "|++" * 6
        assert seen["apart"] == 0
        assert seen["left_alone"] == ["every pass is followed by an update"]


def on_two_ranks_own():
    def train(training):
        for _ in range(4):
            training.agreed.append("|")
            for number in range(3):
                with training.model.no_sync() if number < 2 else nullcontext():
                    training.backward(training.forward())
            training.optimizer.step()
            training.optimizer.zero_grad()

    return compare(train)


def test_a_script_that_skips_exchanges_itself_is_left_alone(found):
    assert found["own"]["tweaked"] == found["own"]["original"] == "|--+" * 4
    assert found["own"]["apart"] == 0
    assert found["own"]["left_alone"] == ["the script skips syncs itself"]


def on_two_ranks_local():
    """Local updates: the script never exchanges gradients and averages weights at the end."""

    def train(training):
        for _ in range(4):
            with training.model.no_sync():
                training.update(1)
        for value in training.model.state_dict().values():
            distributed.all_reduce(value)

    return compare(train)


def test_gradients_that_a_script_keeps_apart_stay_apart(found):
    assert found["local"]["tweaked"] == found["local"]["original"] == "|-" * 4
    assert found["local"]["apart"] == 0


def on_two_ranks_hooked():
    def add_up(group, bucket):
        return (
            distributed.all_reduce(bucket.buffer(), async_op=True)
            .get_future()
            .then(lambda done: done.value()[0])
        )

    def train(training):
        training.model.register_comm_hook(None, add_up)
        for _ in range(4):
            training.update(2)

    return compare(train)


def test_a_hook_that_does_not_average_is_left_alone(found):
    assert found["hooked"]["tweaked"] == "|++" * 4
    assert found["hooked"]["apart"] == 0
    assert "add_up" in found["hooked"]["left_alone"][0]


def on_two_ranks_unsettled():
    def train(training):
        for passes in [1, 2] * 6:
            training.update(passes)

    return compare(train)


def test_ever_other_numbers_of_passes_are_left_alone(found):
    assert found["unsettled"]["tweaked"] == "|+|++" * 6
    assert found["unsettled"]["left_alone"] == ["the number of passes per update changes"]


def on_two_ranks_joined():
    def train(training):
        for _ in range(3):
            training.update(2)
        with training.model.join():
            for _ in range(2):
                training.update(2)

    return compare(train)


def test_passes_inside_join_exchange_gradients(found):
    assert found["joined"]["tweaked"] == "|++" * 2 + "|-+" + "|++" * 2
    assert found["joined"]["apart"] < 1e-6


class Branches(nn.Module):
    """One of two branches is used; never the third."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(4, 1) for _ in range(3))

    def forward(self, batch):
        return self.branches[distributed.get_rank()](batch)


def on_two_ranks_unused():
    found = {}
    for name in ("original", "tweaked"):
        with applied("no_sync") if name == "tweaked" else nullcontext():
            torch.manual_seed(0)
            training = Training(DistributedDataParallel(Branches(), find_unused_parameters=True))
            training.optimizer = torch.optim.AdamW(training.model.parameters(), weight_decay=0.1)
            for passes in [2, 2, 2, 1]:
                training.update(passes)
            found[name] = training.result(), weights(training.model)
    return [found["tweaked"][0], (found["tweaked"][1] - found["original"][1]).abs().max().item()]


def test_an_early_update_leaves_parameters_alone_that_no_rank_used(found):
    word, apart = found["unused"]
    assert word == "|++" * 2 + "|-+" + "|-"
    assert apart < 1e-6


def on_two_ranks_adversaries():
    """A critic learns from two passes, and a third one goes through it to its adversary."""

    def train(critic, maker):
        models = critic.model, maker.model
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in models]
        noise = torch.Generator().manual_seed(distributed.get_rank())
        for _ in range(5):
            for sign in (1, -1):
                made = maker.model(torch.randn(8, 4, generator=noise)).detach()
                critic.backward(sign * critic.model(made + sign).mean())
            optimizers[0].step()
            maker.backward(critic.model(maker.model(torch.randn(8, 4, generator=noise))).mean())
            optimizers[1].step()
            for optimizer in optimizers:
                optimizer.zero_grad()

    found = []
    for tweak in (nullcontext(), applied("no_sync")):
        with tweak:
            torch.manual_seed(0)
            critic = Training(DistributedDataParallel(nn.Linear(1, 1)))
            maker = Training(DistributedDataParallel(nn.Linear(4, 1)))
            train(critic, maker)
        found.append((weights(critic.model), weights(maker.model), critic.result()))
    original, tweaked = found
    return [
        max((a - b).abs().max().item() for a, b in zip(original[:2], tweaked[:2], strict=True)),
        tweaked[2],
    ]


def test_two_models_with_their_own_updates_learn_the_same(found):
    apart, _ = found["adversaries"]
    assert apart < 1e-6


def on_two_ranks_failing():
    """A pass that would not have exchanged gradients ends with an error, and the script goes on."""

    def train(training):
        for _ in range(3):
            training.update(2)
        with pytest.raises(RuntimeError, match="shapes"):
            training.model(torch.ones(8, 5))
        assert training.model.require_backward_grad_sync
        training.update(2)

    return compare(train)


def test_a_pass_that_fails_leaves_the_model_as_it_was(found):
    assert found["failing"]["tweaked"] == "|++" * 2 + "|-+" * 2
    assert found["failing"]["apart"] < 1e-6


class Network(nn.Module):
    """Not one of torch's own, whose frames the compiler skips."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, batch):
        return self.layers(batch)


def on_two_ranks_compiled():
    import torch._dynamo.testing

    def graphs(tweak):
        torch._dynamo.reset()
        counter = torch._dynamo.testing.CompileCounter()
        with tweak:
            training = Training(torch.compile(DistributedDataParallel(Network()), backend=counter))
            for _ in range(4):
                training.update(2)
        return counter.frame_count, counter.op_count, training.result()

    for name in ("_ddp", "no_sync"):
        compile_question.hide_module(import_module(f"perfdoctor.tweaks.{name}"))
    return [graphs(nullcontext()), graphs(applied("no_sync"))]


def test_a_compiled_model_keeps_its_graphs(found):
    (*bare, _), (*tweaked, word) = found["compiled"]
    assert tweaked == bare
    assert bare[0] > 0
    assert word == "|++|++|-+|-+"


@pytest.fixture
def alone():
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    distributed.destroy_process_group()


def test_sparse_gradients_are_left_alone(alone):
    with applied("no_sync") as told:
        DistributedDataParallel(nn.Embedding(3, 2, sparse=True))
    assert [place["because"] for place in told.left_alone] == ["its gradients are sparse"]


def test_a_process_that_is_alone_has_nothing_to_exchange():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    with applied("no_sync") as told:
        DistributedDataParallel(nn.Linear(1, 1))
    distributed.destroy_process_group()
    assert [place["because"] for place in told.left_alone] == ["there is only one process"]
