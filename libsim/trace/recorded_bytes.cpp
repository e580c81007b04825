#include "libsim/trace/recorded_bytes.hpp"

namespace stagecraft {

ChunkSums chunk_sums(TrainingPlan const& plan, Task const& task) {
  Pass const pass = pass_of(task);
  ChunkSums sums;
  for (TaskBlock const& of_task : blocks_in_order(plan, task)) {
    for (Op const& op : plan.blocks[of_task.block].ops(pass)) {
      sums.bytes += op.traffic.count();
      sums.flops += op.flops;
    }
  }
  return sums;
}

}  // namespace stagecraft
