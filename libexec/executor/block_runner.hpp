#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "libexec/executor/op_runner.hpp"
#include "libexec/executor/parameter_store.hpp"
#include "libexec/executor/rank_context.hpp"
#include "libsim/program/pass_buffers.hpp"
#include "libsim/program/stream.hpp"

namespace stagecraft {

/// One microbatch in one block, from its forward to the end of its backward.
struct BlockInstance {
  std::int32_t chunk_program = 0;
  std::size_t position = 0;  ///< position of the block in the chunk
  MicrobatchId microbatch{};
  std::int64_t chunk = 0;        ///< chunk of the stage
  std::int64_t first_layer = 0;  ///< the block's first layer in the model
  std::vector<Buffer> buffers;   ///< by tensor; empty while they do not exist
  /// Counts of rows that the host has read, by tensor, until they are written again.
  std::map<TensorId, std::vector<std::int32_t>> counts{};
};

/// Runs the ops of blocks, and allocates and releases their buffers as the plan says. Buffers
/// belong to the instances; the runner owns the losses, which add up until the next iteration
/// clears them.
class BlockRunner {
 public:
  BlockRunner(RankContext const& context, ParameterStore const& parameters);

  BlockInstance make_instance(std::int32_t chunk_program,
                              std::size_t position,
                              MicrobatchId microbatch) const;
  /// Runs a pass of a block. Pre: the tensors that the pass receives are in the instance's buffers.
  void run(BlockInstance& instance, Pass pass);

  BlockProgram const& block_of(BlockInstance const& instance) const;
  /// For each microbatch whose loss this rank has computed, the sum of its tokens' losses.
  std::map<MicrobatchId, double>& losses() { return losses_; }
  /// The sums of what modules of multi-token prediction add, with their weight.
  std::vector<double>& prediction_losses() { return prediction_losses_; }
  /// This rank's parts of the losses of routers, of all layers and microbatches.
  std::vector<double>& router_losses() { return router_losses_; }

 private:
  void allocate(BlockInstance& instance, Op const& op, TensorId id);
  /// Runs op i.
  void run(BlockInstance& instance, std::vector<Op> const& ops, std::size_t i);
  /// Runs an op of a sharded unit. `first`: see UnitLayout.
  void move_unit(BlockInstance& instance, Op const& op, std::size_t first);
  /// The part of a gathered buffer that is the rank's own, given as the first of it.
  Operand own_part(Operand part, Op const& op) const;
  void launch(BlockInstance& instance, Op const& op);
  void launch(BlockInstance const& instance, Op const& op, KernelCall const& call);
  /// Runs the product `op` together with the following `bias_add`, if the backend is faster so.
  /// Returns whether it did.
  bool launch_with_bias(BlockInstance& instance, Op const& op, Op const& bias_add);
  /// What counts of rows are, which the device must have computed. The host reads them once.
  std::vector<std::int32_t> const& counts_of(BlockInstance& instance, TensorId counts) const;
  /// Forgets the counts that an op writes.
  void forget_counts(BlockInstance& instance, Op const& op) const;
  /// Elements of the pieces that a collective sends, then of those that it receives, by member;
  /// empty if they are equal.
  std::vector<std::int64_t> sizes_of_pieces(BlockInstance& instance, Op const& op) const;
  /// The collectives that gather a quantised tensor: its elements, and their scales.
  std::vector<Collective> quantised_parts(Collective const& whole,
                                          Operand const& part,
                                          Operand const& gathered) const;
  void start_collective(BlockInstance& instance, Op const& op, std::int32_t position);
  void wait(BlockInstance const& instance, Op const& op);
  /// For each stream, a position in the pass: all ops of the stream before it have ended.
  using Finished = std::array<std::size_t, stream_rows.size()>;
  /// A wait moves `finished` on.
  void note_uses(BlockInstance const& instance,
                 std::vector<Op> const& ops,
                 std::size_t i,
                 Finished& finished) const;
  void note_use(BlockInstance const& instance, Op const& op) const;
  void release(BlockInstance& instance, Op const& op, TensorId id);
  void load(BlockInstance const& instance, Op const& op);
  void take_loss(BlockInstance const& instance, Op const& op);
  double sum_of(Operand const& losses) const;
  Operand operand(BlockInstance const& instance, TensorId id) const;
  KernelCall call_of(BlockInstance& instance, Op const& op) const;
  /// The microbatches over which a loss is averaged: those of a replica or, as units sum the
  /// gradients of replicas unscaled, of all.
  std::int64_t batches_of_loss() const;
  OpPlace place_of(BlockInstance const& instance, Op const& op) const;

  RankContext const& context_;
  ParameterStore const& parameters_;
  OpRunner ops_;
  std::vector<BlockBuffers> buffers_;  ///< by block
  std::map<MicrobatchId, double> losses_;
  std::vector<double> prediction_losses_;
  std::vector<double> router_losses_;
};

}  // namespace stagecraft
