#pragma once

#include <chrono>
#include <memory>

#include "libexec/comm/cuda/nccl_rendezvous.hpp"
#include "libexec/comm/job_session.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Sets what NCCL needs in this process's environment where the user has not: kernels are loaded
/// when CUDA starts, since to load one may mean to wait for all that run, and NCCL's wait for other
/// ranks; and streams do not share queues. Called before anything calls CUDA.
/// \throws CommunicationError  where this build has no NCCL.
void prepare_nccl();

struct NcclOptions {
  int device = 0;                     ///< of this process
  std::chrono::seconds timeout{600};  ///< of the start, and of any collective or message
  NcclRendezvous rendezvous{};
};

/// The groups of a plan's job, each rank a process with a GPU of its own: the `inside` of a
/// CudaCommunicator. Called by all processes; plan and session must outlive the world.
///
/// A communicator for the job, one split off it for each group of more than one rank, and one for
/// each one-way connection of neighbouring stages, activations and gradients apart (StageEdge),
/// with a stream of its own, so that nothing that must progress waits behind something that waits.
/// Overlapped sends are copied when they are posted, as by all communicators; numbers that the host
/// has go over the job's communicator.
///
/// NCCL sums in the order of its rings and trees, not of ranks, and 16-bit tensors in their own
/// type: unlike with other communicators, results differ by rounding between layouts.
///
/// What goes wrong at the start, a dead peer, an error that NCCL reports later, or what takes
/// longer than the timeout ends the run through JobSession::fail(); nothing is thrown. Errors of
/// NCCL are held back for a moment, because a rank that fails says better why.
/// Pre: the plan has as many ranks as the session. The device is the calling thread's from then on.
std::unique_ptr<ProcessWorld> make_nccl_world(TrainingPlan const& plan,
                                              JobSession& session,
                                              NcclOptions const& options);

}  // namespace stagecraft
