// Streams and events: what the runtime's functions check, and what they wait for.
#include <cuda_runtime_api.h>

#include "tests/libexec/cuda_emulation/device.hpp"

using namespace stagecraft::emulation;

cudaError_t cudaDeviceSynchronize() {
  return Device::get().call([](Device& device) { device.schedule.run_all(Device::current()); });
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Device::get().call([&](Device& device) {
    if ((flags & ~cudaStreamNonBlocking) != 0) throw Failure{cudaErrorInvalidValue, "stream flags"};
    *stream = device.schedule.create_stream(flags, Device::current());
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Device::get().call([&](Device&) {
    *least = 0;
    *greatest = -5;  // as devices of compute capability 8.0 and 9.0 say
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Device::get().release([&](Device& device) {
    device.schedule.stream(stream);
    device.schedule.destroy(stream);
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Device::get().call([&](Device& device) {
    CUstream_st& waited = device.schedule.stream(stream);
    device.schedule.run_until([&] { return waited.work.empty(); });
    device.schedule.host_waited_until(waited.now);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Device::get().call([&](Device& device) {
    CUstream_st& asked = device.schedule.stream(stream);
    device.schedule.run_some();
    if (!asked.work.empty()) throw Failure{cudaErrorNotReady, "the stream has work left"};
    device.schedule.host_waited_until(asked.now);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return Device::get().call([&](Device& device) {
    CUstream_st& waiting = device.schedule.stream(stream);
    CUevent_st const& awaited = device.schedule.event(event);
    if (flags != cudaEventWaitDefault) throw Failure{cudaErrorInvalidValue, "wait flags"};
    device.schedule.wait(waiting, awaited);
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Device::get().call([&](Device& device) {
    if ((flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0) {
      throw Failure{cudaErrorInvalidValue, "event flags"};
    }
    *event = device.schedule.create_event(flags);
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Device::get().release([&](Device& device) { device.schedule.destroy(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Device::get().call([&](Device& device) {
    CUstream_st& on = device.schedule.stream(stream);
    device.schedule.record(on, device.schedule.event(event));
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Device::get().call([&](Device& device) {
    auto const record = device.schedule.event(event).last_record;
    if (record == nullptr) return;
    device.schedule.run_until([&] { return record->is_reached; });
    device.schedule.host_waited_until(record->seconds);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return Device::get().call([&](Device& device) {
    auto const record = device.schedule.event(event).last_record;
    if (record == nullptr) return;
    device.schedule.run_some();
    if (!record->is_reached) throw Failure{cudaErrorNotReady, "the event is not reached"};
    device.schedule.host_waited_until(record->seconds);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Device::get().call([&](Device& device) {
    CUevent_st const& first = device.schedule.event(start);
    CUevent_st const& last = device.schedule.event(end);
    if (((first.flags | last.flags) & cudaEventDisableTiming) != 0 ||
        first.last_record == nullptr || last.last_record == nullptr) {
      throw Failure{cudaErrorInvalidResourceHandle, "an event has no time, or was not recorded"};
    }
    if (!first.last_record->is_reached || !last.last_record->is_reached) {
      throw Failure{cudaErrorNotReady, "an event is not reached"};
    }
    *milliseconds =
        static_cast<float>((last.last_record->seconds - first.last_record->seconds) * 1e3);
  });
}
