from __future__ import annotations

import pytest

from perfdoctor.trace.measure.dtypes import dtype_of, input_type, tensor_cores
from perfdoctor.trace.results import KernelClass as K


@pytest.mark.parametrize(
    ("name", "dtype", "cores"),
    [
        ("ampere_sgemm_128x64_nn", "float32", False),
        ("volta_dgemm_64x64_nt", "float64", None),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "float16", True),
        ("turing_h1688gemm_256x64_ldg8_stages_32x1_tn", "float16", True),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(P)", "tf32", True),
        (
            "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(P)",
            "bfloat16",
            True,
        ),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_tn", "float16", True),
        ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128_cublas", "fp8", True),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_TNT", "float16", True),
        ("nvjet_sm103_tst_128x8_64x12_4x1_v_bz_NNT", "bfloat16", True),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT16x16x256_MI16x16x1_SN", "bfloat16", True),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16_SE_K1", "float32", False),
        ("Cijk_Alik_Bljk_F8BS_BH_MT128x128x64_MI32x32x1", "fp8", True),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tensor16x8x8_cudnn", "tf32", True),
        ("volta_scudnn_128x64_relu_medium_nn_v1", "float32", False),
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_ffma_aligna4_cublas",
            "float32",
            False,
        ),
        ("void sgemm_largek_lds64<true, false, 6, 3, 4, 5, 2, 66>(float*, float const*)", "float32", False),
        ("void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float>(P)", "bfloat16", False),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "fp4", True),
        ("matmul_kernel", None, None),
    ],
)
def test_names_of_matrix_products_and_convolutions(name: str, dtype: str | None, cores: bool | None) -> None:
    assert (dtype_of(name), tensor_cores(name, K.MATMUL)) == (dtype, cores)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>>(int)", "float16"),
        ("void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 3>(P)", "bfloat16"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<double, at::native::MeanOps<double>>>(R)", "float64"),
        ("void at::native::unrolled<update(at::Tensor const&, double, long)::{lambda(float)#1}>(int)", "float32"),
        ("void at::native::index_elementwise_kernel<128, 4, OpaqueType<4>>(int)", None),
        ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)", "float32"),
    ],
)  # fmt: skip
def test_names_of_other_kernels_tell_the_type_of_their_data(name: str, dtype: str | None) -> None:
    assert dtype_of(name) == dtype


def test_what_is_no_product_does_not_use_tensor_cores() -> None:
    assert tensor_cores("void vectorized_tensorop_name<float>(int)", K.POINTWISE) is False
    assert tensor_cores("mystery", K.OTHER) is None


def test_types_of_inputs_as_the_profiler_spells_them() -> None:
    assert [input_type(text) for text in ("float", "c10::BFloat16", "c10::Half", "Scalar", "")] == [
        "float32", "bfloat16", "float16", None, None,
    ]  # fmt: skip
