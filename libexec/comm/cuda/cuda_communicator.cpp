#include "libexec/comm/cuda/cuda_communicator.hpp"

#include "libexec/comm/cuda/cuda_transport.hpp"
#include "libexec/comm/device_communication.hpp"

namespace stagecraft {

CudaCall CudaCommunicator::call_on(cudaStream_t stream) {
  return {.stream = stream,
          .ready = streams_.compute_event(),
          .begun = streams_.event(),
          .done = streams_.event()};
}

TimeSpan CudaCommunicator::settle(CudaCall const& call, TimeSpan const& time) {
  if (call.stream == nullptr) {
    if (is_virtual_) return time;
    SimTime const now{streams_.mark()};
    return {now, now};
  }
  streams_.compute_waits(call.done);
  if (is_virtual_) return time;
  return {SimTime{streams_.mark_of(call.begun)}, SimTime{streams_.mark_of(call.done)}};
}

Communicator::Ticket CudaCommunicator::start(Collective const& collective) {
  Collective own = collective;
  if (!own.in_host_memory) own.cuda = call_on(streams_.stream(groups_[own.group].stream));
  Ticket const ticket = inside_.start(own);
  collectives_.emplace(std::pair{own.group, ticket}, own.cuda);
  return ticket;
}

TimeSpan CudaCommunicator::finish(GroupId group, Ticket ticket) {
  TimeSpan const time = inside_.finish(group, ticket);
  return settle(collectives_.extract({group, ticket}).mapped(), time);
}

void CudaCommunicator::post(Message const& message) {
  Message own = message;
  own.cuda = call_on(message.end == Transfer::End::send ? streams_.send() : streams_.receive());
  messages_[{message.end, message.number}] = own.cuda;
  inside_.post(own);
}

TimeSpan CudaCommunicator::wait(Message const& message) {
  TimeSpan const time = inside_.wait(message);
  return settle(messages_.extract({message.end, message.number}).mapped(), time);
}

std::unique_ptr<Communicator> make_device_communicator(Communicator& inside,
                                                       RankGroups const& groups,
                                                       Backend& backend,
                                                       bool is_virtual) {
  CudaStreams* const streams = backend.cuda_streams();
  if (streams == nullptr) return nullptr;
  return std::make_unique<CudaCommunicator>(inside, groups, *streams, is_virtual);
}

std::unique_ptr<LocalTransport> make_local_transport(DeviceKind device, std::mutex* machine) {
  if (device == DeviceKind::cpu) return std::make_unique<HostTransport>();
  return std::make_unique<CudaTransport>(machine);
}

}  // namespace stagecraft
