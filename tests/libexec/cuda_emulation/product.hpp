#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace stagecraft::emulation {

/// A batch of matrices: column-major, `stride` elements from one to the next.
struct Layout {
  cudaDataType type = CUDA_R_32F;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t leading_dimension = 0;
  std::int32_t count = 1;
  std::int64_t stride = 0;
};

/// Orders of summation: a result shows which algorithm was taken.
enum class Algorithm : std::uint64_t { forwards, backwards, halves };

/// D = alpha op(A) op(B) + beta C, and a bias of D's type, if there is one, added to every column
struct Product {
  bool transpose_a = false;
  bool transpose_b = false;
  Layout a, b, c, d;
  double alpha = 1;
  double beta = 0;
  bool has_bias = false;
  Algorithm algorithm = Algorithm::forwards;

  /// Terms of each sum.
  std::int64_t depth() const { return transpose_a ? a.rows : a.columns; }
};

std::int64_t element_bytes(cudaDataType type);

/// From the first element to the last, in bytes.
std::int64_t extent_bytes(Layout const& layout);

/// With sums in double for double, else in float. C is not read where beta is 0, the bias not where
/// there is none.
void multiply(
    Product const& product, void const* a, void const* b, void const* c, void const* bias, void* d);

}  // namespace stagecraft::emulation
