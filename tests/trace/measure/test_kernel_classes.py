"""Names of kernels as torch, cuDNN, cuBLAS, CUTLASS, Triton, MIOpen, Tensile and others write them."""

from __future__ import annotations

import pytest

from perfdoctor.trace.measure.kernel_classes import by_name, function_name, is_communication, kernel_class
from perfdoctor.trace.parse.columns import DeviceKind
from perfdoctor.trace.results import KernelClass as K

NATIVE = "void at::native::"
ANONYMOUS = "void at::native::(anonymous namespace)::"
NAMES = {
    K.MATMUL: [
        "ampere_sgemm_128x64_nn",
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
        "turing_h1688gemm_256x64_ldg8_stages_32x1_tn",
        "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_stage4_warpsize2x2x1_tensor16x8x16_kernel",
        "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopA_NTN",
        "nvjet_hsh_128x256_64x4_1x2_h_bz_TNT",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(Params)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>>>(Params)",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 2, 2, false>(cublasGemvParams)",
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float>(cublasGemvParams)",
        "void splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>(cublasSplitKParams)",
        "Cijk_Alik_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN_1LDSB1",
        "triton_tem_fused_addmm_relu_3",
        "triton_mm_plus_mm_0",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1",
        "fused_moe_kernel",
        "void marlin::Marlin<__half, 256, 1, 8, 8, 4>(int4 const*)",
        "matmul_kernel",
    ],
    K.CONVOLUTION: [
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_cudnn",
        "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        "void implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, false, true, true>(int, int, int)",
        "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int, int)",
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int)",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(WinogradDataParams)",
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_s16816fprop_optimized_f16_64x64>(Params)",
        "void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*, int)",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x256x32_wt32x32x8",
        "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1",
        "MIOpenConvUniC.kd",
        f"{ANONYMOUS}conv_depthwise2d_forward_kernel<3, float, int>(at::GenericPackedTensorAccessor)",
        "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28Gridwise",
        "triton_tem_fused_convolution_7",
    ],
    K.ATTENTION: [
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>(Params)",
        "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64>>(Flash_bwd_params)",
        "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90>>(Params)",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0",
        "aiter::fmha_fwd_hd128_bf16_rtz",
        "void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVS>>(Kargs)",
        "attn_fwd",
        "void vllm::paged_attention_v1_kernel<unsigned short, unsigned short, 128, 16>(unsigned short*)",
        "kernel_unified_attention_2d",
        "triton_tem_fused_flex_attention_0",
    ],
    K.NORMALISATION: [
        f"{ANONYMOUS}vectorized_layer_norm_kernel<float, float>(int, float, float const*)",
        f"{ANONYMOUS}GammaBetaBackwardCUDAKernel<float, float>(long, long, float const*)",
        f"{NATIVE}batch_norm_collect_statistics_kernel<at::native::Var, float, float, float, int>(Accessor)",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct)",
        f"{ANONYMOUS}RowwiseMomentsCUDAKernel<float>(long, float, float const*, float*, float*)",
        "MIOpenBatchNormFwdTrainSpatial",
        "triton_red_fused_native_layer_norm_4",
        "void apex::cuApplyLayerNorm<float, float, float>(float*)",
        "void vllm::fused_add_rms_norm_kernel<c10::Half, 8>(c10::Half*)",
        "_layer_norm_fwd_1pass_kernel",
    ],
    K.REDUCTION: [
        f"{NATIVE}reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>(R)",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*)",
        f"{ANONYMOUS}max_pool_forward_nchw<float, float>(int, float const*)",
        f"{ANONYMOUS}nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)",
        "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800>(int*)",
        f"{NATIVE}sbtopk::gatherTopK<float, unsigned int, 2, false>(TensorInfo)",
        "triton_per_fused_sum_2",
        (f"{ANONYMOUS}multi_tensor_apply_kernel<TensorListMetadata<1>, at::native::(anonymous namespace)::"
        "LpNormFunctor<float, 2, 1, 1, 0>, float*, int>(TensorListMetadata)"),
    ],
    K.POINTWISE: [
        "__amd_rocclr_copyBuffer",
        "__amd_rocclr_copyImage",
        "__amd_rocclr_fillBufferAligned",
        f"{NATIVE}vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>>(int)",
        (f"{NATIVE}unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
        "{lambda()#2}::operator()() const::{lambda(float)#1}>(int)"),
        f"{ANONYMOUS}distribution_elementwise_grid_stride_kernel<float, 4, normal_and_transform<float>>(long)",
        f"{NATIVE}elementwise_kernel<128, 2, gpu_kernel_impl<softmax_something>>(int)",
        f"{ANONYMOUS}CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)",
        f"{ANONYMOUS}indexSelectLargeIndex<float, int, unsigned int, 1, 1, -2, true>(TensorInfo)",
        f"{ANONYMOUS}fused_dropout_kernel_vec<float, float, unsigned int, 1, 4, bool>(TensorInfo)",
        f"{NATIVE}(anonymous namespace)::embedding_backward_kernel<float, float, long>(long*)",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        "void vllm::act_and_mul_kernel<c10::Half, vllm::silu_kernel<c10::Half>>(c10::Half*)",
        "triton_poi_fused_add_addmm_mul_3",
    ],
    K.OPTIMIZER: [
        (f"{ANONYMOUS}multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::"
        "FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)0, false>, float const*>(T)"),
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float, float>(int, int)",
        "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<float>(Accessor)",
        "void kOptimizerStatic8bit2StateBlockwise<float, 0, 256, 1>(float*)",
    ],
    K.LAYOUT: [
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, true, false, (cudnnKernelDataType_t)0>(P)",
        "void nhwcToNchwKernel<float, float, float, true, false, (cudnnKernelDataType_t)0>(int)",
        "batched_transpose_32x32_half",
        "void transpose_readWrite_alignment_kernel<float2, float2, 1, false, 6, 4, 4>(cublasTransposeParams<float2>)",
        "Im2d2Col_v2",
        "SubTensorOpWithScalar1d",
    ],
    K.COMMUNICATION: [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclSymkDevKernel_ReduceScatter_LDMC_sum_bf16(ncclSymkDevWorkArgs)",
        "rcclGenericKernel<1, false>(ncclDevComm*)",
        "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "void (anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16>(P)",
        "void multimem_one_shot_all_reduce_kernel<c10::BFloat16, 16>(P)",
        "void deep_ep::intranode::dispatch<8, 768>(int4*)",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_the_name_of_a_kernel_tells_its_class(kind: K, name: str) -> None:
    assert by_name(name) is kind


@pytest.mark.parametrize("name", ["Kernel", "kernel0", "my_secret_sauce", "spin_kernel(long)"])
def test_a_name_that_tells_nothing_has_no_class(name: str) -> None:
    assert by_name(name) is None


@pytest.mark.parametrize("name", list(NAMES[K.COMMUNICATION]))
def test_communication_is_known_by_name_alone(name: str) -> None:
    assert is_communication(name)
    assert kernel_class(DeviceKind.KERNEL, name, "aten::mm", K.OPTIMIZER) is K.COMMUNICATION


def test_a_reduction_is_no_communication() -> None:
    assert not is_communication("void at::native::reduce_kernel<512, 1>(R)")


def test_a_gemm_that_a_convolution_launched_is_convolution() -> None:
    assert (
        kernel_class(DeviceKind.KERNEL, "volta_sgemm_128x64_nn", "aten::cudnn_convolution", None)
        is K.CONVOLUTION
    )
    assert kernel_class(DeviceKind.KERNEL, "volta_sgemm_128x64_nn", "aten::mm", None) is K.MATMUL


def test_where_the_name_tells_nothing_the_operator_does() -> None:
    assert kernel_class(DeviceKind.KERNEL, "kernel0", "aten::_flash_attention_forward", None) is K.ATTENTION
    assert kernel_class(DeviceKind.KERNEL, "kernel0", "aten::native_batch_norm", None) is K.NORMALISATION
    assert kernel_class(DeviceKind.KERNEL, "kernel0", "aten::mul", None) is K.POINTWISE
    assert kernel_class(DeviceKind.KERNEL, "kernel0", None, None) is K.OTHER
    assert (
        kernel_class(DeviceKind.KERNEL, "RNN_blockPersist_fp_LSTM<float>", "aten::_cudnn_rnn", None)
        is K.OTHER
    )
    for name in ("regular_fft<64u>", "void vector_fft<64u, (padding_t)1>(kernel_arguments_t<unsigned int>)"):
        assert kernel_class(DeviceKind.KERNEL, name, "aten::_fft_c2c", None) is K.OTHER


def test_what_an_optimizers_step_computes_is_the_optimizers() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
    assert kernel_class(DeviceKind.KERNEL, name, "aten::add_", K.OPTIMIZER) is K.OPTIMIZER
    assert kernel_class(DeviceKind.KERNEL, "ampere_sgemm_128x64_nn", "aten::mm", K.OPTIMIZER) is K.MATMUL


def test_copies_and_memsets_are_what_the_trace_says() -> None:
    assert (
        kernel_class(DeviceKind.COPY, "Memcpy HtoD (Pageable -> Device)", "aten::mm", K.OPTIMIZER) is K.COPY
    )
    assert kernel_class(DeviceKind.MEMSET, "Memset (Device)", "aten::zero_", True) is K.MEMSET


def test_a_kernels_own_name_is_without_types_and_parameters() -> None:
    assert function_name("void at::native::(anonymous namespace)::foo<float, 4>(int)") == "at::native::foo"
    assert (
        function_name("std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(P)")
        == "internal::gemvx::kernel"
    )


def test_what_works_on_lists_of_tensors_is_no_models():
    foreach = "multi_tensor_apply_kernel<TensorListMetadata<2>, LpNormFunctor<float>>"
    assert kernel_class(DeviceKind.KERNEL, foreach, "aten::_foreach_norm", None) is K.CLIPPING
    assert kernel_class(DeviceKind.KERNEL, foreach, "aten::_foreach_norm", K.OPTIMIZER) is K.OPTIMIZER
    assert kernel_class(DeviceKind.KERNEL, "kernel0", "aten::_foreach_add_", K.OPTIMIZER) is K.OPTIMIZER
    assert kernel_class(DeviceKind.KERNEL, "volta_sgemm_128x64_nn", "aten::mm", K.CLIPPING) is K.MATMUL


def test_copying_lists_of_tensors_clips_nothing():
    copy = "multi_tensor_apply_kernel<TensorListMetadata<2>, Copy<float, float>>"
    assert kernel_class(DeviceKind.KERNEL, copy, "aten::_foreach_copy_", None) is K.OTHER
    assert kernel_class(DeviceKind.KERNEL, copy, "aten::_foreach_copy_", K.CLIPPING) is K.OTHER
    assert kernel_class(DeviceKind.KERNEL, copy, "aten::_foreach_copy_", K.OPTIMIZER) is K.OPTIMIZER
