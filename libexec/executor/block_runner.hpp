#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "libexec/executor/parameter_store.hpp"
#include "libexec/executor/rank_context.hpp"
#include "libsim/model/pass_buffers.hpp"

namespace stagecraft {

/// One microbatch in one block between its forward and the end of its backward.
struct BlockInstance {
  std::int32_t chunk_program = 0;
  std::size_t position = 0;  ///< of the block in the chunk
  std::int64_t microbatch = 0;
  std::int64_t chunk = 0;        ///< of the stage
  std::int64_t first_layer = 0;  ///< of the model
  std::vector<Buffer> buffers;   ///< by tensor; those that do not exist now are empty
};

/// Runs the ops of blocks, with their buffers coming and going as the plan says.
class BlockRunner {
 public:
  BlockRunner(RankContext const& context, ParameterStore const& parameters);

  BlockInstance make_instance(std::int32_t chunk_program,
                              std::size_t position,
                              std::int64_t microbatch) const;
  /// Pre: what the pass receives from its neighbours is in the instance's buffers.
  void run(BlockInstance& instance, Pass pass);

  BlockProgram const& block_of(BlockInstance const& instance) const;
  /// Sum of the losses of the tokens of each microbatch that this rank has seen the loss of.
  std::map<std::int64_t, double>& losses() { return losses_; }

 private:
  /// A collective that no wait has met yet.
  struct Pending {
    std::int32_t position = 0;
    GroupId group{};
    Communicator::Ticket ticket = 0;
    std::size_t row = 0;
  };

  void allocate(BlockInstance& instance, Op const& op, TensorId id);
  void run(BlockInstance& instance, Op const& op, std::int32_t position);
  void launch(BlockInstance const& instance, Op const& op);
  void launch(BlockInstance const& instance, Op const& op, KernelCall const& call);
  /// Runs the product `op`, with the bias that `bias_add` adds behind it where the backend's
  /// product is to add it; whether it did.
  bool launch_with_bias(BlockInstance const& instance, Op const& op, Op const& bias_add);
  /// For an op that has nothing to do.
  void record_now(BlockInstance const& instance, Op const& op);
  void start_collective(BlockInstance const& instance, Op const& op, std::int32_t position);
  void wait(BlockInstance const& instance, Op const& op);
  void load(BlockInstance const& instance, Op const& op);
  void take_loss(BlockInstance const& instance, Op const& op);
  Operand operand(BlockInstance const& instance, TensorId id) const;
  KernelCall call_of(BlockInstance const& instance, Op const& op) const;
  OpPlace place_of(BlockInstance const& instance, Op const& op) const;

  RankContext const& context_;
  ParameterStore const& parameters_;
  std::vector<BlockBuffers> buffers_;  ///< by block
  std::vector<Pending> pending_;
  std::map<std::int64_t, double> losses_;
};

}  // namespace stagecraft
