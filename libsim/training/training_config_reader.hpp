#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

class SectionReader;

/// The sections of a run file that read_training_config() reads.
inline constexpr std::array<std::string_view, 15> training_sections{
    "model",    "parallel", "batch",         "schedule", "recompute",
    "routing",  "dispatch", "deterministic", "tf32",     "low_precision",
    "sharding", "offload",  "memory",        "layout",   "training"};

/// Other names that people use for keys of the section `parallel`.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 8>
    short_names_of_parallel{{{"tp", "tensor"},
                             {"pp", "pipeline"},
                             {"dp", "data"},
                             {"cp", "context"},
                             {"ep", "expert"},
                             {"etp", "expert_tensor"},
                             {"vpp", "interleave"},
                             {"sp", "sequence"}}};

/// For a reader of a run, or of one of its sections: makes its errors about keys for sharding and
/// offloading say which part of these is modelled.
void name_unmodelled_keys(SectionReader& reader);

/// Reads the configuration of a training from the root of a run file (`model` must be in place),
/// and checks that it can be run: divisibility, the schedule's rules, the layout, sizes. Problems
/// and warnings go to the node's diagnostics; the result is meaningful only if there are none.
///
/// Settings that have no effect are stored as off, so that equal plans have equal configurations:
/// sequence parallelism with one tensor rank, and the group of a schedule that is not interleaved.
TrainingConfig read_training_config(ConfigNode const& root);

/// All sections as read_training_config() reads them: every key, defaults included.
nlohmann::ordered_json to_json(TrainingConfig const& config);

}  // namespace stagecraft
