"""Names of calls whose effect on training is known: those that change it, and those that only read.

A call that is in no table and whose source is in another file can do anything.
"""

from __future__ import annotations

import builtins
import re

BACKWARDS = frozenset({"backward", "manual_backward"})
# They change parameters, gradients, the state of an optimizer, or what other ranks wait for.
TRAINING_CALLS = frozenset(
    "backward manual_backward step zero_grad toggle_optimizer untoggle_optimizer unscale_ unscale_gradients "
    "clip_grad_norm_ clip_grad_value_ clip_grad_norm clip_gradients clip_grads_with_norm_ load_state_dict "
    "update_parameters update_bn requires_grad_ add_param_group vector_to_parameters all_reduce all_gather "
    "reduce_scatter broadcast barrier reset_parameters".split()
)
MODE_CALLS = frozenset({"train", "eval"})
MOVES = frozenset("to cpu cuda half float double bfloat16".split())  # of a module, in place

_IMPURE_BUILTINS = frozenset(
    {"exec", "eval", "setattr", "delattr", "__import__", "input", "exit", "quit", "next"}
)
PURE_BUILTINS = (
    frozenset(name for name in dir(builtins) if callable(getattr(builtins, name))) - _IMPURE_BUILTINS
)

# Modules whose functions change nothing of the caller's, by the first part of their names ...
PURE_MODULES = frozenset(
    "torch numpy math cmath statistics sklearn scipy pandas matplotlib seaborn torchmetrics torchvision "
    "collections itertools functools operator re json csv time datetime logging warnings wandb mlflow pprint "
    "tqdm rich psutil copy io sys os pathlib tensorboardX loguru editdistance jiwer sacrebleu nltk "
    "rouge_score zlib bz2 lzma gzip hashlib base64 binascii string textwrap difflib "
    "unicodedata".split()
)
# ... but for these parts of them.
IMPURE_PARTS = frozenset(
    "distributed optim utils init random backends cuda autograd amp func _dynamo multiprocessing optimize "
    "exit _exit kill environ chdir jit".split()
)
# Even below an impure part.
READING_PARTS = frozenset(
    "synchronize memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_summary "
    "mem_get_info current_device device_count SummaryWriter".split()
)
IMPURE_STARTS = ("set_", "manual_", "use_", "seed", "register_", "init_", "_foreach_")
# What a bare name usually stands for where the file imports nothing of that name.
USUAL_ALIASES = {
    "np": "numpy", "F": "torch.nn.functional", "nn": "torch.nn", "pd": "pandas", "plt": "matplotlib",
    "optim": "torch.optim", "dist": "torch.distributed",
}  # fmt: skip

# Methods that change neither what they are called on nor their arguments.
PURE_METHODS = frozenset(
    # tensors and arrays
    "item tolist numpy cpu cuda to detach clone float double half bfloat16 long int bool type argmax "
    "argmin max min amax amin mean sum std var norm abs sqrt exp log log2 log10 log1p pow round floor "
    "ceil sigmoid tanh softmax log_softmax relu clamp clip eq ne gt lt ge le any all nonzero topk sort "
    "argsort unique bincount histc quantile median view reshape flatten squeeze unsqueeze permute "
    "transpose t expand repeat size dim numel element_size nelement element isnan isinf isfinite cumsum "
    "cumprod prod dot matmul mm bmm diag diagonal trace gather index_select masked_select masked_fill "
    "where chunk split unbind contiguous data_ptr square mul add_scalar div sub rsub neg sign logsumexp "
    "entropy expand_as view_as type_as astype copy ravel nanmean count_nonzero cosine_similarity cov corr "
    "corrcoef "
    # modules and optimizers
    "parameters named_parameters buffers named_buffers children named_children modules named_modules "
    "state_dict get_last_lr get_lr get_scale get_submodule "
    # built-in types
    "format join strip lstrip rstrip lower upper startswith endswith replace encode decode count index find "
    "keys values items get splitlines rjust ljust zfill title isdigit most_common isoformat strftime "
    "total_seconds elapsed elapsed_time exists is_file hexdigest "
    # metrics: what they have gathered
    "compute result avg value summary".split()
)
# Methods that take values into their object, and leave those values as they are.
RECORDING_METHODS = frozenset(
    "append appendleft extend add insert update push put record accumulate observe setdefault inc increment "
    "register_value add_batch track collect write writelines writerow writerows save".split()
)
# Calls that give another thing each time.
DRAWS = re.compile(r"rand|shuffle|permutation|choice|sample|bernoulli|multinomial|normal$|uniform|dropout")
CONTAINERS = frozenset("list dict set tuple deque defaultdict Counter OrderedDict".split())
# Functions of libraries that change what they are given first ...
WRITING_FUNCTIONS = frozenset(
    "copyto at put place putmask fill_diagonal setitem delitem iadd iconcat imul isub ior iand".split()
)
# ... and NumPy's of so many numbers, which take what to write to as the next.
UFUNC_INPUTS = {
    **dict.fromkeys("add subtract multiply divide power maximum minimum".split(), 2),
    **dict.fromkeys("sqrt exp log abs sign".split(), 1),
}
# Methods that hand out what their object holds, rather than a value computed from it.
REFERENCES = frozenset(
    "parameters named_parameters buffers named_buffers children named_children modules named_modules "
    "state_dict values items keys get to cuda cpu detach view data float double half view_as reshape "
    "flatten squeeze unsqueeze get_submodule copy numpy".split()
)
