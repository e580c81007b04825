#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

/// Values of a run's sections that are maps, or words beside numbers: how each is read and written,
/// and the text of what it accepts.
/// The deduction guides are for clang 14, which does not deduce arguments of aggregates.
namespace stagecraft {

/// Key `context_method`: a word, or a map of two levels, whose sizes multiply to layout.context.
template <typename Layout>
struct ContextSplit {
  Layout& layout;
};
template <typename Layout>
ContextSplit(Layout&) -> ContextSplit<Layout>;
void read_field(ConfigNode const& node, ContextSplit<ParallelLayout> split);
nlohmann::ordered_json to_json(ContextSplit<ParallelLayout const> split);
std::string accepted_text(ContextSplit<ParallelLayout const> split);

/// Key `modules`: names of regions.
template <typename Names>
struct RecomputedModules {
  Names& names;
};
template <typename Names>
RecomputedModules(Names&) -> RecomputedModules<Names>;
void read_field(ConfigNode const& node, RecomputedModules<std::vector<std::string>> modules);
nlohmann::ordered_json to_json(RecomputedModules<std::vector<std::string> const> modules);
std::string accepted_text(RecomputedModules<std::vector<std::string> const> modules);

/// Key `store_microbatches`: a number, or `auto`.
void read_field(ConfigNode const& node, StoreMicrobatches& window);
nlohmann::ordered_json to_json(StoreMicrobatches const& window);

/// The text of what section `recompute` accepts.
std::string accepted_text(std::vector<RecomputePolicy> const& policies);

/// The inverse of read_recompute(): the keys that a policy uses, defaults included.
nlohmann::ordered_json to_json(std::vector<RecomputePolicy> const& policies);

/// Key `scope`: whether a capacity counts the tokens of a rank or of a microbatch.
template <typename Bool>
struct CapacityScope {
  Bool& is_of_microbatch;
};
template <typename Bool>
CapacityScope(Bool&) -> CapacityScope<Bool>;
void read_field(ConfigNode const& node, CapacityScope<bool> scope);
nlohmann::ordered_json to_json(CapacityScope<bool const> scope);

/// Key `file`.
void read_field(ConfigNode const& node, SharedCounts& counts);
nlohmann::ordered_json to_json(SharedCounts const& counts);

inline constexpr std::string_view routing_text =
    "balanced, natural, {factor: F}, {file: counts.csv} or {capacity: F}";

/// The inverse of read_routing().
nlohmann::ordered_json to_json(Routing const& routing);

/// Key `allocator_settings`: a text, which may be empty.
template <typename Text>
struct AllocatorText {
  Text& text;
};
template <typename Text>
AllocatorText(Text&) -> AllocatorText<Text>;
void read_field(ConfigNode const& node, AllocatorText<std::string> settings);
nlohmann::ordered_json to_json(AllocatorText<std::string const> settings);

/// The inverse of read_low_precision(): a name if no key differs from the default.
nlohmann::ordered_json to_json(LowPrecision const& low);

/// The inverse of read_sharding(): a name if no key differs from the kind's.
nlohmann::ordered_json to_json(Sharding const& sharding);

/// `none` if nothing is offloaded.
nlohmann::ordered_json to_json(Offload const& offload);

void read_field(ConfigNode const& node, Reshard& reshard);
nlohmann::ordered_json to_json(Reshard const& reshard);
std::string accepted_text(Reshard const& reshard);

void read_field(ConfigNode const& node, Prefetch& prefetch);
nlohmann::ordered_json to_json(Prefetch const& prefetch);
std::string accepted_text(Prefetch const& prefetch);

/// Key `offload.activations`: a map of keys, of which some are known and not modelled.
void read_field(ConfigNode const& node, ActivationOffload& activations);

/// Key `offload.activations.modules`: a list of their names.
void read_field(ConfigNode const& node, OffloadModules& modules);
nlohmann::ordered_json to_json(OffloadModules const& modules);
std::string accepted_text(OffloadModules const& modules);

nlohmann::ordered_json to_json(ScheduleConfig const& schedule);
std::string accepted_text(ScheduleConfig const& schedule);

nlohmann::ordered_json to_json(LayerSplit const& split);
inline constexpr std::string_view layout_text =
    "even, a map {first: 11, last: 11}, or a list of layers per stage";

}  // namespace stagecraft
