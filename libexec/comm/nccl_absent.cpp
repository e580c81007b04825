#include "libexec/comm/communicator.hpp"
#include "libexec/comm/cuda/nccl_world.hpp"

// Replaces the NCCL sources in a build without NCCL.

namespace stagecraft {
namespace {

[[noreturn]] void refuse_nccl() {
  throw CommunicationError{
      "built without NCCL; install CUDA and NCCL with their headers and configure with "
      "-DWITH_NCCL=ON"};
}

}  // namespace

void prepare_nccl() { refuse_nccl(); }

std::unique_ptr<ProcessWorld> make_nccl_world(TrainingPlan const& /*plan*/,
                                              JobSession& /*session*/,
                                              NcclOptions const& /*options*/) {
  refuse_nccl();
}

}  // namespace stagecraft
