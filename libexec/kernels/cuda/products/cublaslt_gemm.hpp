#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "libexec/kernels/cpu/matrix_batch.hpp"
#include "libexec/kernels/cuda/products/product_choices.hpp"

struct CUstream_st;  ///< what a cudaStream_t points to

namespace stagecraft {

/// Matrix products by cuBLASLt on one stream.
///
/// 16-bit and f32 operands are multiplied and summed in f32, never in TF32; f64 operands in f64.
/// The algorithm is chosen once per product (sizes, strides, types, alignments, transposes, whether
/// it accumulates) and kept, so that a repeated product has the same bits. Split-K reductions in
/// place in C are not used, because they round intermediate sums.
class CublasLtGemm {
 public:
  /// `choices`: keeps measured algorithms; null: the first one of the heuristic is taken, which is
  /// the same in every process. `workspace`: workspace_bytes() of device memory, aligned to 256
  /// bytes, which calls use in their order on `stream`.
  /// \throws DeviceError
  CublasLtGemm(CUstream_st* stream, std::shared_ptr<ProductChoices> choices, void* workspace);
  ~CublasLtGemm();
  CublasLtGemm(CublasLtGemm const&) = delete;
  CublasLtGemm(CublasLtGemm&&) = delete;
  CublasLtGemm& operator=(CublasLtGemm const&) = delete;
  CublasLtGemm& operator=(CublasLtGemm&&) = delete;

  /// Launches C (+)= A B, and adds `bias` [n], if there is one, to every row of C. Matrices whose
  /// batch and head strides are not one stride are multiplied in several launches, along the
  /// shorter of the two axes. Pre: with a bias, is_faster_with_bias() has returned true.
  /// \throws std::logic_error  if cuBLASLt has no algorithm; the message has the shape.
  /// \throws DeviceError
  void multiply(MatrixProduct const& product, void const* bias = nullptr);

  /// The same for a single product whose sizes vary from call to call. Its algorithm is the first
  /// one of the heuristic, which depends on the product alone: measuring each size would take
  /// longer than all products.
  void multiply_group(MatrixProduct const& product);

  /// Whether one matrix C = A B with a bias of C's type is faster as one product than as a product
  /// followed by `add_bias`, which launches the kernel that adds the bias to a C. Measured at the
  /// first call for a shape; false if algorithms are not measured, or if cuBLASLt has none.
  /// \throws DeviceError
  bool is_faster_with_bias(MatrixProduct const& product,
                           void const* bias,
                           std::function<void(void* c)> const& add_bias);

  /// The workspace on the current device: 32 MiB from compute capability 9.0 on, 4 MiB before
  /// (NVIDIA's advice, cuBLAS documentation, cublasSetWorkspace()).
  /// \throws DeviceError
  static std::size_t workspace_bytes();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stagecraft
