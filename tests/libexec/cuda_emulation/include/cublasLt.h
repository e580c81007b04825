#pragma once

#include <cstddef>

/// What stagecraft's sources outside of kernels use of cuBLASLt.
std::size_t cublasLtGetVersion();
