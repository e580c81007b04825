#pragma once

#include <string_view>

namespace stagecraft {

// What the programs write says first what it is: a name, and a version that rises if a reader of
// the version before could go wrong.

// Files that the programs read again; those of traces and sweeps are described in SCHEMA.md of
// their folders.
inline constexpr std::string_view trace_schema = "stagecraft.trace/1";
inline constexpr std::string_view sweep_schema = "stagecraft.sweep/2";
inline constexpr std::string_view sweep_journal_schema = "stagecraft.sweep-journal/1";
inline constexpr std::string_view checkpoint_schema = "stagecraft.checkpoint/2";
/// The schema of checkpoints that have neither checksums nor a model. They can still be read.
inline constexpr std::string_view first_checkpoint_schema = "stagecraft.checkpoint/1";
inline constexpr std::string_view layer_schema = "stagecraft.layer/1";

// JSON documents.
inline constexpr std::string_view simulation_schema = "stagecraft.simulation/1";
inline constexpr std::string_view layers_schema = "stagecraft.layers/1";
inline constexpr std::string_view explanation_schema = "stagecraft.explanation/1";
inline constexpr std::string_view plan_schema = "stagecraft.plan/1";
inline constexpr std::string_view schedule_schema = "stagecraft.schedule/2";
inline constexpr std::string_view comparison_schema = "stagecraft.comparison/1";
inline constexpr std::string_view reproduction_schema = "stagecraft.reproduction/1";
inline constexpr std::string_view validation_schema = "stagecraft.validation/1";
inline constexpr std::string_view fit_schema = "stagecraft.fit/1";
inline constexpr std::string_view forecast_schema = "stagecraft.forecast/1";
inline constexpr std::string_view allocation_schema = "stagecraft.allocation/1";
inline constexpr std::string_view snapshot_comparison_schema = "stagecraft.snapshot-comparison/1";
inline constexpr std::string_view system_schema = "stagecraft.system/1";
inline constexpr std::string_view software_schema = "stagecraft.software/1";
inline constexpr std::string_view system_keys_schema = "stagecraft.system_keys/1";
inline constexpr std::string_view software_keys_schema = "stagecraft.software_keys/1";
inline constexpr std::string_view run_keys_schema = "stagecraft.run_keys/1";
inline constexpr std::string_view execution_schema = "stagecraft.execution/1";
inline constexpr std::string_view devices_schema = "stagecraft.devices/1";

/// Whether `found` names the schema, in any version.
constexpr bool is_version_of(std::string_view found, std::string_view schema) {
  return found.starts_with(schema.substr(0, schema.find('/') + 1));
}

}  // namespace stagecraft
