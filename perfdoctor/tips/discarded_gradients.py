"""A backward computes gradients that are cleared before any optimizer uses them.

## What it sees
The script has several optimizers. A backward for one of them also runs through a network of another one. The
gradients there are cleared before that other optimizer's next step: for example in a GAN whose discriminator
update does not detach the generated images. The time of each operation in backward is measured in a few
rounds of the optimizers.

Or a backward is for the gradient of a tensor that is no parameter, such as an image that is attacked or a
sample that is drawn by its energy, and those of the parameters that it computes as well are cleared: about
half of what each layer takes in it.

Gradients that are added up over several backwards and then used do not count. Nor does a network that a
gradient has to pass on its way, such as the discriminator in the generator's update.

## By hand
    loss = criterion(discriminator(fake.detach()), zeros)
    # or, if the graph is not needed later either:
    with torch.no_grad():
        fake = generator(noise)

    (gradient,) = torch.autograd.grad(energy.sum(), sample)  # of nothing else; not: energy.sum().backward()

Backward then ends at the tensor. Under `no_grad` the forward pass keeps nothing in memory for it, too.

## When not
Where the gradients are read before they are cleared: copied, or logged. If both networks should learn
from this loss, the mistake is the clearing.
"""

from __future__ import annotations

from perfdoctor.facts.script.discarded_gradients import DiscardedGradientFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step, likely
# Of what the operations took in the looks. Those are a few dozen backwards, and the next operation may have
# to fetch what a left-out one had left in the cache. Keeping no graph saves a little of forward as well.
GONE = (0.75, 1.0, 1.15)
OF_LAYERS = (0.5, 1.0, 1.2)  # where it is a half of layers: how they share their time was not measured
ON_DEVICE = 0.4  # there, the time to launch an operation says less of how long it takes


@tip(
    title="Compute no gradients that are thrown away",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def discarded_gradients(run: RunFacts, step: StepFacts, discarded: DiscardedGradientFacts) -> Advice | None:
    """Advises to end a backward before a network that does not learn from it, or to ask for no more."""
    backward = step.share(Phase.BACKWARD)
    low, likely, high = (
        min(1.0, gone * backward * discarded.of_backward) for gone in (OF_LAYERS if discarded.asked else GONE)
    )
    if discarded.read or likely < NOTICEABLE:
        return None
    if run.on_device:
        low *= ON_DEVICE
    name = discarded.name or "tensor"
    code = f"{name}.detach()  # where it goes into this loss; or compute it under torch.no_grad()"
    if discarded.asked:
        code = f"(gradient,) = torch.autograd.grad(loss, {name})  # in place of backward() and {name}.grad"
    return Advice(
        because=(
            f"gradients of {discarded.elements:,} parameters are cleared before an optimizer uses them",
            f"{discarded.of_line:.0%} of this backward serves these gradients alone",
            f"that is {discarded.of_backward:.0%} of all backward time, which is {backward:.0%} of the step",
        ),
        change=removes(low, likely, high),
        at=tuple(dict.fromkeys(at for at in (discarded.entry, discarded.at) if at is not None)),
        code=code,
    )
