#include "libexec/kernels/cuda/products/lt_product.hpp"

#include <algorithm>

#include "libsim/program/tensor.hpp"

namespace stagecraft {
namespace {

cudaDataType_t data_type(ElementType type) {
  switch (type) {
    case ElementType::f16:
      return CUDA_R_16F;
    case ElementType::bf16:
      return CUDA_R_16BF;
    case ElementType::f64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

/// The largest power of two, up to 256, that divides an address.
std::uint32_t alignment_of(void const* address) {
  auto const value = reinterpret_cast<std::uintptr_t>(address) | 256U;
  return static_cast<std::uint32_t>(value & (~value + 1));
}

/// The layout of stored rows, which are columns to cuBLASLt.
LtLayout make_layout(ElementType type,
                     std::int64_t rows,
                     std::int64_t columns,
                     std::int64_t row_stride,
                     std::int64_t count,
                     std::int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, data_type(type), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), row_stride),
        "cublasLtMatrixLayoutCreate");
  LtLayout layout{made};
  auto const batch = static_cast<std::int32_t>(count);
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                         sizeof(batch)),
        "cublasLtMatrixLayoutSetAttribute");
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                         sizeof(stride)),
        "cublasLtMatrixLayoutSetAttribute");
  return layout;
}

LtProduct make_product(GemmShape const& shape, bool is_double) {
  cublasLtMatmulDesc_t made = nullptr;
  // Not one of the FAST modes: f32 stays f32.
  check(cublasLtMatmulDescCreate(&made, is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                 is_double ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  LtProduct product{made};
  auto const set = [&](cublasLtMatmulDescAttributes_t attribute, bool transposes) {
    cublasOperation_t const operation = transposes ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(made, attribute, &operation, sizeof(operation)),
          "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b);
  set(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a);
  return product;
}

}  // namespace

ProductKey key_of(StridedProduct const& product) {
  GemmShape const& g = product.shape;
  auto const& [a, b, c] = product.matrices;
  return {g.batch,
          g.m,
          g.n,
          g.k,
          g.transpose_a,
          g.transpose_b,
          g.accumulate,
          static_cast<std::int64_t>(product.type) * 16 + static_cast<std::int64_t>(product.c_type),
          product.row_strides[0],
          product.row_strides[1],
          product.row_strides[2],
          a.stride,
          b.stride,
          c.stride,
          alignment_of(a.data),
          alignment_of(b.data),
          alignment_of(c.data),
          product.bias == nullptr ? 0 : alignment_of(product.bias)};
}

std::string describe(StridedProduct const& product) {
  GemmShape const& g = product.shape;
  auto const matrix = [](std::int64_t rows, std::int64_t columns, bool transposed) {
    return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]" +
           (transposed ? " (stored transposed)" : "");
  };
  auto const& strides = product.row_strides;
  return std::to_string(g.batch) + " x " + matrix(g.m, g.k, g.transpose_a) + " by " +
         matrix(g.k, g.n, g.transpose_b) + ", " + std::string{name_of(product.type)} + " into " +
         std::string{name_of(product.c_type)} + (g.accumulate ? " added" : "") + ", rows " +
         std::to_string(strides[0]) + ", " + std::to_string(strides[1]) + " and " +
         std::to_string(strides[2]) + " elements apart" +
         (product.bias == nullptr ? "" : ", with a bias");
}

LtDescription::LtDescription(StridedProduct const& product)
    : is_double_{product.type == ElementType::f64}, accumulates_{product.shape.accumulate} {
  GemmShape const& g = product.shape;
  auto const& [a, b, c] = product.matrices;
  auto const& strides = product.row_strides;
  product_ = make_product(g, is_double_);
  if (product.bias != nullptr) {
    // C's rows are columns to cuBLASLt, so the bias has one element per row.
    cublasLtEpilogue_t const epilogue = CUBLASLT_EPILOGUE_BIAS;
    check(cublasLtMatmulDescSetAttribute(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                         sizeof epilogue),
          "cublasLtMatmulDescSetAttribute");
    set_bias(product.bias);
  }
  first_ = make_layout(product.type, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n,
                       strides[1], g.batch, b.stride);
  second_ = make_layout(product.type, g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k,
                        strides[0], g.batch, a.stride);
  result_ = make_layout(product.c_type, g.m, g.n, strides[2], g.batch, c.stride);
  alignments_ = {alignment_of(a.data), alignment_of(b.data), alignment_of(c.data)};
}

void LtDescription::set_bias(void const* bias) {
  check(cublasLtMatmulDescSetAttribute(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                       sizeof bias),
        "cublasLtMatmulDescSetAttribute");
}

std::span<cublasLtMatmulHeuristicResult_t const> LtDescription::find_algorithms(
    cublasLtHandle_t handle,
    std::size_t workspace,
    std::span<cublasLtMatmulHeuristicResult_t> room) const {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  LtPreference const preference{made};
  auto const set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace});
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments_[1]);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments_[0]);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments_[2]);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments_[2]);
  int found = 0;
  cublasStatus_t const status = cublasLtMatmulAlgoGetHeuristic(
      handle, product_.get(), first_.get(), second_.get(), result_.get(), result_.get(), made,
      static_cast<int>(room.size()), room.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  auto const usable = std::remove_if(
      room.begin(), room.begin() + found, [&](cublasLtMatmulHeuristicResult_t const& result) {
        return result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > workspace;
      });
  return {room.begin(), usable};
}

cublasStatus_t LtDescription::launch(cublasLtHandle_t handle,
                                     StridedProduct const& product,
                                     void* c,
                                     cublasLtMatmulAlgo_t const& algorithm,
                                     void* workspace,
                                     std::size_t workspace_bytes,
                                     cudaStream_t stream) {
  float const narrow_one = 1;
  float const narrow_beta = accumulates_ ? 1 : 0;
  double const wide_one = 1;
  double const wide_beta = accumulates_ ? 1 : 0;
  void const* const alpha = is_double_ ? static_cast<void const*>(&wide_one) : &narrow_one;
  void const* const beta = is_double_ ? static_cast<void const*>(&wide_beta) : &narrow_beta;
  if (product.bias != nullptr) set_bias(product.bias);
  return cublasLtMatmul(handle, product_.get(), alpha, product.matrices[1].data, first_.get(),
                        product.matrices[0].data, second_.get(), beta, c, result_.get(), c,
                        result_.get(), &algorithm, workspace, workspace_bytes, stream);
}

}  // namespace stagecraft
