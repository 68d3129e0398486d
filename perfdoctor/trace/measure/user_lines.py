"""Tells the user's own code from installed code, in what the profiler records of Python."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import lru_cache

from perfdoctor.model.measured import Location
from perfdoctor.model.user_code import INSTALLED

FRAME = re.compile(r"(?P<file>.+\.py[xi]?)\((?P<line>\d+)\): (?P<function>.+)")
# The profiler cuts the folders of sys.path off, and with them what says that a file is installed. Names
# that users give their own folders, such as datasets, are left out.
LIBRARIES = frozenset(
    """torch torchvision torchaudio torchtext torchdata torchmetrics torchrec torchao torchtune numpy scipy
    pandas sklearn PIL cv2 skimage albumentations kornia timm transformers tokenizers accelerate peft
    trl diffusers safetensors huggingface_hub lightning lightning_fabric lightning_utilities
    pytorch_lightning fastai ignite composer deepspeed megatron apex flash_attn xformers bitsandbytes
    triton vllm sglang aiter transformer_engine fbgemm_gpu tensorboard tensorboardX wandb mlflow
    comet_ml neptune clearml tqdm rich click hydra omegaconf absl fsspec pyarrow joblib dill
    cloudpickle multiprocess packaging typing_extensions einops jaxtyping sentencepiece webdataset
    h5py zarr numba ray dask requests urllib3 aiohttp botocore boto3 pydantic IPython ipykernel
    traitlets tornado zmq jupyter_client pytest _pytest pluggy moviepy decord av librosa soundfile
    torch_geometric dgl torch_scatter torch_sparse monai nibabel gymnasium gym stable_baselines3 sympy
    networkx filelock psutil yaml regex nltk spacy perfdoctor""".split()
)


@lru_cache(maxsize=65536)
def location(frame: str) -> Location | None:
    """The line of the user's code that a frame names, "path/file.py(12): function"; None for other code."""
    parts = FRAME.fullmatch(frame)
    if not parts or _is_installed(parts["file"]):
        return None
    return Location(parts["file"], int(parts["line"]), parts["function"])


def innermost_line(stack: Iterable[str]) -> Location | None:
    """The user's line nearest to the call, of a stack with its innermost frame first."""
    return next((at for frame in stack if (at := location(frame))), None)


def _is_installed(file: str) -> bool:
    if INSTALLED.search(file):
        return True
    first, _, rest = file.partition("/")
    if rest:
        return first in LIBRARIES or first in sys.stdlib_module_names
    return first.removesuffix(".py") in sys.stdlib_module_names
