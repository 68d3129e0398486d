"""What loops that are part of a step hand on from turn to turn."""

from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.loop_roles import Loop
from perfdoctor.facts.user_source.parse import Listing


def roles(text, updates=None):
    """The roles of lines that end in a comment, as (found, named); lines with `net(` call the model."""
    lines = dedent(text).strip("\n").split("\n")
    at = [n for n, line in enumerate(lines, 1) if "net(" in line or ".backward()" in line]
    updating = [n for n, line in enumerate(lines, 1) if ".backward()" in line] if updates is None else updates
    loop = Loop(Listing(lines), at, updating=updating, updates=updating)
    named = {n: line.split("# ")[1] for n, line in enumerate(lines, 1) if "# " in line}
    return {n: loop.role(n).value for n in named}, named


def check(text, updates=None):
    found, named = roles(text, updates)
    assert found == named


def test_a_roll_out_in_the_script_computes_what_it_shows_the_model():
    check(
        """
        for step in range(100):
            ids = torch.randint(0, 900, (32,))  # data
            x = clouds[ids]  # data
            for turn in range(9):
                spread = x - x.mean(0)  # compute
                noise = torch.randn(32, 3)  # data
                pull = net(spread + noise)  # trains
                x = x + dt * pull  # compute
            loss = (x - goals[ids]).square().mean()  # compute
            loss.backward()  # trains
        """
    )


SOLVERS = {
    "state": """
        def march(net, y, width, parts):
            for part in range(parts):
                ahead = y.sort(-1).values  # compute
                slope = net(part * width, ahead)  # trains
                y = y + width * slope  # compute
            return y
        """,
    "list": """
        def march(net, y, width, parts):
            slopes = [y]
            while len(slopes) < parts:
                ahead = y + width * torch.stack(slopes).sum(0)  # compute
                slope = net(width, ahead)  # trains
                slopes.append(slope)
            return torch.stack(slopes)
        """,
    "table": """
        def march(net, y, width, weights):
            slopes = torch.empty(len(weights), *y.shape)
            for row, weight in enumerate(weights):
                ahead = y + width * (weight * slopes[:row]).sum(0)  # compute
                slopes[row] = net(width, ahead)  # trains
            return y + slopes.sum(0)
        """,
    "inner turns": """
        def march(net, y, width, parts):
            for part in range(parts):
                guess = y * 1.0  # compute
                for again in range(3):
                    ahead = 0.5 * (y + guess)  # compute
                    guess = y + width * net(part, ahead)  # trains
                y = guess  # compute
            return y
        """,
}


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solver_that_calls_what_it_is_passed_computes_between_the_calls(solver):
    check(SOLVERS[solver], updates=())


def test_batches_of_a_loop_without_an_update_are_still_batches():
    check(
        """
        import torch
        def losses(net, rows, bar):
            total = 0.0
            for part in bar:
                ids = torch.randperm(len(rows))[:32]  # data
                x = rows[ids].sort(-1).values  # data
                out = net(x)  # trains
                total = total + out.square().mean()
                torch.save(out, f"{part}.pt")
                bar.set_postfix(loss=total)
            return total
        """,
        updates=(),
    )


def test_what_an_update_hands_on_to_the_next_step_is_of_another_step():
    check(
        """
        for step in range(100):
            x = torch.cat([rows[step], last])  # data
            out = net(x)  # trains
            out.mean().backward()  # trains
            last = out.detach()
        """
    )


def test_where_no_update_was_seen_no_loop_is_taken_for_a_part_of_a_step():
    text = dedent(SOLVERS["state"]).strip("\n").split("\n")
    anchor = next(n for n, line in enumerate(text, 1) if "net(part" in line)
    assert Loop(Listing(text), [anchor]).role(anchor - 1).value == "data"
