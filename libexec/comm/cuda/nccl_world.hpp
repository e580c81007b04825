#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "libexec/comm/job_session.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// How the ranks of a job get the id that rank 0 makes, with which NCCL's bootstrap connects them.
/// Exactly one member is set, or none for a job of one rank.
struct NcclRendezvous {
  /// HOST:PORT of rank 0, as in NCCL_COMM_ID. NCCL requires that this machine has an interface in
  /// the host's subnet.
  std::string address{};
  std::filesystem::path file{};  ///< in a folder that all machines share; see IdFile
  std::function<void(std::span<std::byte> id)> broadcast{};  ///< sends rank 0's bytes to all
};

/// Sets the environment variables that NCCL needs, unless the user has set them. Kernels are loaded
/// when CUDA starts, because loading one may wait for all running kernels, and those of NCCL wait
/// for other ranks; and streams do not share queues. Must be called before anything calls CUDA.
/// \throws CommunicationError  if the program was built without NCCL.
void prepare_nccl();

struct NcclOptions {
  int device = 0;                     ///< of this process
  std::chrono::seconds timeout{600};  ///< of the start, and of each collective or message
  NcclRendezvous rendezvous{};
};

/// Makes a ProcessWorld over NCCL in which each rank is a process with its own GPU; its
/// communicator is the `inside` of a CudaCommunicator. All processes call it; plan and session must
/// outlive it.
///
/// There is one NCCL communicator for the job, one split off it for each group of more than one
/// rank, and one, with its own stream, for each one-way connection of neighbouring stages
/// (StageEdge, separate for activations and gradients), so that no call waits behind an unrelated
/// one. Overlapped sends are copied when they are posted, as in all communicators; numbers in host
/// memory go over the job's communicator.
///
/// NCCL sums in the order of its rings and trees, not in rank order, and sums 16-bit tensors in
/// their own type. So, unlike with the other communicators, results of layouts differ by rounding.
///
/// Errors at the start, a dead peer, errors that NCCL reports later, and calls that exceed the
/// timeout end the run through JobSession::fail(); nothing is thrown. Errors of NCCL are delayed a
/// little, because the rank that caused them reports a better reason.
/// Pre: the plan has as many ranks as the session. The device is the calling thread's from then on.
std::unique_ptr<ProcessWorld> make_nccl_world(TrainingPlan const& plan,
                                              JobSession& session,
                                              NcclOptions const& options);

}  // namespace stagecraft
