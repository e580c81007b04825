# The CUDA kernels: compiled for devices here, and for a CPU by the tests.
set(stagecraft_cuda_kernel_sources
  activation.cu activation_backward.cu algorithm_timer.cpp bias.cu column_sums.cu cublaslt_gemm.cpp cuda_kernels.cpp
  dropout.cu embedding.cu flash_attention.cu flash_attention_backward.cu gemm.cpp grouped_bias.cu grouped_gemm.cpp
  heads.cu heads_norm.cu latent_rotary.cu loss.cu lt_product.cpp norm.cu partial_attention.cu permute.cu
  reduce_members.cu rotary.cu route.cu router_losses.cu row_copies.cu row_scale.cu softcap.cu softmax.cu
  spread_tokens.cu step.cu transpose_chunks.cu weighted_activation.cu)
list(TRANSFORM stagecraft_cuda_kernel_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
