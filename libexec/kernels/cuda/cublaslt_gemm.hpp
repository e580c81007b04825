#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "libexec/kernels/matrix_batch.hpp"

struct CUstream_st;  ///< what a cudaStream_t points to

namespace stagecraft {

/// How an algorithm is chosen among those that cuBLASLt offers for a product.
enum class GemmSelection : std::uint8_t {
  heuristic,  ///< the first that its heuristic returns: the same in every process
  measured,   ///< the fastest here of up to 100, each timed on the operands of the first call
};

/// Matrix products by cuBLASLt on one stream.
///
/// 16-bit and f32 operands are multiplied and summed in f32, never in TF32; f64 ones in f64. The
/// algorithm is chosen once for each product (sizes, strides, types, alignments, transposes,
/// whether it accumulates) and kept, so that a repeated product has the same bits. Of split-K
/// reductions, those in place in C are left out: they would round in between.
class CublasLtGemm {
 public:
  /// `workspace`: device memory, workspace_bytes(), aligned to 256 bytes; used by calls in their
  /// order on `stream`.
  /// \throws DeviceError
  CublasLtGemm(CUstream_st* stream, GemmSelection selection, void* workspace);
  ~CublasLtGemm();
  CublasLtGemm(CublasLtGemm const&) = delete;
  CublasLtGemm(CublasLtGemm&&) = delete;
  CublasLtGemm& operator=(CublasLtGemm const&) = delete;
  CublasLtGemm& operator=(CublasLtGemm&&) = delete;

  /// Launches C (+)= A B. Matrices whose batch and head strides are no single stride are multiplied
  /// in several launches, along the shorter of the two axes.
  /// \throws std::logic_error  where cuBLASLt has no algorithm for it; the shape is in the message.
  /// \throws DeviceError
  void multiply(MatrixProduct const& product);

  /// For the current device: 32 MiB from compute capability 9.0 on, 4 MiB before (NVIDIA's advice,
  /// cuBLAS documentation, cublasSetWorkspace()).
  /// \throws DeviceError
  static std::size_t workspace_bytes();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stagecraft
