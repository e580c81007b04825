#pragma once

#include <memory>
#include <vector>

#include "libsim/program/block_program.hpp"
#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test {

/// Runs a block program on all of its t tensor ranks in lockstep: each op on every rank,
/// collectives in between by hand. Every buffer holds NaN until it is written.
///
/// Inputs do not depend on t: a parameter, the block's input and the gradient of its output are
/// random numbers of the whole tensor, of which ranks get their shares.
class LockstepRun {
 public:
  LockstepRun(BlockProgram const& program,
              BlockShape const& shape,
              CpuKernelOptions const& options);

  void run(Pass pass);
  /// A forward and a backward pass.
  void run() {
    run(Pass::forward);
    run(Pass::backward);
  }

  TestTensor& tensor(int rank, TensorId id);
  /// Hidden states of all ranks, [s, b, h].
  std::vector<double> whole_hidden(TensorId id) const;
  /// The gradient of parameter `index`, of all ranks, as the whole model has it.
  std::vector<double> whole_gradient(std::size_t index) const;

  /// Memory allocations that kernels made so far.
  std::int64_t allocations() const { return allocations_; }

 private:
  /// Element of the whole parameter that element i of a rank's share is.
  std::int64_t whole_element(Parameter const& parameter, int rank, std::int64_t i) const;
  std::int64_t whole_elements(Parameter const& parameter) const;
  std::int64_t padded_rows(Parameter const& parameter) const;
  void fill_inputs();
  Operand operand(int rank, TensorId id);
  void run_op(Op const& op);
  void run_collective(Op const& op);

  BlockProgram const* program_;
  BlockShape shape_;
  std::vector<std::vector<TestTensor>> tensors_;  ///< by rank and tensor; views are empty
  std::vector<std::unique_ptr<CpuKernels>> kernels_;
  std::int64_t allocations_ = 0;
};

}  // namespace stagecraft::test
