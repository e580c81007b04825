#include "libsim/trace/recorded_bytes.hpp"

namespace stagecraft {

ChunkSums chunk_sums(Programs const& programs, Task const& task) {
  Pass const pass = pass_of(task);
  ChunkSums sums;
  for (TaskBlock const& of_task : blocks_in_order(programs, task)) {
    for (Op const& op : programs.blocks[of_task.block].ops(pass)) {
      sums.bytes += op.traffic.count();
      sums.flops += op.flops;
    }
  }
  return sums;
}

}  // namespace stagecraft
