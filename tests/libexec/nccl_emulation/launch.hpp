#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nccl.h"
#include "tests/libexec/nccl_emulation/communicator.hpp"

namespace stagecraft::nccl_emulation {

/// target[i] = sum, or maximum, of the ranks' sources[r][i], in an order of ranks that `draw`
/// decides and that is another for the next few elements, as with NCCL's rings. 16-bit elements are
/// summed in float and rounded once. Sources may lie anywhere; the target overlaps none.
void reduce(ncclDataType_t type,
            ncclRedOp_t reduction,
            std::span<std::byte const* const> sources,
            std::size_t count,
            std::uint64_t draw,
            void* target);

/// The calls of a group on one communicator, as a kernel: what a stream does with them.
class Launch {
 public:
  Launch(std::shared_ptr<Communicator> comm,
         emulation::Device& device,
         std::vector<Operation> operations);

  /// Leaves what this rank has for the others. \throws KernelFailure
  void begin();
  /// Whether it is over: takes what has come. \throws KernelFailure  where ranks disagree, or one
  /// has not come for too long.
  bool go_on();

  double seconds() const;  ///< virtual time

 private:
  void publish(Operation const& operation);
  bool finish(Operation const& operation);
  bool finish_collective(Operation const& operation);
  bool receive(Operation const& operation);
  void combine(Operation const& operation, std::vector<std::span<std::byte const>> const& notes);
  std::string waiting_text() const;
  template <typename Body>
  auto as_kernel(Body const& body);

  std::shared_ptr<Communicator> comm_;
  emulation::Device& device_;
  std::vector<Operation> operations_;
  std::chrono::steady_clock::time_point begun_{};
};

}  // namespace stagecraft::nccl_emulation
