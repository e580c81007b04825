#pragma once

#include <cstdint>
#include <vector>

#include "libexec/kernels/kernel_call.hpp"
#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// Where a parameter of a sharded unit lies, in elements. A rank's shard has the parameters' own
/// shards one behind the other; what is gathered has the ranks' shards; the whole unit has each
/// parameter in one piece, padded to the shards of all ranks.
struct UnitParameter {
  std::int64_t elements = 0;  ///< without padding
  std::int64_t shard = 0;     ///< on each rank, padded
  std::int64_t in_shard = 0;  ///< before it in a rank's shard
  std::int64_t in_whole = 0;  ///< before it in the whole unit
};

/// The parameters of a block's unit, in order.
/// Source: PyTorch, torch/distributed/fsdp/_fully_shard: each parameter is cut along its rows.
class UnitLayout {
 public:
  UnitLayout(BlockProgram const& block, int ranks);

  std::vector<UnitParameter> const& parameters() const { return parameters_; }
  std::int64_t shard() const { return shard_; }  ///< elements of a rank

  /// The calls of an op that moves parameters or gradients between these layouts, given the call
  /// with whole operands. `first`: the number of the parameter with which the op begins, if it
  /// reads gradients one by one. \throws std::logic_error  if the op has another name than those of
  /// unit_names.
  std::vector<KernelCall> pieces(KernelCall const& whole, std::size_t first) const;

 private:
  std::vector<KernelCall> unpacked(KernelCall const& whole) const;
  std::vector<KernelCall> packed_by_rank(KernelCall const& whole, std::size_t first) const;
  std::vector<KernelCall> added_up(KernelCall const& whole, std::size_t first) const;

  int ranks_;
  std::vector<UnitParameter> parameters_;
  std::int64_t shard_ = 0;
};

}  // namespace stagecraft
