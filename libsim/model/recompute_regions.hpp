#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// A part of a layer that selective recompute can choose.
struct RecomputeRegion {
  enum class Kind : std::uint8_t {
    /// Nothing that is made inside is kept; the backward pass runs all of it again.
    checkpoint,
    /// What the modules hand on is not kept; the backward pass makes it again from what they keep.
    discarded_outputs,
  };
  std::string_view name;           ///< in configurations
  std::string_view megatron_name;  ///< in Megatron-LM's --recompute-modules
  Kind kind = Kind::checkpoint;
  std::vector<std::string_view> modules;  ///< of the ops that it re-runs; see Op::module
};

/// All of them, in the order in which configurations list them. A region is added here: nothing
/// else knows their names.
/// Source: Megatron-LM, --recompute-modules in megatron/training/arguments.py.
std::span<RecomputeRegion const> recompute_regions();

/// Nothing if there is no region of that name.
RecomputeRegion const* find_region(std::string_view name);

/// Puts names of regions in the order of recompute_regions(), each once: the order in which they
/// are chosen means nothing, so that equal choices compare equal.
void sort_regions(std::vector<std::string>& names);

/// Names as a message lists them: "core_attention, mlp".
std::string region_names(std::string_view RecomputeRegion::*name = &RecomputeRegion::name);

}  // namespace stagecraft
