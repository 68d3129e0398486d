"""Tells what a library's frame, or a call without a frame of its own, is doing: reading, decoding, ...

Tables of file patterns and call names. A stack sampler sees Python frames only: what runs in C shows as the
line that calls it, so such a line is judged by the names that it calls.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Listing, calls, header, parsed_line, statements
from perfdoctor.model.batch import Stage

LibraryWork = tuple[Stage, str]  # what is done, and the kind of it

LOCK, THREAD, COPY = (Stage.WAITING, "lock"), (Stage.WAITING, "thread"), (Stage.TRANSFORMING, "copy")
SLEEP = (Stage.WAITING, "sleep")
SPARSE = (Stage.TRANSFORMING, "sparse")  # a row of a matrix that is stored by columns, or the other way round

# Where in a file's path, the function if not all of them, and what it does. The first that fits counts.
_FILES = (
    (r"fsspec/implementations/(?:local|memory)\.py", None, (Stage.READING, "file")),
    (r"smart_open/local_file\.py", None, (Stage.READING, "file")),
    (r"smart_open/(?:http|s3|gcs|azure|ssh|ftp|hdfs|webhdfs)\.py", None, (Stage.FETCHING, "")),
    (r"/(?:urllib3|requests|httpx|httpcore|h11|aiohttp|websockets|grpc|paramiko|redis|pymongo)/", None,
     (Stage.FETCHING, "")),
    (r"/(?:boto3|botocore|aiobotocore|s3transfer|s3fs|gcsfs|adlfs|minio)/", None, (Stage.FETCHING, "")),
    (r"/google/(?:cloud|api_core)/|/azure/(?:storage|core)/|/pymysql/", None, (Stage.FETCHING, "")),
    (r"/(?:socket|ssl|ftplib|asyncio/sslproto|http/client|urllib/request)\.py$", None,
     (Stage.FETCHING, "")),
    (r"/fsspec/(?:asyn|implementations/(?:http|s?ftp|webhdfs|github|smb))\.py", None, (Stage.FETCHING, "")),
    (r"/huggingface_hub/", None, (Stage.FETCHING, "")),
    (r"/PIL/(?:ImageFile|\w+ImagePlugin)\.py$", None, (Stage.DECODING, "image")),
    (r"/PIL/Image\.py$", r"open|_open_core|load", (Stage.DECODING, "image")),
    (r"/PIL/Image\.py$", r"resize|thumbnail|convert|reduce|draft", (Stage.TRANSFORMING, "image")),
    (r"/torchvision/io/image\.py$", None, (Stage.DECODING, "image")),
    (r"/(?:imageio|imagecodecs|tifffile|rawpy|turbojpeg|simplejpeg|jpeg4py|pyvips|openslide|skimage/io)[/.]",
     None, (Stage.DECODING, "image")),
    (r"/(?:nibabel|pydicom|SimpleITK|monai/data/image_reader)[/.]", None, (Stage.DECODING, "image")),
    (r"/torchaudio/(?:transforms|functional|compliance|models|pipelines|prototype)/", None,
     (Stage.TRANSFORMING, "")),
    (r"/librosa/core/audio\.py$", r"load|stream|\w*(?:audioread|soundfile)_load", (Stage.DECODING, "audio")),
    (r"/(?:soundfile|audioread|pydub|torchaudio|scipy/io/wavfile)[/.]|/wave\.py$", None,
     (Stage.DECODING, "audio")),
    (r"/(?:decord|torchcodec|moviepy|pytorchvideo|torchvision/io/_?video\w*)[/.]", None,
     (Stage.DECODING, "video")),
    (r"/(?:pyarrow/parquet|pyarrow/dataset|petastorm|fastparquet)[/.]|/pandas/io/parquet\.py$", None,
     (Stage.READING, "table")),
    (r"/scipy/sparse/_?csc\.py$", r"_get_(?:int|array)X(?:slice|array)|_?getrow", SPARSE),
    (r"/scipy/sparse/_?csr\.py$", r"_get_sliceX(?:int|array)|_?getcol", SPARSE),
    (r"/scipy/io/(?:matlab|arff)/", None, (Stage.READING, "file")),
    (r"/(?:pandas/io|polars/io)/", None, (Stage.READING, "text")),
    (r"/(?:gzip|bz2|lzma|_compression|zipfile)(?:/__init__|/_path)?\.py$|/(?:zstandard|lz4|blosc)/", None,
     (Stage.DECODING, "archive")),
    (r"/numpy/lib/_?(?:npyio|format)\w*\.py$|/numpy/_core/memmap\.py$|/numpy/core/memmap\.py$", None,
     (Stage.READING, "file")),
    (r"/(?:h5py|zarr|netCDF4|tables|lmdb|webdataset|tfrecord|datasets/arrow_\w+|safetensors|dbm)[/.]", None,
     (Stage.READING, "file")),
    (r"/(?:tarfile|shelve|linecache|torch/serialization|pathlib(?:/\w+)?)\.py$", None,
     (Stage.READING, "file")),
    (r"^<frozen codecs>$|/codecs\.py$|/_pyio\.py$|/fileinput\.py$|/sqlite3/|/mmap\.py$", None,
     (Stage.READING, "file")),
)  # fmt: skip
# Consulted last: libraries wait in these on the way to something that has a better name.
_WAITS = (
    (r"/multiprocessing/synchronize\.py$|/(?:filelock|portalocker|fasteners)/", None, LOCK),
    (r"/concurrent/futures/|/queue\.py$|/multiprocessing/(?:pool|queues|managers|connection)\.py$|/joblib/",
     None, THREAD),
    (r"/threading\.py$", r"acquire|__enter__", LOCK),
    (r"/threading\.py$", r"wait|join|_wait_for_tstate_lock|wait_for", THREAD),
    (r"/(?:selectors|subprocess|asyncio/\w+)\.py$", None, THREAD),
)  # fmt: skip
_CONNECTING = re.compile(
    r"connect|create_connection|do_handshake|_?wrap_socket|getaddrinfo|_new_conn|_validate_conn"
)

_CAPTURES = frozenset({"cap", "capture", "video", "vid", "camera"})  # what an OpenCV reader is usually called
ANY = None  # whatever it is called on
# (name, what it is called on), for calls into C. None as owner: a bare name.
_CALLS: dict[str, tuple[frozenset[str | None] | None, LibraryWork]] = {
    **dict.fromkeys(("acquire", "flock", "lockf"), (ANY, LOCK)),
    **dict.fromkeys(("recv", "recv_into", "recvfrom", "sendall", "urlopen"), (ANY, (Stage.FETCHING, ""))),
    **dict.fromkeys(("imread", "imdecode", "decode_jpeg", "decode_image"), (ANY, (Stage.DECODING, "image"))),
    **dict.fromkeys(("decompress", "decompressobj"), (ANY, (Stage.DECODING, "archive"))),
    **dict.fromkeys(("read_table", "read_row_group", "read_parquet"), (ANY, (Stage.READING, "table"))),
    **dict.fromkeys(
        ("fromfile", "memmap", "pread", "read_bytes", "read_text", "readline", "readlines", "readinto",
         "fetchone", "fetchall", "fetchmany", "executemany"),
        (ANY, (Stage.READING, "file")),
    ),
    "execute": (frozenset({"conn", "con", "connection", "cursor", "cur", "db"}), (Stage.READING, "file")),
    "get": (frozenset({"txn", "transaction"}), (Stage.READING, "file")),  # lmdb
    "retrieve": (_CAPTURES, (Stage.DECODING, "video")),
    "resize": (frozenset({"cv2"}), (Stage.TRANSFORMING, "image")),
    "cvtColor": (frozenset({"cv2"}), (Stage.TRANSFORMING, "image")),
    "read": (ANY, (Stage.READING, "file")),
    "open": (frozenset({None, "io", "os", "gzip", "bz2", "lzma"}), (Stage.READING, "file")),
    "sleep": (ANY, SLEEP),
}  # fmt: skip
_LOCKS = re.compile(r"(?<![bcu])lock|mutex|semaphore|^sem$", re.IGNORECASE)  # no block, clock, unlock
_COPIES = frozenset({"tensor", "FloatTensor", "LongTensor", "DoubleTensor", "IntTensor", "Tensor"})
_TORCH = frozenset({None, "torch", "th"})
_PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant)
_TOP = re.compile(r"[/\\]([^/\\]+)")  # the package or module of a path below the folder that they lie in


_Table = tuple[tuple[re.Pattern[str], "re.Pattern[str] | None", LibraryWork], ...]


def _compiled(table: tuple[tuple[str, str | None, LibraryWork], ...]) -> _Table:
    return tuple((re.compile(file), re.compile(name) if name else None, work) for file, name, work in table)


_BY_FILE, _BY_WAIT = _compiled(_FILES), _compiled(_WAITS)


@lru_cache(maxsize=4096)
def of_frame(frame: Frame) -> LibraryWork | None:
    """What a library's frame is at; None where it is nothing special."""
    return _first(_BY_FILE, frame)


@lru_cache(maxsize=4096)
def of_wait(frame: Frame) -> LibraryWork | None:
    """What an innermost frame waits for, or None."""
    return _first(_BY_WAIT, frame)


def _first(table: _Table, frame: Frame) -> LibraryWork | None:
    if frame.owner is Owner.USER:
        return None
    path = frame.module_path.replace("\\", "/")
    for file, function, work in table:
        if file.search(path) and (function is None or function.fullmatch(frame.name)):
            return work
    return None


def connects(frame: Frame) -> bool:
    """Whether a frame opens a connection."""
    return frame.owner is not Owner.USER and bool(_CONNECTING.fullmatch(frame.name))


def library(frame: Frame) -> str | None:
    """The name of the package or module that a frame belongs to; None for the user's own and the probe's.

    The probe may lie anywhere, as where perfdoctor is installed from a working copy.
    """
    if frame.owner in (Owner.USER, Owner.PROBE):
        return None
    match = _TOP.match(frame.module_path)
    return match[1].removesuffix(".py") if match else None


def of_statement(node: ast.stmt | None) -> LibraryWork | None:
    """What a line without a frame beyond it is at, by the names it calls."""
    if node is None:
        return None
    if takes_lock(node):
        return LOCK
    for owner, name in calls(node):
        owners, work = _CALLS.get(name, (frozenset(), None))
        if name == "read" and owner in _CAPTURES:
            return Stage.DECODING, "video"
        if work is not None and (owners is ANY or owner in owners):
            return work
    return COPY if copies(node) else None


def takes_lock(node: ast.stmt) -> bool:
    """Whether a statement is the head of `with lock:`."""
    if not isinstance(node, (ast.With, ast.AsyncWith)):
        return False
    return any(_LOCKS.search(_name(item.context_expr)) for item in node.items)


def lock_around(listing: Listing, line: int) -> ast.stmt | None:
    """The `with lock:` whose body holds a line, or None."""
    scope = listing.scope(line)
    for node in statements(scope.body) if scope else ():
        if takes_lock(node) and node.lineno < line <= (node.end_lineno or 0):
            return node
    return None


def copies(node: ast.stmt) -> bool:
    """Whether a line only copies into new tensors: `torch.tensor(rows)` with nothing computed inside it."""
    call_nodes = [inner for part in header(node) for inner in ast.walk(part) if isinstance(inner, ast.Call)]
    made = [call for call in call_nodes if _makes_tensor(call)]
    inside = {id(call) for call in made}
    return bool(made) and all(id(call) in inside or _is_method_of(call, inside) for call in call_nodes)


def _makes_tensor(call: ast.Call) -> bool:
    owner = _name(call.func.value) if isinstance(call.func, ast.Attribute) else None
    return (
        _name(call.func) in _COPIES
        and owner in _TORCH
        and bool(call.args)
        and isinstance(call.args[0], _PLAIN)
    )


def _is_method_of(call: ast.Call, made: set[int]) -> bool:
    """`torch.tensor(x).float()`: cheap beside the copy."""
    inner: ast.expr = call.func
    while isinstance(inner, (ast.Attribute, ast.Call)):
        if id(inner) in made:
            return True
        inner = inner.value if isinstance(inner, ast.Attribute) else inner.func
    return False


def _name(node: ast.expr) -> str:
    """The last name of an expression: `self.lock` gives "lock"."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return _name(node.func) if isinstance(node, ast.Call) else ""


def called(text: str | None) -> frozenset[str]:
    """What a line calls and indexes: "json.loads", ".iloc["; nothing where it is no whole statement."""
    tree = parsed_line(text)
    if tree is None:
        return frozenset()
    names = {
        f"{owner}.{name}" if owner else name
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt)
        for owner, name in calls(node)
    }
    return frozenset(names) | {
        f".{node.value.attr}["
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)
    }


def keywords(node: ast.stmt | None, called: str) -> Iterator[str]:
    """The keyword arguments of the calls of that name in a statement."""
    for part in header(node) if node is not None else ():
        for inner in ast.walk(part):
            if isinstance(inner, ast.Call) and _name(inner.func) == called:
                yield from (keyword.arg for keyword in inner.keywords if keyword.arg)
