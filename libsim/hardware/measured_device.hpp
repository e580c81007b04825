#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "libsim/hardware/sourced.hpp"
#include "libsim/model/model_config.hpp"
#include "libsim/program/op.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Which operand of a matrix product is stored transposed: the second one in a linear layer's
/// forward (nt), none in its input gradient (nn), the first in its weight gradient (tn). A batched
/// form is many products in one kernel, together enough to fill the device.
enum class GemmForm : std::uint8_t { nt, nn, tn, batched_nt, batched_nn, batched_tn };

GemmForm form_of(GemmShape const& gemm);
/// The form of one product of a batch.
GemmForm without_batch(GemmForm form);

/// Rates of matrix products C[m, n] = A B of depth k, on a grid of shapes.
struct GemmGrid {
  std::vector<std::int64_t> m;  ///< ascending, like n and k
  std::vector<std::int64_t> n;
  std::vector<std::int64_t> k;
  /// The rate of (m[i], n[j], k[l]) is at (i * n.size() + j) * k.size() + l.
  std::vector<FlopsPerSecond> rates;

  friend bool operator==(GemmGrid const&, GemmGrid const&) = default;
};

/// A kernel's time: latency + bytes moved / bandwidth.
struct KernelCost {
  Seconds latency;
  BytesPerSecond bandwidth;

  friend bool operator==(KernelCost const&, KernelCost const&) = default;
};

/// What `stagecraft-exec calibrate` measured on a device. Section `measured`, which is optional.
struct MeasuredDevice {
  Sourced<std::map<Precision, std::map<GemmForm, GemmGrid>>> gemm;
  Sourced<std::map<Precision, std::map<OpKind, KernelCost>>> kernels;

  friend bool operator==(MeasuredDevice const&, MeasuredDevice const&) = default;
};

}  // namespace stagecraft
