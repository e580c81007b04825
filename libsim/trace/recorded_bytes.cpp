#include "libsim/trace/recorded_bytes.hpp"

namespace stagecraft {

ChunkSums chunk_sums(TrainingPlan const& plan, Task const& task) {
  Pass const pass = pass_of(task);
  ChunkSums sums;
  for (std::int32_t const block : blocks_in_order(plan, task)) {
    for (Op const& op : plan.blocks[static_cast<std::size_t>(block)].ops(pass)) {
      sums.bytes += op.traffic.count();
      sums.flops += op.flops;
    }
  }
  return sums;
}

}  // namespace stagecraft
