#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "libsim/config/problem.hpp"

namespace stagecraft {

/// Intervals of request sizes that may be rounded differently: [2^20, 2^21) and so on to 2^36.
/// Smaller requests use the first, larger ones the last.
inline constexpr int rounding_intervals = 16;

/// The address space that a growing segment reserves: a fraction of the device's memory, or bytes.
struct SegmentReservation {
  bool is_fraction = true;
  double value = 0;  ///< a fraction, or bytes

  friend bool operator==(SegmentReservation const&, SegmentReservation const&) = default;
};

/// What PYTORCH_CUDA_ALLOC_CONF (or PYTORCH_ALLOC_CONF) sets, as far as it changes which memory the
/// allocator takes. Sizes are in bytes.
/// Source: PyTorch, c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp.
struct AllocatorSettings {
  enum class Backend : std::uint8_t { native, cuda_malloc_async };

  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

  Backend backend = Backend::native;
  bool expandable_segments = false;
  std::int64_t max_split_size = unlimited;  ///< blocks of this size and above are never split
  std::int64_t large_segment_size = std::int64_t{20} << 20;      ///< for requests below 10 MiB
  std::int64_t max_non_split_rounding = std::int64_t{20} << 20;  ///< waste of an oversize block
  double garbage_collection_threshold = 0;                       ///< 0: off
  /// Divisions between powers of two that requests are rounded up to; 0 and 1: multiples of 512 B.
  std::array<std::int64_t, rounding_intervals> power2_divisions{};
  std::optional<double> memory_fraction;  ///< per_process_memory_fraction, if below 1
  std::optional<SegmentReservation> reservation;

  friend bool operator==(AllocatorSettings const&, AllocatorSettings const&) = default;
};

/// Reads settings as PYTORCH_CUDA_ALLOC_CONF has them: `key:value,...`, where a value may be a list
/// in brackets. Spaces are ignored, as PyTorch does. Keys that do not change which memory is taken
/// (pinned memory, locks) are checked by name only. Of a key that is repeated, the last counts.
///
/// Problems go to `diagnostics`, under `key` followed by the setting's own key.
AllocatorSettings read_allocator_settings(std::string_view text,
                                          Place const& place,
                                          std::string_view key,
                                          Diagnostics& diagnostics);

}  // namespace stagecraft
