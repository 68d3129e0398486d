"""What is known of the models in published tables, by their names: what a run would see of their kernels.

The names are those of huggingface/pytorch-image-models and of NVIDIA's DeepLearningExamples; what stands here
was read off their definitions (layers, groups, widths), not off any result. `family` is what a split keeps
together: relatives that share their blocks, whoever trained their weights.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from perfdoctor.facts.predict.published_gains import MainWork, ModelKind

# Whoever trained it, or only a test of it: no other architecture.
ORIGINS = re.compile(r"^(tf_|gluon_|ssl_|swsl_|ig_|tv_|legacy_|dm_|ens_adv_|adv_|jx_|test_|naflex)+|_tv$")


@dataclass(frozen=True)
class Known:
    """A family of models, and what its kernels are."""

    family: str
    kind: ModelKind


def _rule(
    pattern: str, family: str, work: MainWork, group_width: float | None = None
) -> tuple[re.Pattern[str], Known]:
    return re.compile(pattern), Known(family, ModelKind(work, group_width))


PLAIN, DEPTHWISE, GROUPED, MATRICES = (
    MainWork.CONVOLUTIONS,
    MainWork.DEPTHWISE,
    MainWork.GROUPED,
    MainWork.MATRICES,
)

# Channels of a group: RegNet's are those of its paper's configurations; where stages differ (ResNeXt and its
# like double them), those of the second of four.
REGNET_WIDTHS = {
    "x_002": 8, "x_004": 16, "x_006": 24, "x_008": 16, "x_016": 24, "x_032": 48, "x_040": 40, "x_064": 56,
    "x_080": 120, "x_120": 112, "x_160": 128, "x_320": 168, "y_002": 8, "y_004": 8, "y_006": 16, "y_008": 16,
    "y_016": 24, "y_032": 24, "y_040": 64, "y_064": 72, "y_080": 56, "y_120": 112, "y_160": 112, "y_320": 232,
    "y_640": 328, "y_1280": 264, "y_2560": 373, "v_040": 64, "v_064": 72, "z_005": 16, "z_b16": 16,
    "z_c16": 16, "z_b32": 32, "z_d8": 8, "z_e8": 8, "z_d32": 32, "z_040": 64,
}  # fmt: skip
# The first that fits decides.
RULES = (
    *(_rule(f"regnet{name}", f"regnet{name[0]}", GROUPED, width) for name, width in REGNET_WIDTHS.items()),
    _rule(r"nf_regnet", "nf_regnet", GROUPED, 8),
    _rule(r"eca_nfnet|^nfnet_l", "nfnet", GROUPED, 64),
    _rule(r"nfnet", "nfnet", GROUPED, 128),
    _rule(r"resnest", "resnest", GROUPED, 128),
    _rule(r"repvgg_\w+g4", "repvgg", GROUPED, 128),
    _rule(r"32x48d", "resnext", GROUPED, 96),
    _rule(r"32x32d", "resnext", GROUPED, 64),
    _rule(r"32x16d", "resnext", GROUPED, 32),
    _rule(r"(?:32|64)x8d", "resnext", GROUPED, 16),
    _rule(r"resnext\d+t?s|resnet(51|61)q", "byobnet_grouped", GROUPED, 32),
    _rule(r"res2next|dla60_res2next", "res2next", GROUPED, 8),
    _rule(r"resnext|skresnext", "resnext", GROUPED, 8),
    _rule(r"senet154", "senet", GROUPED, 8),
    _rule(r"dpn", "dpn", GROUPED, 8),
    _rule(r"dla(46|60|102)x", "dla", GROUPED, 8),
    _rule(r"efficientnet_\w*g16", "efficientnet_grouped", GROUPED, 16),
    _rule(r"efficientnet_\w*g8", "efficientnet_grouped", GROUPED, 8),
    # attention and matrix products
    _rule(r"vit_\w*_resnet|vit_\w+_r\d*_", "vit_hybrid", PLAIN),
    _rule(r"mobilevit", "mobilevit", DEPTHWISE),
    _rule(r"repvit|efficientvit|shvit|fastvit|swiftformer", "mobile_vit", DEPTHWISE),
    _rule(r"visformer|vitamin", "visformer", MATRICES),
    _rule(r"crossvit|xcit|gcvit|mvit|gmixer|gmlp|resmlp|mixer|convit", "mixers", MATRICES),
    _rule(r"davit|maxvit|maxxvit|tiny_vit|nextvit|samvit", "vit_staged", MATRICES),
    _rule(r"vit|deit|siglip|eva|beit|aimv2|cait", "vit", MATRICES),
    _rule(r"swin", "swin", MATRICES),
    _rule(r"levit", "levit", MATRICES),
    _rule(r"coat", "coat", MATRICES),
    _rule(r"(?<!s)(pit|tnt|nest|volo|twins|pvt|focal|hiera|sequencer|sam2)", "transformers", MATRICES),
    _rule(r"convnext|edgenext|mambaout|inception_next|csatv2", "convnext", MATRICES),
    _rule(r"poolformer|caformer|convformer|efficientformer|metaformer", "metaformer", MATRICES),
    # depth-wise
    _rule(
        r"mobilenet|mnasnet|spnasnet|hardcorenas|fbnet|tinynet|lcnet|mobileone|mixnet", "mobilenet", DEPTHWISE
    ),
    _rule(r"efficientnet", "efficientnet", DEPTHWISE),
    _rule(r"rexnet", "rexnet", DEPTHWISE),
    _rule(r"ghostnet|repghost", "ghostnet", DEPTHWISE),
    _rule(r"ese_vovnet\w+_dw", "vovnet", DEPTHWISE),
    _rule(r"xception|nasnet", "xception", DEPTHWISE),
    _rule(r"convmixer", "convmixer", DEPTHWISE),
    _rule(r"starnet|rdnet", "starnet", DEPTHWISE),
    # plain convolutions
    _rule(r"halo|botnet|lambda", "attention_resnet", PLAIN),
    _rule(r"res2net", "res2net", PLAIN),
    _rule(r"tresnet", "tresnet", PLAIN),
    _rule(r"resnetv2|bit_", "resnetv2", PLAIN),
    _rule(r"resnet(14|26|32|33)t?s?$|gernet|resnet\d+ts|cs3|darknet|cspresnet|cspdarknet", "csp", PLAIN),
    _rule(r"resnet|resnetrs", "resnet", PLAIN),
    _rule(r"vovnet", "vovnet", PLAIN),
    _rule(r"repvgg", "repvgg", PLAIN),
    _rule(r"hgnet", "hgnet", PLAIN),
    _rule(r"vgg", "vgg", PLAIN),
    _rule(r"densenet", "densenet", PLAIN),
    _rule(r"dla", "dla", PLAIN),
    _rule(r"hrnet", "hrnet", PLAIN),
    _rule(r"inception", "inception", PLAIN),
    _rule(r"selecsls", "selecsls", PLAIN),
    _rule(r"fasternet", "fasternet", PLAIN),
    # trainings of NVIDIA's examples
    _rule(r"^bert", "bert", MATRICES),
    _rule(r"^gnmt", "gnmt", MATRICES),
    _rule(r"^transformerxl", "transformerxl", MATRICES),
    _rule(r"^ncf", "ncf", MATRICES),
    _rule(r"^ssd|maskrcnn|retinanet", "ssd", PLAIN),
    _rule(r"^tacotron", "tacotron2", MainWork.SMALL),
    _rule(r"^waveglow", "waveglow", MainWork.SMALL),
)


def known(model: str) -> Known:
    """What is known of a model; of an unknown one its family, the letters of its name, and no kind."""
    name = ORIGINS.sub("", model)
    for pattern, entry in RULES:
        if pattern.search(name):
            return entry
    letters = re.match(r"[a-z]+", name)
    return Known(letters.group() if letters else name, ModelKind(None))
