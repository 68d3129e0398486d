from __future__ import annotations

import ast

import pytest

from perfdoctor.facts.host.logging_frames import is_of_a_log
from perfdoctor.facts.user_source import library_table
from perfdoctor.facts.user_source.frames import parse
from perfdoctor.facts.user_source.library_table import (
    COPY,
    LOCK,
    SLEEP,
    THREAD,
    of_frame,
    of_statement,
    of_wait,
)
from perfdoctor.facts.user_source.parse import Listing
from perfdoctor.model.batch import Stage

SITE = "/venv/lib/python3.11/site-packages"
STANDARD = "/usr/lib/python3.11"


def frame(function, file):
    found = parse(f"{function} ({file}:7)")
    assert found is not None
    return found


def statement(text):
    return ast.parse(text).body[0]


@pytest.mark.parametrize(
    ("function", "file", "work"),
    [
        ("load", f"{SITE}/PIL/ImageFile.py", (Stage.DECODING, "image")),
        ("_open", f"{SITE}/PIL/JpegImagePlugin.py", (Stage.DECODING, "image")),
        ("Image.resize", f"{SITE}/PIL/Image.py", (Stage.TRANSFORMING, "image")),
        ("Image.transpose", f"{SITE}/PIL/Image.py", None),
        ("decode_jpeg", f"{SITE}/torchvision/io/image.py", (Stage.DECODING, "image")),
        ("load", f"{SITE}/librosa/core/audio.py", (Stage.DECODING, "audio")),
        ("__init__", f"{SITE}/decord/video_reader.py", (Stage.DECODING, "video")),
        ("read", f"{STANDARD}/gzip.py", (Stage.DECODING, "archive")),
        ("_read1", f"{STANDARD}/zipfile.py", (Stage.DECODING, "archive")),
        ("read_array", f"{SITE}/numpy/lib/_format_impl.py", (Stage.READING, "file")),
        ("read_array", f"{SITE}/numpy/lib/format.py", (Stage.READING, "file")),
        ("__getitem__", f"{SITE}/h5py/_hl/dataset.py", (Stage.READING, "file")),
        ("read_bytes", f"{STANDARD}/pathlib.py", (Stage.READING, "file")),
        ("read_bytes", f"{STANDARD}/pathlib/_local.py", (Stage.READING, "file")),
        ("read", f"{SITE}/pyarrow/parquet/core.py", (Stage.READING, "table")),
        ("read_parquet", f"{SITE}/pandas/io/parquet.py", (Stage.READING, "table")),
        ("readinto", f"{STANDARD}/socket.py", (Stage.FETCHING, "")),
        ("read", f"{STANDARD}/ssl.py", (Stage.FETCHING, "")),
        ("begin", f"{STANDARD}/http/client.py", (Stage.FETCHING, "")),
        ("send", f"{SITE}/requests/sessions.py", (Stage.FETCHING, "")),
        ("_api_call", f"{SITE}/botocore/client.py", (Stage.FETCHING, "")),
        ("sync", f"{SITE}/fsspec/asyn.py", (Stage.FETCHING, "")),
        ("read", f"{SITE}/fsspec/implementations/local.py", (Stage.READING, "file")),
        ("open", f"{SITE}/smart_open/s3.py", (Stage.FETCHING, "")),
        ("get", r"C:\env\Lib\site-packages\requests\api.py", (Stage.FETCHING, "")),
        ("dot", f"{SITE}/scipy/sparse/_base.py", None),
        ("_csc_base._get_intXslice", f"{SITE}/scipy/sparse/_csc.py", (Stage.TRANSFORMING, "sparse")),
        ("csc_matrix._get_arrayXslice", f"{SITE}/scipy/sparse/csc.py", (Stage.TRANSFORMING, "sparse")),
        ("_csc_base._get_sliceXint", f"{SITE}/scipy/sparse/_csc.py", None),
        ("_csr_base._get_sliceXint", f"{SITE}/scipy/sparse/_csr.py", (Stage.TRANSFORMING, "sparse")),
        ("_csr_base._get_intXslice", f"{SITE}/scipy/sparse/_csr.py", None),
        ("socket", "/home/me/project/socket.py", None),
    ],
)
def test_a_frame_of_a_library_tells_what_it_is_at(function, file, work):
    assert of_frame(frame(function, file)) == work


@pytest.mark.parametrize(
    ("function", "file", "wait"),
    [
        ("SemLock.__enter__", f"{STANDARD}/multiprocessing/synchronize.py", LOCK),
        ("acquire", f"{SITE}/filelock/_api.py", LOCK),
        ("Condition.wait", f"{STANDARD}/threading.py", THREAD),
        ("Future.result", f"{STANDARD}/concurrent/futures/_base.py", THREAD),
        ("Queue.get", f"{STANDARD}/queue.py", THREAD),
        ("Popen.communicate", f"{STANDARD}/subprocess.py", THREAD),
        ("Thread.run", f"{STANDARD}/threading.py", None),
        ("wait", "/home/me/queue.py", None),
    ],
)
def test_an_innermost_frame_tells_what_is_waited_for(function, file, wait):
    assert of_wait(frame(function, file)) == wait


@pytest.mark.parametrize(
    ("line", "work"),
    [
        ("data = open(path, 'rb').read()", (Stage.READING, "file")),
        ("raw = self.file.read(4096)", (Stage.READING, "file")),
        ("image = cv2.imread(path)", (Stage.DECODING, "image")),
        ("pixels = zlib.decompress(raw)", (Stage.DECODING, "archive")),
        ("part = self.sock.recv(4096)", (Stage.FETCHING, "")),
        ("time.sleep(0.1)", SLEEP),
        ("lock.acquire()", LOCK),
        ("fcntl.flock(handle, fcntl.LOCK_EX)", LOCK),
        ("with self.lock:\n    pass", LOCK),
        ("with FileLock(path):\n    pass", LOCK),
        ("with self.block:\n    pass", None),
        ("with open(path) as file:\n    pass", (Stage.READING, "file")),
        ("image = Image.open(path)", None),
        ("x = torch.tensor(rows)", COPY),
        ("x = torch.FloatTensor(self.rows[i]).unsqueeze(0)", COPY),
        ("return torch.tensor(a), torch.tensor(b, dtype=torch.long)", COPY),
        ("x = torch.tensor([f(row) for row in rows])", None),
        ("x = torch.tensor(clean(rows))", None),
        ("x = clean(torch.tensor(rows))", None),
        ("x = keras.tensor(rows)", None),
        ("y = x * 2", None),
    ],
)
def test_a_line_without_a_frame_beyond_it_is_judged_by_what_it_calls(line, work):
    assert of_statement(statement(line)) == work


def test_a_line_inside_a_lock_is_found_and_the_one_that_takes_it_is_not():
    listing = Listing(["def get(self):", "    with self.lock:", "        x = read()", "    return x"])
    assert [library_table.lock_around(listing, line) is not None for line in (2, 3, 4)] == [
        False,
        True,
        False,
    ]


def test_libraries_are_named_by_package_or_module():
    files = {
        "PIL": f"{SITE}/PIL/Image.py",
        "socket": f"{STANDARD}/socket.py",
        "http": f"{STANDARD}/http/client.py",
    }
    assert {name: library_table.library(frame("f", file)) for name, file in files.items()} == {
        name: name for name in files
    }
    assert library_table.library(frame("f", "/home/me/train.py")) is None
    assert library_table.library(frame("f", "/home/ann/perfdoctor/perfdoctor/probe/loader/making.py")) is None


def test_the_folder_that_an_environment_lies_in_names_no_library():
    file = "/home/me/redis/python3-envs/lib/python3.11/site-packages/scipy/signal/windows.py"
    assert of_frame(frame("f", file)) is None
    assert library_table.library(frame("f", file)) == "scipy"
    assert library_table.library(frame("f", "/home/me/python3-envs/lib/python3.11/json/decoder.py")) == "json"
    assert not is_of_a_log(frame("f", "/home/rich/conda/lib/python3.11/site-packages/torch/functional.py"))


def test_opening_a_connection_is_told_from_using_it():
    assert library_table.connects(frame("create_connection", f"{STANDARD}/socket.py"))
    assert not library_table.connects(frame("readinto", f"{STANDARD}/socket.py"))
