#pragma once

#include <memory>
#include <stdexcept>

#include "tests/libexec/nccl_emulation/communicator.hpp"
#include "tests/libexec/nccl_emulation/failure.hpp"

/// What programs have a pointer to.
struct ncclComm : stagecraft::nccl_emulation::Communicator {
  using Communicator::Communicator;
  ncclComm_t* split_target = nullptr;  ///< of a split that is under way
};

namespace stagecraft::nccl_emulation {

/// The process's, of which a program has handles: neither destroyed nor aborted. Device's lock is
/// held.
/// \throws Failure  where a handle is none of them.
ncclComm& find(ncclComm_t handle);
ncclComm_t keep(std::shared_ptr<ncclComm> comm);
/// What is on streams goes on to hold it.
void forget(ncclComm_t handle);

/// Runs the body of a function: turns what it throws into what the function returns.
template <typename Body>
ncclResult_t guarded(Body const& body) {
  return emulation::Device::get().configure([&](emulation::Device& device) {
    try {
      if (device.count < 1) throw Failure{ncclUnhandledCudaError, "no device is emulated"};
      return body(device);
    } catch (Failure const& failure) {
      remember(failure.what());
      return failure.code();
    } catch (emulation::Failure const& failure) {
      remember(failure.what());
      return ncclUnhandledCudaError;
    } catch (std::runtime_error const& failure) {
      remember(failure.what());
      return ncclSystemError;
    }
  });
}

/// What a call returns that has begun something: where communicators block, when it is over.
ncclResult_t await(emulation::Device& device, ncclComm& comm);

}  // namespace stagecraft::nccl_emulation
