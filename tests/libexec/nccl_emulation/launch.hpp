#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "tests/libexec/nccl_emulation/communicator.hpp"

namespace stagecraft::nccl_emulation {

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
