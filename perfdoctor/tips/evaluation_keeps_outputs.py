"""Evaluations of the Trainer of transformers keep all outputs of the model, and join them batch by batch.

## What it sees
Stack samples fall into the functions with which the Trainer joins outputs in its evaluation loop
(`nested_concat` and what is around it). It keeps whatever the model returns beside the loss until the metrics
are computed, and copies all that it has whenever a batch is added: twice the batches take four times as long.
Logits over a vocabulary and hidden states or attentions of all layers are large.

## By hand
Have the model return no more than the metrics read:

    config = BertConfig(..., output_hidden_states=False, output_attentions=False)

or leave it out of evaluations:

    trainer.train(ignore_keys_for_eval=["hidden_states", "attentions", "past_key_values"])

Where the metrics need predictions only, make them of each batch's outputs:

    trainer = Trainer(..., preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1))

There, `logits` is a tuple if the model returns more than logits. The loss alone needs
`TrainingArguments(prediction_loss_only=True)`, and metrics that add up over batches work with
`batch_eval_metrics=True`. With `eval_do_concat_batches=False` the outputs stay a list of batches, for
`compute_metrics` to join once. `eval_accumulation_steps` frees memory of the device, and saves no such time.

## When not
Where the metrics need all that is kept. On a device only the joining of arrays on the host is seen
(`eval_accumulation_steps`): what is joined on the device runs behind other work.
"""

from __future__ import annotations

from perfdoctor.facts.host.gathered_outputs import GatheredOutputs
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
SEEN = 10  # samples: of fewer, a third may be chance
GOES = (0.8, 0.95, 1.0)  # of it, as predictions stay: at least, likely, at most
SHOWN = 3  # lines named


@tip(
    title="Keep no more of an evaluation's outputs than its metrics read",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def evaluation_keeps_outputs(step: StepFacts, gathered: GatheredOutputs) -> Advice | None:
    """Advises to return less, or to reduce each batch, where joining outputs takes a noticeable share."""
    share = gathered.share
    if share < NOTICEABLE or gathered.samples < SEEN:
        return None
    ms = share * step.mean_s * 1e3
    made = (gathered.trainer,) if gathered.trainer is not None else ()
    places = (*(kept.at for kept in gathered.kept), *made, gathered.called)
    low, likely, high = (part * share for part in GOES)
    return Advice(
        because=(
            f"{share:.0%} of each step ({ms:.2f} ms) goes into joining what the model returns in evaluations",
            "the Trainer keeps all outputs for the metrics, and copies them again for each batch",
            *(f"line {kept.at.line} adds {kept.name} to them: `{kept.at.text}`" for kept in gathered.kept),
        ),
        change=removes(low, likely, high),
        at=tuple(dict.fromkeys(places))[:SHOWN],
        code=_code(gathered),
    )


def _code(gathered: GatheredOutputs) -> str:
    """What leaves out the outputs that the source asks for; else what makes predictions of each batch's."""
    names = tuple(dict.fromkeys(kept.name for kept in gathered.kept))
    if names:
        ignored = ", ".join(f'"{name}"' for name in (*names, "past_key_values"))
        return f"trainer.train(ignore_keys_for_eval=[{ignored}])  # or leave output_{names[0]} off"
    if gathered.reduces or not gathered.classifies:
        return "TrainingArguments(..., batch_eval_metrics=True)  # compute_metrics gets a batch at a time"
    return "Trainer(..., preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1))"
