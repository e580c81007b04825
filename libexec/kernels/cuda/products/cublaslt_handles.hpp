#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>
#include <type_traits>

#include "libexec/kernels/cuda/device_error.hpp"

/// cuBLASLt's objects, each destroyed exactly once.
namespace stagecraft {

/// \throws DeviceError  unless `status` is success; names `call`.
inline void check(cublasStatus_t status, char const* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError{std::string{call} + ": " + cublasLtGetStatusString(status)};
}

template <auto destroy>
struct DestroyLt {
  template <typename T>
  void operator()(T* object) const {
    destroy(object);
  }
};
template <typename Handle, auto destroy>
using LtObject = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyLt<destroy>>;

using LtHandle = LtObject<cublasLtHandle_t, cublasLtDestroy>;
using LtLayout = LtObject<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using LtProduct = LtObject<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using LtPreference = LtObject<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

}  // namespace stagecraft
