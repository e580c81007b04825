#include "libsim/program/trim_quantisation.hpp"

#include <vector>

namespace stagecraft {
namespace {

void mark_reads(std::vector<Op> const& ops, std::vector<bool>& is_read) {
  for (Op const& op : ops) {
    for (TensorId const id : op.reads) is_read[static_cast<std::size_t>(id)] = true;
  }
}

/// The op moves each byte of its operands equally often, or as many rows of each.
void keep_read(BlockProgram const& block, std::vector<bool> const& is_read, Op& op) {
  std::int64_t all = 0;
  std::int64_t kept = 0;
  for (TensorId const id : op.reads) all += block.tensor(id).bytes().count();
  kept = all;
  TensorList writes;
  for (TensorId const id : op.writes) {
    std::int64_t const bytes = block.tensor(id).bytes().count();
    all += bytes;
    if (!is_read[static_cast<std::size_t>(id)]) continue;
    kept += bytes;
    writes.push_back(id);
  }
  if (kept == all) return;
  op.writes = writes;
  double const moved = static_cast<double>(op.traffic.count()) / static_cast<double>(all);
  op.traffic = Bytes{static_cast<std::int64_t>(moved * static_cast<double>(kept))};
}

}  // namespace

void trim_quantisation(BlockProgram& block) {
  std::vector<bool> is_read(block.tensors.size());
  std::vector<Op>* const passes[]{&block.forward, &block.backward, &block.recompute};
  for (std::vector<Op> const* ops : passes) mark_reads(*ops, is_read);
  for (std::vector<Op>* const ops : passes) {
    for (Op& op : *ops) {
      if (op.kind == OpKind::quantise) keep_read(block, is_read, op);
    }
    std::erase_if(
        *ops, [](Op const& op) { return op.kind == OpKind::quantise && op.writes.size() == 0; });
  }
}

}  // namespace stagecraft
