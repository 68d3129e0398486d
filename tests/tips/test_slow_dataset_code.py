from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from perfdoctor.facts.user_source.frames import parse
from perfdoctor.facts.user_source.library_table import library, of_frame, of_statement
from perfdoctor.model.batch import CalledBack, Stage
from perfdoctor.model.measured import Location
from perfdoctor.tips.slow_dataset_code import slow_dataset_code as tip
from tests.support import facts
from tests.support.facts import cpu, line, loader, step
from tests.support.load_facts import batch, cost

STARVED = step(data_wait=12, forward=3, backward=5, cpu=19)
PIXELS = line(0.7, 12, text="out[y][x] = image[y][x] ** 2", function="__getitem__")
REST = line(0.1, 30, function="augment")
SLOW = batch(cost(Stage.TRANSFORMING, 0.8, PIXELS, REST), cost(Stage.READING, 0.2, line(0.2, 8)))


def test_names_the_function_the_line_and_its_text():
    advice = tip(STARVED, loader(batch=12), SLOW, cpu())
    assert advice is not None
    assert advice.because == (
        "60% of each step waits for the next batch",
        "70% of a batch's 12.0 ms is spent in `__getitem__`, at line 12: `out[y][x] = image[y][x] ** 2`",
    )
    assert [at.line for at in advice.at] == [12]


def test_workers_that_keep_far_ahead_are_waited_for_only_to_hand_batches_over():
    handed_over = step(data_wait=3, forward=9, backward=8, cpu=19)  # 20 ms a step
    ahead = loader(workers=2, batch=9)
    assert tip(handed_over, ahead, SLOW, cpu()) is None
    assert tip(handed_over, loader(workers=2, batch=9, spread=(0.5, 2.5)), SLOW, cpu()) is not None
    slowed = replace(handed_over, contention_s=0.11 * handed_over.mean_s)
    assert tip(slowed, ahead, SLOW, cpu()) is not None


def test_expects_no_more_than_the_batches_cost():
    advice = tip(STARVED, loader(batch=12), SLOW, cpu())
    of = facts.model(STARVED, loader(batch=12), cpu())
    found = facts.gain(advice, of)
    assert 1 < found.low < found.likely < found.high <= 20 / 8


def test_names_the_cure_that_fits_the_line():
    rows = line(0.9, 8, text="row = self.table.iloc[index]", function="__getitem__")
    advice = tip(STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, rows)), cpu())
    assert advice is not None
    assert advice.code is not None
    assert "to_numpy" in advice.code


def test_a_name_that_ends_like_a_module_is_not_that_module():
    slow = line(0.9, 8, text="x = self.store.read(image.open(index))", leaf="_compile")
    advice = tip(STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, slow)), cpu())
    assert advice is not None
    assert advice.code is None


def test_a_draw_that_goes_over_all_weights_has_a_cure():
    drawing = batch(cost(Stage.TRANSFORMING, 0.9, line(0.8, text="i = rng.choice(n, 8, p=weights)")))
    assert "np.cumsum(weights)" in tip(STARVED, loader(batch=12), drawing, cpu()).code


def test_a_search_through_a_whole_table_goes_nearly_whole_wherever_it_stands():
    search = 'days = table[(table["station"] == station) & table["date"].between(begin, end)]'
    found, other = line(0.6, 8, text=search), line(0.3, 9, text="x = days.to_numpy()")
    alone = tip(STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, found)), cpu())
    beside = tip(STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, found, other)), cpu())
    assert "groupby" in alone.code
    assert alone.change.batch.likely == pytest.approx(0.9 * 0.6)
    assert beside.change.batch.likely == pytest.approx(0.9 * 0.6 + 0.7 * 0.3)


def test_a_mask_against_a_number_of_the_objects_is_no_search():
    masking = line(0.8, text="noise[torch.rand(noise.shape) < self.mask_prob] = 0")
    advice = tip(STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, masking)), cpu())
    assert advice.code is None
    assert advice.change.batch.likely == pytest.approx(0.8 * 0.8)


def test_on_a_crowded_machine_little_cpu_time_does_not_mean_waiting():
    advice = tip(STARVED, loader(batch=12, cpu=5), SLOW, cpu(cores=2, other_cores=1.5))
    assert advice is not None


def test_a_function_whose_lines_share_the_cost_is_named_by_them():
    spread = batch(cost(Stage.TRANSFORMING, 0.9, line(0.39, 1), line(0.3, 2), line(0.2, 3, function="other")))
    advice = tip(STARVED, loader(batch=12), spread, cpu())
    assert advice is not None
    assert "69% of a batch's 12.0 ms is spent in `main`, most of it at line 1" in advice.because[1]
    assert [at.line for at in advice.at] == [1, 2]


def test_where_the_cost_is_spread_over_functions_the_costliest_is_named_if_it_takes_much():
    parse, clean, pad = (
        (line(0.2, first, function=name), line(part, first + 1, function=name))
        for first, name, part in ((1, "parse", 0.15), (11, "clean", 0.1), (21, "pad", 0.05))
    )
    advice = tip(STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, *parse, *clean, *pad)), cpu())
    assert advice is not None
    assert "35% of a batch's 12.0 ms is spent in `parse`, most of it at line 1" in advice.because[1]
    small = (line(0.15, 10 * number, function=f"part{number}") for number in range(6))
    assert tip(STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, *small)), cpu()) is None


def test_time_without_a_core_is_work_too():
    starved_of_cores = cpu(cores=2, worker_delay=1.5, main_delay=0.5)
    assert tip(STARVED, loader(workers=1, batch=12, cpu=5), SLOW, starved_of_cores) is not None


CALLS = line(0.5, 26, text="return curve(image, gamma)", function="Curve.__call__", leaf="_vectorize_call")
CALLED = line(0.48, 16, text="return int(value ** gamma)", function="tone")
TONES = (cost(Stage.TRANSFORMING, 0.48, CALLED), cost(Stage.TRANSFORMING, 0.5, CALLS, library="numpy"))


def test_what_a_library_takes_to_call_a_function_is_put_down_to_the_function():
    back = CalledBack("train.py", "tone", CALLS.at, 0.4)
    advice = tip(STARVED, loader(batch=12), batch(*TONES, called_back=(back,)), cpu())
    assert advice is not None
    assert [at.line for at in advice.at] == [16, 26]
    assert advice.because[1:] == (
        "88% of a batch's 12.0 ms is spent in `tone`, at line 16: `return int(value ** gamma)`",
        "40% is what calling `tone` takes line 26: `return curve(image, gamma)`",
    )


def test_a_call_of_which_the_library_takes_nothing_for_a_function_is_a_place_of_its_own():
    advice = tip(STARVED, loader(batch=12), batch(*TONES), cpu())
    assert advice is not None
    assert [at.line for at in advice.at] == [26]
    unseen = CalledBack("train.py", "other", CALLS.at, 0.4)  # none of its lines takes anything
    assert tip(STARVED, loader(batch=12), batch(*TONES, called_back=(unseen,)), cpu()) == advice


@pytest.mark.parametrize(
    ("of_step", "of_loader", "of_batch"),
    [
        pytest.param(step(data_wait=1.9, forward=18.1), loader(batch=2), SLOW, id="wait-is-noise"),
        pytest.param(STARVED, loader(batch=12, cpu=5), SLOW, id="it-waits-for-something"),
        pytest.param(
            STARVED,
            loader(batch=12),
            batch(cost(Stage.TRANSFORMING, 0.9, line(0.2, 1), line(0.2, 2, function="other"))),
            id="neither-a-line-nor-a-function-takes-much",
        ),
        pytest.param(
            STARVED, loader(batch=12), batch(cost(Stage.DECODING, 0.9, kind="image")), id="it-decodes"
        ),
        pytest.param(
            STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, kind="copy")), id="it-copies"
        ),
    ],
)
def test_is_silent(of_step, of_loader, of_batch):
    assert tip(of_step, of_loader, of_batch, cpu()) is None


SITE, STANDARD = "/venv/lib/python3.11/site-packages", "/usr/lib/python3.11"
# The line, the innermost library frame beyond it (None: the call has no frame), what it is at, and a word of
# the advice by hand (None: the page's general advice).
LINES = [
    ("row = self.table.iloc[index]", f"{SITE}/pandas/core/indexing.py", "transforming", "to_numpy"),
    ("row = self.table.loc[key]", f"{SITE}/pandas/core/indexing.py", "transforming", "to_numpy"),
    ("x = self.table.location(index)", f"{SITE}/geo/places.py", "transforming", None),
    ("parts = self.table.groupby('user').mean()", f"{SITE}/pandas/core/groupby/groupby.py", "transforming", None),
    ("row = self.counts[cell].toarray().ravel()", f"{SITE}/scipy/sparse/_csc.py:_get_intXslice",
     "transforming sparse", "tocsr"),
    ("gene = self.counts[:, at].toarray().ravel()", f"{SITE}/scipy/sparse/_csr.py:_get_sliceXint",
     "transforming sparse", "tocsc"),
    ("row = self.counts[cell].toarray().ravel()", f"{SITE}/scipy/sparse/_csr.py:_get_intXslice",
     "transforming", None),
    ("x = self.feature.mean()", None, "transforming", None),
    ("x = store.get(index)", None, "transforming", None),
    ("text = re.sub(r'\\s+', ' ', text)", f"{STANDARD}/re/__init__.py", "transforming", "parse once"),
    ("words = self.pattern.findall(text)", None, "transforming", None),
    ("record = json.loads(line)", f"{STANDARD}/json/decoder.py", "transforming", "parse once"),
    ("item = pickle.load(file)", None, "transforming", "parse once"),
    ("ids = self.tokenizer(text)['input_ids']", f"{SITE}/transformers/tokenization_utils_base.py",
     "transforming", "tokenize once"),
    ("image = self.augment(image=image)['image']", f"{SITE}/albumentations/core/composition.py",
     "transforming", "crop or resize"),
    ("x = self.transform(image)", f"{SITE}/torchvision/transforms/functional.py", "transforming", "crop or resize"),
    ("path = nx.shortest_path(graph, a, b)", f"{SITE}/networkx/algorithms/shortest_paths/generic.py",
     "transforming", None),
    ("zoomed = ndimage.zoom(volume, 2)", f"{SITE}/scipy/ndimage/_interpolation.py", "transforming", None),
    ("mel = self.mel(wave)", f"{SITE}/torchaudio/transforms/_transforms.py", "transforming", None),
    ("y = librosa.resample(y, orig_sr=44100, target_sr=16000)", f"{SITE}/librosa/core/audio.py:resample",
     "transforming", None),
    ("small = Image.fromarray(pixels)", f"{SITE}/PIL/Image.py:frombytes", "transforming", None),
    ("wave, rate = torchaudio.load(path)", f"{SITE}/torchaudio/backend/utils.py", "decoding audio", None),
    ("image = Image.open(path).convert('RGB')", f"{SITE}/PIL/ImageFile.py", "decoding image", None),
    ("image = cv2.imread(path)", None, "decoding image", None),
    ("ok, picture = cap.read()", None, "decoding video", None),
    ("small = cv2.resize(image, (224, 224))", None, "transforming image", None),
    ("x = self.file['x'][index]", f"{SITE}/h5py/_hl/dataset.py", "reading file", None),
    ("x = self.store['x'][index]", f"{SITE}/zarr/core/array.py", "reading file", None),
    ("row = self.db.execute(QUERY, (index,)).fetchone()", None, "reading file", None),
    ("cursor.execute(QUERY, (index,))", None, "reading file", None),
    ("raw = txn.get(key)", None, "reading file", None),
    ("body = s3.get_object(Bucket=b, Key=k)['Body'].read()", f"{SITE}/botocore/httpsession.py", "fetching", None),
    ("body = requests.get(url).content", f"{SITE}/requests/sessions.py", "fetching", None),
    ("table = pq.read_table(path)", f"{SITE}/pyarrow/parquet/core.py", "reading table", None),
    ("raw = gzip.open(path).read()", f"{STANDARD}/gzip.py", "decoding archive", None),
    ("volume = loadmat(path)['v']", f"{SITE}/scipy/io/matlab/_mio.py", "reading file", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "beyond", "work", "word"), LINES, ids=[entry[0] for entry in LINES])
def test_the_advice_fits_the_library_at_the_line_or_stays_general(text, beyond, work, word):
    file, _, function = (beyond or "").partition(":")
    frame = parse(f"{function or 'call'} ({file}:7)") if beyond else None
    found = of_frame(frame) if frame else of_statement(ast.parse(text).body[0])
    stage, kind = found or (Stage.TRANSFORMING, "")
    assert f"{stage.value} {kind}".strip() == work
    if work not in ("transforming", "transforming sparse"):
        return  # other tips' lines
    spent = cost(stage, 0.9, line(0.9, 8, text=text), kind=kind, library=library(frame) if frame else None)
    advice = tip(STARVED, loader(batch=12), batch(spent), cpu())
    assert advice is not None
    assert advice.code is None if word is None else word in (advice.code or "")


def test_the_line_that_lays_a_matrix_out_comes_first():
    at = line(0.9, 8, text="row = self.counts[cell].toarray().ravel()")
    crossed = batch(cost(Stage.TRANSFORMING, 0.9, at, kind="sparse"))
    made = Location("/home/me/genes.py", 13, "select", "counts = counts.tocsc()")
    advice = tip(STARVED, loader(batch=12), replace(crossed, laid_out_at=made), cpu())
    assert advice is not None
    assert [place.line for place in advice.at] == [13, 8]
    assert advice.because[2] == (
        "the matrix gets the layout that this does not fit in line 13 of genes.py: `counts = counts.tocsc()`"
    )


def test_of_rows_of_a_matrix_that_is_stored_by_columns_one_access_each_is_left():
    at = line(0.9, 8, text="row = self.counts[cell].toarray().ravel()")
    crossed = batch(cost(Stage.TRANSFORMING, 0.9, at, kind="sparse"))
    of = facts.loader(batch=100, samples=320, batches=10)
    advice = tip(STARVED, of, crossed, cpu())
    assert advice is not None
    assert advice.change.batch.likely == pytest.approx(0.9 - 32 * 28e-6 / 0.1)
    few = tip(STARVED, facts.loader(batch=2, samples=320, batches=10), crossed, cpu())
    assert few is not None
    assert few.change.batch.likely == pytest.approx(0.9 - 32 * 28e-6 / 0.002)
