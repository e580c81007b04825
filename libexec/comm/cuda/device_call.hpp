#pragma once

struct CUevent_st;   ///< what a cudaEvent_t points to
struct CUstream_st;  ///< what a cudaStream_t points to

namespace stagecraft {

/// One rank's part in a collective or a message between CUDA devices. Events are valid for the
/// iteration.
struct DeviceCall {
  CUstream_st* stream = nullptr;  ///< this rank's stream for this kind of communication
  CUevent_st* ready = nullptr;    ///< recorded: after it the rank's tensors may be read and written
  CUevent_st* after = nullptr;    ///< likewise; null: the call follows no other
  CUevent_st* begun = nullptr;    ///< to be recorded when the transfer starts
  CUevent_st* done = nullptr;     ///< to be recorded when the rank may use its tensors again
};

}  // namespace stagecraft
