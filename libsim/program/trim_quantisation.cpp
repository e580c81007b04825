#include "libsim/program/trim_quantisation.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace stagecraft {
namespace {

/// The number of ops that read each tensor.
using Readers = std::vector<int>;

void count_reads(std::vector<Op> const& ops, Readers& readers) {
  for (Op const& op : ops) {
    for (TensorId const id : op.reads) ++readers[static_cast<std::size_t>(id)];
  }
}

/// The op moves each byte of its operands equally often, or as many rows of each.
void keep_read(BlockProgram const& block, Readers const& readers, Op& op) {
  std::int64_t all = 0;
  std::int64_t kept = 0;
  for (TensorId const id : op.reads) all += block.tensor(id).bytes().count();
  kept = all;
  TensorList writes;
  for (TensorId const id : op.writes) {
    std::int64_t const bytes = block.tensor(id).bytes().count();
    all += bytes;
    if (readers[static_cast<std::size_t>(id)] == 0) continue;
    kept += bytes;
    writes.push_back(id);
  }
  if (kept == all) return;
  op.writes = writes;
  double const moved = static_cast<double>(op.traffic.count()) / static_cast<double>(all);
  op.traffic = Bytes{static_cast<std::int64_t>(moved * static_cast<double>(kept))};
}

/// If nobody but `transpose` reads the rows that `quantise` makes, makes the columns at once of
/// what it quantises. Returns whether that is so.
bool makes_columns(BlockProgram const& block,
                   Readers const& readers,
                   Op& quantise,
                   Op const& transpose) {
  TensorId const rows = transpose.reads[0];
  bool const is_for_it = quantise.kind == OpKind::quantise && quantise.writes.size() == 1 &&
                         quantise.writes[0] == rows && readers[static_cast<std::size_t>(rows)] == 1;
  if (!is_for_it) return false;
  auto const bytes = static_cast<double>(block.tensor(rows).bytes().count());
  auto const columns = static_cast<double>(block.tensor(transpose.writes[0]).bytes().count());
  double const used = static_cast<double>(transpose.traffic.count()) / (bytes + columns);
  quantise.traffic += Bytes{static_cast<std::int64_t>(used * (columns - bytes))};
  quantise.writes = transpose.writes;
  return true;
}

/// Backward, and the ops that it runs again, quantise by columns what is only read by columns.
void quantise_columns(BlockProgram& block, Readers const& readers) {
  auto const is_made = [&](Op const& op) {
    if (op.kind != OpKind::transpose_quantised) return false;
    return std::ranges::any_of(std::array{&block.recompute, &block.backward}, [&](auto* ops) {
      return std::ranges::any_of(
          *ops, [&](Op& quantise) { return makes_columns(block, readers, quantise, op); });
    });
  };
  std::erase_if(block.backward, is_made);
}

}  // namespace

void trim_quantisation(BlockProgram& block) {
  Readers readers(block.tensors.size());
  std::vector<Op>* const passes[]{&block.forward, &block.backward, &block.recompute};
  for (std::vector<Op> const* ops : passes) count_reads(*ops, readers);
  for (std::vector<Op>* const ops : passes) {
    for (Op& op : *ops) {
      if (op.kind == OpKind::quantise) keep_read(block, readers, op);
    }
    std::erase_if(
        *ops, [](Op const& op) { return op.kind == OpKind::quantise && op.writes.size() == 0; });
  }
  quantise_columns(block, readers);
}

}  // namespace stagecraft
