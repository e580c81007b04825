#include "libsim/import/frameworks/zero_stage.hpp"

#include "libsim/run/config_files.hpp"

namespace stagecraft {

ShardingTraits const& sharding_traits(FrameworkRun& run) {
  nlohmann::ordered_json const& sharding = run.sections["sharding"];
  nlohmann::ordered_json const& kind = sharding.is_object() ? sharding["kind"] : sharding;
  // A stage that there is not has been reported, and has left no kind.
  return traits_of(kind.is_string() ? value_named<ShardingKind>(kind.get<std::string>()).value()
                                    : ShardingKind::none);
}

void write_zero_stage(FrameworkKeys& keys,
                      std::string_view key,
                      std::int64_t stage,
                      FrameworkRun& run) {
  if (stage == 0) {
    run.sections["sharding"] = "none";
  } else if (stage == 1) {
    run.sections["sharding"] = "zero1";
  } else if (stage == 3) {
    run.sections["sharding"] = {{"kind", "zero3"}};
    keys.note(
        "ZeRO stage 3 is predicted without its persistence threshold; each layer gathers all its "
        "parameters, and the next one's ahead");
  } else if (stage == 2) {
    run.sections["sharding"] = {{"kind", "zero2"}};
    if (!keys.has(key)) keys.note("the stage is Accelerate's default, 2");
  } else {
    keys.report(key, "0, 1, 2, 3");
  }
}

void offload_optimizer(FrameworkKeys& keys,
                       std::string_view key,
                       FrameworkOptions const& options,
                       FrameworkRun& run) {
  bool const is_known =
      sharding_traits(run).may_offload_optimizer && run.model["precision"] == "bf16";
  if (!is_known || load_system_file(options.system).node.host_adam.value == 0) {
    keys.leave_out(key, OmittedEffect::large, "more time, less memory",
                   is_known
                       ? "the system has no node.host_adam, so optimizer state stays on the device"
                       : "optimizer state stays on the device");
    return;
  }
  run.sections["offload"] = {{"optimizer", 1}};
}

void leave_out_offloaded_parameters(FrameworkKeys& keys, std::string_view key) {
  keys.leave_out(key, OmittedEffect::large, "more time, less memory",
                 "parameters stay on the device");
}

}  // namespace stagecraft
