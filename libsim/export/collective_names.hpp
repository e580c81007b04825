#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "libsim/program/op_kind.hpp"

namespace stagecraft {

/// What other programs call a kind of collective.
struct CollectiveNames {
  std::string_view nccl_kernel;  ///< "AllReduce" of ncclDevKernel_AllReduce...
  std::string_view pytorch;      ///< in the record of a profiler
  /// CollectiveCommType of Chakra's schema; nullopt: a node that sends and one that receives.
  std::optional<std::int64_t> chakra;
};

/// \throws std::logic_error  if the kind is not a collective.
CollectiveNames const& collective_names(OpKind kind);

}  // namespace stagecraft
