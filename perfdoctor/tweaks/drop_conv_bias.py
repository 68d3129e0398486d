"""Drop the bias of convolutions that batch normalisation subtracts again.

## What changes
Where the output of a convolution goes into a batch normalisation in train mode and nowhere else, as the graph
of two backward passes shows, the bias is no longer added and no longer trained. It keeps its value: in eval
mode it is added as before, and the running mean is kept as if it had always been added, so that checkpoints
and copies of the model stay correct.

## Left alone
- Convolutions whose output, or whose bias, is used by something else as well.
- Batch normalisation in eval mode, where the bias matters.
- Training in several processes: their gradient sync waits for the gradient of the bias. By hand, build the
  layer with `bias=False`.
- Transposed convolutions, and compiled ones.

The bias has no gradient any more: a script that reads `p.grad` of every parameter, as for a norm of its own,
has to leave out those that need none.

## Same result
Within rounding: the mean of each batch, with the bias in it, is subtracted anyway. In eval mode, the running
mean no longer lags behind a bias that weight decay changes.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Tuple

from ..probe.trial.tweak import ROUNDING, Tweaking, tweak
from ..probe.user_frames import user_line

KEY = "perfdoctor"  # of what is noted at a node of the graph
PROOFS = 2  # backward passes: the first step of a script may be a rehearsal of another kind
CAST = "ToCopyBackward0"  # what autocast puts between a bias and its convolution


class Layer:
    """Keeps what is known of one convolution."""

    def __init__(self, convolution: Any, at: Optional[Dict[str, Any]]) -> None:
        self.convolution = weakref.ref(convolution)
        self.norms: weakref.WeakSet[Any] = weakref.WeakSet()  # that take what it puts out
        self.at = at
        self.proofs = 0
        self.off = False
        self.dropped = False


class Biases:
    """The convolutions of one process."""

    def __init__(self, here: Tweaking) -> None:
        self.here = here
        self.torch = here.torch
        self.lines: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # that built each
        self.layers: weakref.WeakKeyDictionary[Any, Layer] = weakref.WeakKeyDictionary()
        self.bare: Dict[int, Tuple[Any, Layer]] = {}  # outputs without bias on their way to a normalisation
        self.watching = False  # a convolution was called since the last backward pass, and is not judged

    def before_init(self, args: Any, kwargs: Any) -> None:
        """Called when a convolution is built."""
        self.lines[args[0]] = user_line()

    # ------------------------------------------------------------ forward

    def before_convolution(self, args: Any, kwargs: Any) -> Any:
        """`_conv_forward(convolution, input, weight, bias)`."""
        convolution, bias = args[0], args[-1]
        if bias is None or not convolution.training:
            return None
        layer = self.layers.get(convolution)
        if layer is None:
            if convolution._parameters.get("bias") is not bias:  # computed anew in each pass
                return None
            layer = self.layers[convolution] = Layer(convolution, self.lines.get(convolution))
        if layer.off:
            return None
        if not layer.dropped:
            return args, kwargs, layer
        if not all(_uses_batch(norm) for norm in layer.norms):
            return None
        return (*args[:3], None), kwargs, layer

    def after_convolution(self, layer: Layer, result: Any) -> Any:
        """Mark the output: its node while there is something to learn, itself once the bias is left out."""
        if result is None:
            return result
        if layer.dropped:
            self.bare[id(result)] = result, layer
        elif result.grad_fn is not None:
            result.grad_fn.metadata[KEY] = layer
            self.watching = True
        return result

    def before_norm(self, args: Any, kwargs: Any) -> Any:
        """`forward(norm, input)`."""
        if not (self.bare or self.watching) or len(args) == 1:
            return None
        bare = self.bare.pop(id(args[1]), None)
        return args, kwargs, (args[0], None if bare is None else bare[1])

    def after_norm(self, token: Tuple[Any, Optional[Layer]], result: Any) -> Any:
        """Add the bias to the running mean where it was left out; else mark the node."""
        norm, layer = token
        if layer is not None and result is not None:
            _move(norm, layer.convolution())
        elif result is not None and result.grad_fn is not None and _uses_batch(norm):
            result.grad_fn.metadata[KEY] = norm
        return result

    # ------------------------------------------------------------ backward

    def before_backward(self, args: Any, kwargs: Any) -> Any:
        """Inspects the graph while it exists."""
        if self.bare:
            self._give_up()
        if not self.watching:
            return None
        self.watching = False
        tensors = args[0] if args else kwargs.get("tensors")
        roots = [tensors] if isinstance(tensors, self.torch.Tensor) else list(tensors)
        graph = Graph([getattr(root, "grad_fn", None) for root in roots])
        return args, kwargs, {layer: graph.doubt(layer) for layer in graph.layers if not layer.off}

    def after_backward(self, doubts: Dict[Layer, Optional[str]], result: Any) -> Any:
        """Drops biases proven redundant, with the gradient that this pass still gave them."""
        for layer, doubt in doubts.items():
            layer.proofs += doubt is None
            if doubt is not None:
                self._leave(layer, doubt)
            elif layer.proofs == PROOFS:
                self._drop(layer)
        return result

    def _leave(self, layer: Layer, because: str) -> None:
        layer.off = True
        if layer.norms:  # others are nobody's concern
            tell = self.here.withdrawn if layer.dropped else self.here.left_alone
            tell("bias of a convolution", because, layer.at)

    def _drop(self, layer: Layer) -> None:
        convolution = layer.convolution()
        distributed = self.torch.distributed
        if convolution is None:
            return
        if distributed.is_available() and distributed.is_initialized():
            self._leave(layer, "gradient sync waits for the gradient of the bias")
            return
        layer.dropped = True
        convolution.bias.requires_grad_(False)
        convolution.bias.grad = None
        self.here.applied("bias of a convolution", "added and trained", "kept as it is", layer.at)

    def _give_up(self) -> None:
        """Adds the bias again, from now on, in convolutions whose output without it went elsewhere."""
        for _, layer in self.bare.values():
            self._leave(layer, "something else uses its output now")
        self.bare.clear()


class Graph:
    """The graph that a backward pass is about to run, from the loss down."""

    def __init__(self, roots: List[Any]) -> None:
        self.parents: Dict[Any, List[Any]] = {root: [None] for root in roots if root is not None}
        self.layers: Dict[Layer, List[Any]] = {}  # the nodes of each
        self.leaves: Dict[int, Any] = {}  # identity of a parameter -> its node
        waiting = list(self.parents)
        while waiting:
            node = waiting.pop()
            self._note(node)
            for child, _ in node.next_functions:
                if child is None:
                    continue
                if child not in self.parents:
                    self.parents[child] = []
                    waiting.append(child)
                self.parents[child].append(node)

    def _note(self, node: Any) -> None:
        if hasattr(node, "variable"):
            self.leaves[id(node.variable)] = node
            return
        layer = node.metadata.get(KEY)
        if isinstance(layer, Layer):
            self.layers.setdefault(layer, []).append(node)

    def doubt(self, layer: Layer) -> Optional[str]:
        """The reason why this layer's bias is not redundant, or None."""
        nodes = self.layers[layer]
        takers = [parent for node in nodes for parent in self.parents[node]]
        norms = [None if taker is None else taker.metadata.get(KEY) for taker in takers]
        layer.norms.update(norm for norm in norms if norm is not None and not isinstance(norm, Layer))
        if len(takers) != len(nodes) or len(layer.norms) == 0 or None in norms:
            return "something else uses its output, too"
        if any(taker.next_functions[0][0] is not node for taker, node in zip(takers, nodes)):
            return "its output is used as a weight of the normalisation"
        convolution = layer.convolution()
        leaf = None if convolution is None else self.leaves.get(id(convolution.bias))
        if leaf is None:
            return "its bias is not trained"
        if any(user not in nodes for user in self._users(leaf)):
            return "something else uses its bias, too"
        return None

    def _users(self, leaf: Any) -> List[Any]:
        """The nodes that use a parameter, directly or in another number type."""
        found = []
        for parent in self.parents[leaf]:
            found += self.parents[parent] if parent.name() == CAST else [parent]
        return found


def _uses_batch(norm: Any) -> bool:
    """Whether a batch normalisation takes its mean from the batch at hand."""
    return bool(norm.training or norm.running_mean is None)


def _move(norm: Any, convolution: Any) -> None:
    """Adds to the running mean what the bias would have added."""
    if norm.running_mean is not None:
        share = 1.0 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
        # `.data`: the graph holds the running mean, and does not read it where the batch's own was taken.
        norm.running_mean.data.add_(convolution.bias.detach(), alpha=share)


@tweak("--drop-conv-bias", ROUNDING, waits=PROOFS)
def drop_conv_bias(here: Tweaking) -> None:
    """Drop the bias of convolutions where a batch normalisation follows."""
    torch = here.torch
    own = Biases(here)
    here.alter(torch.nn.modules.conv._ConvNd, "__init__", own.before_init)
    for kind in (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d):
        here.alter(kind, "_conv_forward", own.before_convolution, own.after_convolution)
    here.alter(torch.nn.modules.batchnorm._BatchNorm, "forward", own.before_norm, own.after_norm)
    here.alter(torch.autograd, "backward", own.before_backward, own.after_backward)
