"""The ranges of published gains that ship, held by bench/published.py against tables of gains. All figures here are made up."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench import published
from bench.published import Row
from bench.published_models import known
from perfdoctor.facts.predict.published_gains import MainWork, ModelKind
from perfdoctor.model.concluded import Gain
from tests.support.paths import ROOT

FOLDER = ROOT.parent / "shared" / "published"
MODELS = [
    *("vit_tiny_x", "swin_x", "coat_x", "poolformer_x", "xcit_x", "convnext_x", "levit_x"),
    *("vgg11", "densenet1", "hrnet_w1", "dla34", "resnet18", "inception_v9", "vovnet1", "tresnet_x"),
    *("mobilenetv9", "efficientnet_b99", "rexnet_1", "ghostnet_1", "xception1"),
    *(
        "regnetx_002",
        "regnetx_160",
        "regnety_032",
        "nfnet_f9",
        "resnext50_32x4d",
        "resnest9",
        "dpn1",
        "senet154",
    ),
]
TRAININGS = ("bert", "gnmt", "transformerxl", "resnet50", "ssd", "tacotron2", "waveglow")


def write(folder: Path, name: str, columns: str, rows: list[str]) -> None:
    (folder / name).write_text("\n".join([columns, *rows]) + "\n", encoding="utf-8")


def row(model: str, gain: float, change: str = "--channels-last") -> Row:
    return Row(change, model, known(model).family, known(model).kind, gain)


def made_up() -> list[Row]:
    """Rows of every kind, some in either half."""
    rows = []
    for number, model in enumerate(MODELS):
        gain = 1.0 + 0.03 * number
        rows += [row(model, gain), replace(row(model, 1.1 * gain, "--compile"), fusible=0.5)]
    for model in TRAININGS:
        rows += [replace(row(model, 2.0, "--amp"), tf32=tf32) for tf32 in (False, True)]
    return rows


def test_a_table_is_told_by_its_rates_and_what_cannot_be_used_is_said(tmp_path):
    write(
        tmp_path,
        "a.csv",
        "model,nchw_samples_per_s,nhwc_samples_per_s",
        ["vgg11,10,12", "vgg13,0,1", "vgg16,x,"],
    )
    write(
        tmp_path,
        "b.csv",
        "gpu,model,fp32_per_s,fp16_per_s,speedup",
        ["4xV100 16GB,gnmt,1,3,3", "A10,gnmt,1,2,2"],
    )
    write(tmp_path, "c.csv", "model,eager_ms,compiled_ms", ["vgg11,2,1"])
    (tmp_path / "d.csv").write_text("")
    rows, problems = published.read(tmp_path)
    assert [(row.change, row.published, row.tf32) for row in rows] == [
        ("--channels-last", 1.2, None),
        ("--amp", 3.0, False),
        ("--amp", 2.0, True),
    ]
    assert problems == [
        "a.csv: 2 of 3 rows lack a model or a gain",
        "c.csv: left out, no known change by its columns: model, eager_ms, compiled_ms",
        "d.csv: left out, no known change by its columns: ",
        f"--compile: no table of it in {tmp_path}",
    ]


@pytest.mark.parametrize(
    ("device", "is_tf32"),
    [
        ("2x A100 80GB PCIe", True),
        ("LambdaCloud 8x H100 80GB SXM5", True),
        ("RTX A6000", True),
        ("RTX 3080Ti", True),
        ("Quadro RTX 8000", False),
        ("2xTitan RTX", False),
        ("2080Ti", False),
        ("GTX 1080Ti", None),
    ],
)
def test_devices_are_told_by_their_names(tmp_path, device, is_tf32):
    write(tmp_path, "a.csv", "gpu,model,fp32_per_s,fp16_per_s", [f"{device},gnmt,1,2"])
    assert published.read(tmp_path)[0][0].tf32 is is_tf32


def test_relatives_share_a_family_and_a_half():
    alike = (
        ["efficientnet_b0", "tf_efficientnet_b7_ns", "efficientnetv2_l"],
        ["resnet50", "gluon_resnet152_v1b"],
    )
    for models in alike:
        assert len({(known(model).family, row(model, 1.0).is_judged) for model in models}) == 1
    assert known("ssl_resnext101_32x16d").kind == ModelKind(MainWork.GROUPED, 32)
    assert known("brandnew_50") == known("brandnew_7_large")
    assert known("brandnew_50").kind == ModelKind(None)


@pytest.mark.parametrize(
    ("likely", "measured", "is_right"),
    [
        (1.3, 1.1, True),
        (1.3, 0.9, False),
        (0.5, 0.9, True),
        (1.01, 0.98, True),
        (1.2, 0.98, False),
        (0.9, 1.01, False),
    ],
)
def test_a_sign_is_right_on_the_same_side_of_one_or_where_neither_is_far_from_it(likely, measured, is_right):
    assert published.is_sign_right(row("vgg11", measured), Gain(0.5, likely, 2.0)) is is_right


def test_what_is_fitted_does_not_look_at_the_judged_half():
    rows = made_up()
    fitted = published.table(rows)
    other = [replace(each, published=9.0) if each.is_judged else each for each in rows]
    assert published.table(other) == fitted
    assert published.table([each for each in rows if not each.is_judged]) == fitted
    changed = [each if each.is_judged else replace(each, published=9.0) for each in rows]
    assert published.table(changed) != fitted


def test_a_range_holds_nine_of_ten_on_either_side_and_is_wider_of_few_families():
    logs = [(0.0, number / 100) for number in range(100)]
    many = {str(family): logs[family::20] for family in range(20)}
    low, likely, high = published._range(many)
    assert sum(low <= y for _, y in logs) >= 90
    assert sum(y <= high for _, y in logs) >= 90
    assert likely == pytest.approx(0.495)
    assert low < likely < high
    one = published._range({"a": logs})
    assert one[2] - one[0] > high - low


def test_the_judged_half_decides_and_the_fitted_one_does_not(tmp_path, capsys):
    judged = [each.model for each in made_up() if each.is_judged and each.change == "--channels-last"]
    fitted = [each.model for each in made_up() if not each.is_judged and each.change == "--channels-last"]
    columns = "model,nchw_per_s,nhwc_per_s,speedup"
    likely = {name: published.published_gains.channels_last(known(name).kind).likely for name in judged}
    held = [f"{name},1,1,{gain:.3f}" for name, gain in likely.items()]
    write(tmp_path, "a.csv", columns, [*held, *(f"{name},1,1,40" for name in fitted)])
    assert published.main([str(tmp_path)]) == 0
    write(tmp_path, "a.csv", columns, [f"{name},1,1,40" for name in judged])
    assert published.main([str(tmp_path)]) == 1
    assert "--channels-last: held 0% of the judged half, not 80%" in capsys.readouterr().out


def test_a_change_without_figures_is_shown_as_not_covered(tmp_path, capsys):
    write(tmp_path, "a.csv", "model,fp32_per_s,tf32_per_s", ["vgg11,1,2"])
    assert published.main([str(tmp_path)]) == 0
    assert "1, 1 not covered" in capsys.readouterr().out


def test_a_folder_without_tables_is_nothing_to_judge(tmp_path, capsys):
    assert published.main([str(tmp_path)]) == 1
    assert "nothing to judge" in capsys.readouterr().out


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the published tables are not here")
def test_what_ships_is_what_was_fitted_and_holds_the_judged_half(capsys):
    written = published.MODULE.read_text(encoding="utf-8").partition(published.TABLE[0])[2]
    assert written.partition(published.TABLE[1])[0] == published.table(published.read(FOLDER)[0])
    assert published.main([str(FOLDER)]) == 0
    printed = capsys.readouterr().out
    assert printed.strip() in published.PAGE.read_text(encoding="utf-8")
