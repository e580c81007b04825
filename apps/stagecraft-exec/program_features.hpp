#pragma once

#include <string>

namespace stagecraft {

/// program_features(), OpenBLAS as it is loaded, and CUDA, NCCL and MPI as they were built with:
/// `..., OpenBLAS 0.3.21, CUDA 12.4.131 with cuBLASLt, NCCL 2.21.5, without MPI`.
std::string executor_features();

}  // namespace stagecraft
