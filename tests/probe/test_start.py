import sys

import pytest

torch = pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process


def test_the_boot_line_tells_interpreter_torch_and_threads(tmp_path):
    records = watched(tmp_path, "import torch", OMP_NUM_THREADS="1")
    (boot,) = records.boots
    assert boot["python"] == ".".join(str(part) for part in sys.version_info[:3])
    assert boot["torch"] == torch.__version__
    assert (boot["threads"], boot["threads_env"]["OMP_NUM_THREADS"]) == (1, "1")


def test_torch_looks_and_behaves_as_before(tmp_path):
    watched(
        tmp_path,
        """
        import torch, inspect, pickle, copy
        assert type(torch.__spec__.loader).__name__ == "SourceFileLoader"
        assert "exec_module" not in vars(torch.__spec__.loader)
        loader = torch.utils.data.DataLoader([1, 2, 3])
        assert type(iter(loader)).__name__ == "_SingleProcessDataLoaderIter"
        assert len(iter(loader)) == 3
        assert pickle.loads(pickle.dumps(torch.autograd.backward)) is torch.autograd.backward
        assert inspect.signature(torch.save).parameters["f"] is not None
        net = copy.deepcopy(torch.nn.Linear(2, 2))
        assert type(net).__call__.__name__ == "_wrapped_call_impl"
        """,
    )
