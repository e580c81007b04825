#pragma once

#include <cstddef>

/// Of cuBLASLt, what tells its version.
inline std::size_t cublasLtGetVersion() { return 130100; }
