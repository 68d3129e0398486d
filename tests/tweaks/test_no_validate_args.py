"""--no-validate-args: distributions check neither their arguments nor the values that they are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.applying import applied

torch = pytest.importorskip("torch")

from torch.distributions import Categorical, Distribution, Independent, Normal


@pytest.fixture(autouse=True)
def default() -> Iterator[None]:
    """Checks are on before each test, and after it as they were."""
    was = Distribution._validate_args
    Distribution.set_default_validate_args(True)
    yield
    Distribution.set_default_validate_args(was)


def outside() -> Any:
    """The log probability of a value that is none of the two."""
    return Categorical(torch.tensor([0.5, 0.5])).log_prob(torch.tensor(0.5))


def test_neither_arguments_nor_values_are_checked() -> None:
    with pytest.raises(ValueError, match="support"):
        outside()
    with applied("no_validate_args") as told:
        outside()
        Normal(torch.zeros(2), -torch.ones(2))
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("checks of distributions", True, False)
    assert place["at"]["function"] == "outside"
    assert not told.left_alone


def test_what_is_made_of_others_is_not_checked_either() -> None:
    with applied("no_validate_args"):
        Independent(Normal(torch.zeros(2), -torch.ones(2)), 1).log_prob(torch.full((2,), torch.nan))


def test_checks_that_the_script_asks_for_stay() -> None:
    with applied("no_validate_args") as told, pytest.raises(ValueError, match="scale"):
        Normal(torch.zeros(2), -torch.ones(2), validate_args=True)
    assert not told.applied
    (place,) = told.left_alone
    assert (place["what"], place["because"]) == ("Normal", "the script asks for its checks")


def test_a_script_that_turned_them_off_is_left_alone() -> None:
    with applied("no_validate_args") as told:
        Distribution.set_default_validate_args(False)
        outside()
        outside()
    assert not told.applied
    assert [place["because"] for place in told.left_alone] == ["they are off already"]


def test_a_distribution_made_without_checks_says_nothing_of_the_others() -> None:
    with applied("no_validate_args") as told:
        Normal(torch.zeros(2), torch.ones(2), validate_args=False)
        assert not told.applied
        outside()
    assert len(told.applied) == 1


def test_a_script_without_distributions_is_not_changed() -> None:
    with applied("no_validate_args") as told:
        torch.softmax(torch.ones(2), 0)
    assert not told.events


def test_samples_and_their_probabilities_are_the_same_to_the_last_bit() -> None:
    def played() -> list[float]:
        torch.manual_seed(0)
        policy = Categorical(logits=torch.randn(8, 5))
        action = policy.sample()
        return [*policy.log_prob(action).tolist(), *policy.entropy().tolist()]

    original = played()
    with applied("no_validate_args"):
        assert played() == original
