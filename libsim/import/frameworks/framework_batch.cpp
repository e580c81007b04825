#include "libsim/import/frameworks/framework_batch.hpp"

namespace stagecraft {

std::optional<std::int64_t> replicas_of(FrameworkKeys& keys,
                                        std::string_view key,
                                        std::optional<std::int64_t> world_size,
                                        std::int64_t ranks_of_replica) {
  if (!world_size) {
    keys.report(key, "--world-size N");
    return std::nullopt;
  }
  if (*world_size % ranks_of_replica == 0) return *world_size / ranks_of_replica;
  keys.report(key, std::to_string(*world_size) + " ranks",
              "a multiple of the " + std::to_string(ranks_of_replica) + " ranks of a replica");
  return std::nullopt;
}

void write_batch(FrameworkRun& run,
                 std::int64_t micro_batch,
                 std::int64_t accumulation,
                 std::int64_t replicas) {
  run.sections["batch"] = {{"global", micro_batch * accumulation * replicas},
                           {"micro", micro_batch}};
}

}  // namespace stagecraft
