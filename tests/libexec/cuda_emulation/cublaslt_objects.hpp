#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <string>

#include "tests/libexec/cuda_emulation/product.hpp"

// What the library's opaque objects hold.

struct cublasLtContext {};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t operation_a = CUBLAS_OP_N;
  cublasOperation_t operation_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void const* bias = nullptr;
};

struct cublasLtMatrixLayoutOpaque_t {
  stagecraft::emulation::Layout layout;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
};

struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  ///< of A, B, C, D
};

namespace stagecraft::emulation {

struct Refusal {
  cublasStatus_t status;
  std::string why;
};

/// What the library returns for a refusal, whose reason cublasLtGetStatusString says from then on.
cublasStatus_t explain(Refusal const& refusal);

/// Runs the body of a function of the library: turns what it throws into what the function returns.
template <typename Body>
cublasStatus_t call(Body const& body) {
  try {
    body();
    return CUBLAS_STATUS_SUCCESS;
  } catch (Refusal const& refusal) {
    return explain(refusal);
  }
}

inline void require(bool is_so,
                    char const* why,
                    cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE) {
  if (!is_so) throw Refusal{status, why};
}

}  // namespace stagecraft::emulation
