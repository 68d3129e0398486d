import json
import os

from perfdoctor.probe import user_frames


def test_installed_and_standard_code_is_not_the_users():
    assert not user_frames.is_users(json.__file__)
    assert not user_frames.is_users("/home/me/venv/lib/python3.11/site-packages/torch/nn/modules/module.py")
    assert not user_frames.is_users("<frozen importlib._bootstrap>")
    assert not user_frames.is_users(user_frames.__file__)


def test_our_own_code_is_not_the_users_where_a_run_links_to_it(tmp_path):
    (tmp_path / "probe").symlink_to(os.path.dirname(user_frames.__file__))
    assert not user_frames.is_users(str(tmp_path / "probe" / "where.py"))


def test_what_torch_compile_writes_is_not_the_users():
    name = "c" + "abcdefghijklmnopqrstuvwxyz234567"[:32] + "abcdefghijklmnopqrs" + ".py"
    assert not user_frames.is_users(f"/scratch/cache/ab/{name}")
    assert not user_frames.is_users("/tmp/torchinductor_me/ab/other.py")
    assert not user_frames.is_users("/tmp/torch_geometric.nn.conv.gcn_conv_GCNConv_propagate_xv_4qogx.py")
    assert user_frames.is_users("/home/me/labels_propagate.py")


def test_scripts_and_code_from_stdin_are_the_users():
    assert user_frames.is_users("train.py")
    assert user_frames.is_users("/home/me/project/train.py")
    assert user_frames.is_users("<stdin>")


def test_the_line_is_the_innermost_one_of_the_user():
    line = json.loads("{}", object_hook=lambda _: user_frames.user_line())
    assert line["file"] == os.path.abspath(__file__)
    assert line["function"] == "<lambda>"


class Made:
    def __init__(self):
        self.at = user_frames.making_line(self)


class MadeOfMore(Made):
    def __init__(self):
        super().__init__()
        self.part = Made()


def test_what_makes_an_object_is_the_line_that_calls_its_class():
    made = MadeOfMore()
    assert made.at["function"] == "test_what_makes_an_object_is_the_line_that_calls_its_class"
    assert made.part.at["function"] == "__init__"


def test_what_a_library_makes_has_no_line():
    library = {}
    exec(compile("def make(kind): return kind()", "/v/site-packages/hub/factory.py", "exec"), library)
    assert library["make"](Made).at is None


def test_callers_are_told_from_the_inside_out():
    def inner():
        return user_frames.user_lines()

    lines = inner()
    assert [line["function"] for line in lines[:2]] == ["inner", "test_callers_are_told_from_the_inside_out"]
    assert len(lines) <= user_frames.FRAMES_MAX


def test_the_library_between_is_the_one_whose_options_count():
    """Transformers asks accelerate, which makes the loader."""
    asked = {"inner": user_frames.library_between, "__name__": "accelerate.data_loader"}
    exec(compile("def make(): return inner()", "/v/site-packages/accelerate/data_loader.py", "exec"), asked)
    asking = {"make": asked["make"], "__name__": "transformers.trainer"}
    exec(compile("def train(): return make()", "/v/site-packages/transformers/trainer.py", "exec"), asking)
    assert asking["train"]() == "transformers"
    assert asked["make"]() == "accelerate"
    assert user_frames.library_between() is None


def test_a_call_by_a_library_is_not_the_users_own():
    def handed_on(name):
        ways = {"__name__": name, "asked": user_frames.is_called_by_user}
        exec(compile("def call(): return asked()", "/venv/lib/site-packages/torch/module.py", "exec"), ways)
        return ways["call"]

    assert user_frames.is_called_by_user()
    assert handed_on("torch.nn.modules.container")()
    assert not handed_on("torch.nn.modules.transformer")()
