from __future__ import annotations

import pytest

from perfdoctor.model.batch import Stage
from perfdoctor.tips.slow_image_decode import slow_image_decode as tip
from tests.support import facts
from tests.support.facts import cpu, line, loader, step
from tests.support.load_facts import batch, cost

STARVED = step(data_wait=12, forward=3, backward=5)
DECODES = cost(Stage.DECODING, 0.5, line(0.5, 31, text="im.convert('RGB')"), kind="image", library="PIL")
SHRINKS = cost(Stage.TRANSFORMING, 0.3, line(0.3, 32), kind="image", library="PIL")


def test_names_the_line_that_decodes_and_the_library():
    advice = tip(STARVED, batch(DECODES, SHRINKS))
    assert advice is not None
    assert (
        advice.because[1]
        == "50% of a batch's 12.0 ms is decoding (image) by PIL, 30% is converting and resizing"
    )
    assert [at.line for at in advice.at] == [31]
    assert advice.code is not None
    assert "draft" in advice.code


def test_expects_what_decoders_of_the_same_files_bring_at_least():
    advice = tip(STARVED, batch(DECODES))
    assert advice is not None
    assert advice.change is not None
    assert advice.change.batch.low == pytest.approx(0.5 * (1 - 1 / 1.2))
    of = facts.model(STARVED, loader(batch=12), cpu())
    assert 1 < facts.gain(advice, of).likely < 20 / 8


def test_sound_has_a_cure_of_its_own():
    advice = tip(STARVED, batch(cost(Stage.DECODING, 0.7, kind="audio", library="librosa")))
    assert advice is not None
    assert advice.code is not None
    assert ".npy" in advice.code


@pytest.mark.parametrize(
    ("of_step", "of_batch"),
    [
        pytest.param(step(data_wait=1.9, forward=18.1), batch(DECODES), id="wait-is-noise"),
        pytest.param(STARVED, batch(cost(Stage.DECODING, 0.39, kind="image")), id="other-work-takes-most"),
        pytest.param(
            STARVED,
            batch(cost(Stage.DECODING, 0.14, kind="image"), cost(Stage.TRANSFORMING, 0.8, kind="image")),
            id="it-resizes-small-images",
        ),
        pytest.param(STARVED, batch(cost(Stage.DECODING, 0.9, kind="archive")), id="archives-are-no-images"),
    ],
)
def test_is_silent(of_step, of_batch):
    assert tip(of_step, of_batch) is None


@pytest.mark.parametrize(
    ("text", "library", "word"),
    [
        ("image = Image.open(path).convert('RGB')", "PIL", "draft"),
        ("image = cv2.imread(path)", None, "IMREAD_REDUCED"),
        ("image = read_image(path)", "torchvision", "cuda"),
        ("volume = nib.load(path).get_fdata()", "nibabel", "made once"),
        ("slide = openslide.open_slide(path)", "openslide", "made once"),
    ],
)
def test_the_advice_fits_the_decoder(text, library, word):
    decoding = cost(Stage.DECODING, 0.9, line(0.9, 8, text=text), kind="image", library=library)
    advice = tip(step(data_wait=12, forward=3, backward=5), batch(decoding))
    assert advice is not None
    assert word in (advice.code or "")
    assert ("draft" in (advice.code or "")) == (library == "PIL")
