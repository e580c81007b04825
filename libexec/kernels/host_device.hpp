#pragma once

/// Marks the formulas that CPU and CUDA kernels share. Empty without nvcc.
#ifdef __CUDACC__
#define STAGECRAFT_HOST_DEVICE __host__ __device__
#else
#define STAGECRAFT_HOST_DEVICE
#endif
