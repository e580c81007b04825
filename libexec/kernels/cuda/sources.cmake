# The CUDA kernels: compiled for devices here, and for a CPU by the tests.
set(stagecraft_cuda_kernel_sources
  activation.cu activation_backward.cu algorithm_timer.cpp bias.cu column_sums.cu cublaslt_gemm.cpp cuda_kernels.cpp
  dropout.cu embedding.cu flash_attention.cu flash_attention_backward.cu gemm.cpp heads.cu heads_norm.cu latent_rotary.cu loss.cu lt_product.cpp norm.cu
  partial_attention.cu reduce_members.cu rotary.cu row_copies.cu softcap.cu softmax.cu
  step.cu)
list(TRANSFORM stagecraft_cuda_kernel_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
