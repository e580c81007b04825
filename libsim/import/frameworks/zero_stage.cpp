#include "libsim/import/frameworks/zero_stage.hpp"

#include <algorithm>
#include <cstdint>

#include "libsim/run/config_files.hpp"

namespace stagecraft {

ShardingTraits const& sharding_traits(FrameworkRun& run) {
  nlohmann::ordered_json const& sharding = run.sections["sharding"];
  nlohmann::ordered_json const& kind = sharding.is_object() ? sharding["kind"] : sharding;
  // A stage that does not exist has been reported, and has left no kind.
  return traits_of(kind.is_string() ? value_named<ShardingKind>(kind.get<std::string>()).value()
                                    : ShardingKind::none);
}

void write_zero_stage(FrameworkKeys& keys,
                      std::string_view key,
                      std::int64_t stage,
                      FrameworkRun& run) {
  auto const* const row = std::ranges::find_if(all_sharding_kinds, [&](ShardingTraits const& kind) {
    auto const framework =
        stage == 0 ? ShardingFramework::any : ShardingFramework::deepspeed;  // none is of any
    return kind.framework == framework && kind.zero_stage() == stage;
  });
  if (row == all_sharding_kinds.end()) {
    keys.report(key, "0, 1, 2, 3");
    return;
  }
  nlohmann::ordered_json& sharding = run.sections["sharding"];
  sharding = row->name;
  if (!row->has_units()) return;
  sharding = {{"kind", row->name}};
  if (row->shares == SharedState::parameters) {
    keys.note(
        "ZeRO stage 3 is predicted without its persistence threshold; each layer gathers all its "
        "parameters, and the next one's ahead");
  } else if (!keys.has(key)) {
    keys.note("the stage is Accelerate's default, 2");
  }
}

void offload_optimizer(FrameworkKeys& keys,
                       std::string_view key,
                       FrameworkOptions const& options,
                       FrameworkRun& run) {
  std::string const reason =
      !sharding_traits(run).may_offload_optimizer ? "that of this stage is not modelled on the host"
      : run.model["precision"] != "bf16" ? "that of fp16 and fp32 is not modelled on the host"
      : load_system_file(options.system).node.host_adam.value == 0
          ? "the system has no node.host_adam, the rate of the host's optimizer"
          : "";
  if (!reason.empty()) {
    keys.leave_out(key, OmittedEffect::large, "more time, less memory",
                   "optimizer state stays on the device, as " + reason);
    return;
  }
  run.sections["offload"] = {{"optimizer", 1}};
}

void leave_out_offloaded_parameters(FrameworkKeys& keys, std::string_view key) {
  keys.leave_out(key, OmittedEffect::large, "more time, less memory",
                 "parameters stay on the device");
}

}  // namespace stagecraft
