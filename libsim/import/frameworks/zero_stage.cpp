#include "libsim/import/frameworks/zero_stage.hpp"

#include "libsim/run/config_files.hpp"

namespace stagecraft {

ShardingTraits const& sharding_traits(FrameworkRun& run) {
  nlohmann::ordered_json const& sharding = run.sections["sharding"];
  std::string const name = sharding.is_object() ? sharding["kind"] : sharding;
  return traits_of(value_named<ShardingKind>(name).value());
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
        "ZeRO stage 3 is predicted without its persistence threshold and reuse distance (the last "
        "unit "
        "alone keeps its parameters after forward), and without its flat buffers: 2 bytes of "
        "gradients "
        "per parameter of a shard, and 2 bytes per element of reduce_bucket_size");
  } else if (stage == 2) {
    // It reduces the gradients of every microbatch.
    run.sections["sharding"] = {
        {"kind", "fsdp2"}, {"reshard_after_forward", false}, {"sync", "every"}};
    if (keys.has(key)) {
      keys.leave_out(key, OmittedEffect::large, "either way",
                     "predicted as fsdp2 that keeps its parameters after forward");
    } else {
      keys.note(
          "Accelerate's default, ZeRO stage 2, is predicted as fsdp2 that keeps its parameters");
    }
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
