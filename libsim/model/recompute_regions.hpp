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
    /// Nothing that the region computes is kept; the backward pass runs all of it again.
    checkpoint,
    /// The modules' outputs are not kept; the backward pass computes them from what is kept.
    discarded_outputs,
  };
  std::string_view name;           ///< in configurations
  std::string_view megatron_name;  ///< in Megatron-LM's --recompute-modules
  Kind kind = Kind::checkpoint;
  std::vector<std::string_view> modules;  ///< the modules whose ops it runs again; see Op::module
};

/// All regions, in the order in which configurations list them. Their names appear nowhere else, so
/// this is the only place to add one.
/// Source: Megatron-LM, --recompute-modules in megatron/training/arguments.py.
std::span<RecomputeRegion const> recompute_regions();

/// Returns null if there is no region of that name.
RecomputeRegion const* find_region(std::string_view name);

/// Puts names of regions in the order of recompute_regions() and removes duplicates, so that equal
/// choices compare equal.
void sort_regions(std::vector<std::string>& names);

/// All names as a message lists them: "core_attention, mlp".
std::string region_names(std::string_view RecomputeRegion::*name = &RecomputeRegion::name);

}  // namespace stagecraft
