// What cuBLASLt's functions that make and set its objects check.
#include "tests/libexec/cuda_emulation/cublaslt_objects.hpp"

#include <cstring>

namespace stagecraft::emulation {
namespace {

thread_local cublasStatus_t explained_status = CUBLAS_STATUS_SUCCESS;
thread_local std::string explanation;

template <typename T>
void set(T& target, void const* value, std::size_t bytes) {
  require(value != nullptr && bytes == sizeof(T), "an attribute's value has another size");
  std::memcpy(&target, value, sizeof(T));
}

}  // namespace

cublasStatus_t explain(Refusal const& refusal) {
  explained_status = refusal.status;
  explanation = std::string{cublasLtGetStatusName(refusal.status)} + ": " + refusal.why;
  return refusal.status;
}

}  // namespace stagecraft::emulation

using namespace stagecraft::emulation;

std::size_t cublasLtGetVersion() { return 130000; }

char const* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "a status that is not emulated";
}

char const* cublasLtGetStatusString(cublasStatus_t status) {
  bool const is_explained = status != CUBLAS_STATUS_SUCCESS && status == explained_status;
  return is_explained ? explanation.c_str() : cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return call([&] {
    int count = 0;
    require(cudaGetDeviceCount(&count) == cudaSuccess, "no device", CUBLAS_STATUS_NOT_INITIALIZED);
    *handle = new cublasLtContext;
  });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return call([&] { delete handle; });
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return call([&] { *description = new cublasLtMatmulDescOpaque_t{compute, scale}; });
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return call([&] { delete description; });
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              void const* value,
                                              std::size_t bytes) {
  return call([&] {
    switch (attribute) {
      case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(description->operation_a, value, bytes);
      case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(description->operation_b, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(description->epilogue, value, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(description->bias, value, bytes);
    }
    require(false, "an attribute that is not emulated");
  });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                          cudaDataType type,
                                          std::uint64_t rows,
                                          std::uint64_t columns,
                                          std::int64_t leading_dimension) {
  return call([&] {
    *layout = new cublasLtMatrixLayoutOpaque_t{{type, static_cast<std::int64_t>(rows),
                                                static_cast<std::int64_t>(columns),
                                                leading_dimension, 1, 0}};
  });
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return call([&] { delete layout; });
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void const* value,
                                                std::size_t bytes) {
  return call([&] {
    switch (attribute) {
      case CUBLASLT_MATRIX_LAYOUT_ORDER:
        return set(layout->order, value, bytes);
      case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return set(layout->layout.count, value, bytes);
      case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return set(layout->layout.stride, value, bytes);
    }
    require(false, "an attribute that is not emulated");
  });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return call([&] { *preference = new cublasLtMatmulPreferenceOpaque_t; });
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return call([&] { delete preference; });
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void const* value,
                                                    std::size_t bytes) {
  return call([&] {
    switch (attribute) {
      case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set(preference->workspace, value, bytes);
      case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set(preference->reductions, value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return set(preference->alignment[0], value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return set(preference->alignment[1], value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return set(preference->alignment[2], value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set(preference->alignment[3], value, bytes);
    }
    require(false, "an attribute that is not emulated");
  });
}
