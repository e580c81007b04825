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
    /// The region keeps none of its internal tensors, and its backward begins by running all of it
    /// again. Outputs that later modules read in their backward are kept.
    checkpoint,
    /// The outputs of the modules are dropped once the forward has read them, even if other modules
    /// read them in their backward. They are computed again, from what is kept, before the first
    /// backward op that reads them.
    discarded_outputs,
  };
  std::string_view name;           ///< in configurations
  std::string_view megatron_name;  ///< in Megatron-LM's --recompute-modules, as exports write it
  std::string_view short_name;     ///< in columns of tables
  Kind kind = Kind::checkpoint;
  std::vector<std::string_view> modules;  ///< the modules whose ops it runs again; see Op::module
};

/// The module of the ops that count choices over the global batch. They run once per microbatch;
/// recompute does not run them again, so what it reads of them is kept.
inline constexpr std::string_view batch_counts_module = "router_batch_counts";

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

/// Regions as tables list them: "mlp+ln", or by other names of theirs. Pre: the regions exist.
std::string regions_text(std::vector<std::string> const& regions,
                         std::string_view RecomputeRegion::*name = &RecomputeRegion::short_name);

/// What the short names of regions mean: "mlp, ln layernorm". Pre: the regions exist.
std::string short_names_text(std::vector<std::string> regions);

}  // namespace stagecraft
