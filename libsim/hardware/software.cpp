#include "libsim/hardware/software.hpp"

#include "libsim/hardware/by_capability.hpp"

namespace stagecraft {

namespace {

Bytes bytes_of(BytesByCapability const& bytes, int compute_capability) {
  return by_capability(bytes, compute_capability, Bytes{0});
}

}  // namespace

FrameworkMemory framework_memory(Software const& software, int compute_capability) {
  MemoryUse const& memory = software.memory;
  return {.kept = memory.kept.value,
          .held = memory.held.value,
          .held_of_prediction = memory.held_of_prediction.value,
          .temporary = memory.temporary.value,
          .transposes_attention = memory.transposed_attention.value,
          .separates_gradients = memory.separate_gradients.value,
          .passes_gradients = memory.passing_gradients.value,
          .widens_gradients = memory.widened_gradients.value,
          .has_foreach_step = memory.foreach_step.value,
          .frees_gradients = memory.freed_gradients.value,
          .replica_gradient_bytes = memory.replica_gradient_bytes.value,
          .first_replica_bucket = memory.first_replica_bucket.value,
          .replica_bucket = memory.replica_bucket.value,
          .keeps_inputs = memory.kept_inputs.value,
          .keeps_root = memory.kept_root.value,
          .keeps_gathered = memory.kept_gathers.value,
          .global_buffer = memory.global_buffer.value,
          .joins_master_weights = memory.joined_master_weights.value,
          .shards_parameters = memory.sharded_parameters.value,
          .copies_gathered_parameters = memory.gather_copies.value,
          .workspace = bytes_of(memory.workspace.value, compute_capability),
          .shared_workspace = bytes_of(memory.shared_workspace.value, compute_capability),
          .grouped_workspace = bytes_of(memory.grouped_workspace.value, compute_capability),
          .router_workspace = bytes_of(memory.router_workspace.value, compute_capability),
          .host_lead = memory.host_lead.value,
          .waits_after_sends = memory.host_lead.value > 0 && memory.waits_after_sends.value,
          .waits_after_passes = memory.host_lead.value > 0 && memory.waits_after_passes.value,
          .connects_late = memory.host_lead.value > 0 && memory.late_connections.value,
          .kernels_per_op = memory.host_lead.value > 0 ? memory.kernels_per_op.value : 1,
          .host_gain = memory.host_lead.value > 0 ? memory.host_gain.value : 0,
          .factor = memory.factor.value};
}

bool decides_by_allocator(Software const& software) {
  return framework_memory(software) != FrameworkMemory{};
}

}  // namespace stagecraft
