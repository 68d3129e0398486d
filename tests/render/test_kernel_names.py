from __future__ import annotations

import pytest

from perfdoctor.render import kernel_names


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("volta_sgemm_128x64_nn", "volta_sgemm_128x64_nn"),
        (
            "void at::native::unrolled<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int)",
            "unrolled<4, CUDAFunctor_add<float>, Array<char*, 3> >",
        ),
        (
            "void cudnn::detail::dgrad_engine<float, 512, 6>(int, float const*)",
            "cudnn::dgrad_engine<float, 512, 6>",
        ),
        (
            "void (anonymous namespace)::softmax_warp_forward<float>(float*, float const*)",
            "softmax_warp_forward<float>",
        ),
        (
            "void f<{lambda(float, int)#2}>(int, g(int))",
            "f<lambda>",
        ),
        ("Cijk_Ailk_Bljk_SB_MT128x64.kd [clone .kd]", "Cijk_Ailk_Bljk_SB_MT128x64.kd"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("_Z6kernelPfi", "_Z6kernelPfi"),
        ("broken)", "broken)"),
        ("(int)", "(int)"),
        ("", ""),
    ],
)
def test_a_kernels_name_loses_its_noise_and_stays_recognisable(name, short):
    assert kernel_names.kernel(name) == short
