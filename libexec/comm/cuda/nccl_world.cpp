#include "libexec/comm/cuda/nccl_world.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <list>
#include <map>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/cuda/device_call.hpp"
#include "libexec/comm/cuda/nccl_comm.hpp"
#include "libexec/comm/cuda/nccl_numbers.hpp"
#include "libexec/comm/cuda/nccl_watch.hpp"
#include "libexec/comm/host_reduction.hpp"
#include "libexec/comm/id_file.hpp"
#include "libexec/comm/stage_edges.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"

namespace stagecraft {
namespace {

/// An error of NCCL usually follows from a failure of another rank, which reports it within this
/// time (LaunchedProcess::fail() waits one second).
constexpr std::chrono::seconds grace{2};

/// This process's membership in a group of more than one rank.
struct Group {
  std::vector<RankId> members;
  int member = 0;
  NcclLane* lane = nullptr;  ///< none for a group of one
};

/// One end of a StageEdge.
struct EdgeEnd {
  NcclLane* lane = nullptr;
  CudaStream stream;
};

/// "tensor group of ranks 0, 1"
std::string name_of(RankGroup const& group, std::vector<RankId> const& members) {
  std::string name = std::string{group.name} + " of ranks";
  for (RankId const member : members) {
    name += (member == members.front() ? " " : ", ") + std::to_string(member.value());
  }
  return name;
}

std::string name_of(StageEdge const& edge) {
  bool const is_activation = edge.payload == Transfer::Payload::activation;
  return std::string{is_activation ? "activations" : "gradients"} + " from stage " +
         std::to_string(edge.from.value()) + " to " + std::to_string(edge.to.value());
}

ncclUniqueId make_id() {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

/// Connects all ranks of the job.
NcclComm connect_job(RankId rank,
                     int size,
                     NcclRendezvous const& rendezvous,
                     std::chrono::seconds timeout) {
  constexpr int replaces = 1;
  bool const has_address = !rendezvous.address.empty();
  if (has_address) setenv("NCCL_COMM_ID", rendezvous.address.c_str(), replaces);
  // With an address, every rank makes the same id.
  ncclUniqueId id = rank == RankId{0} || has_address ? make_id() : ncclUniqueId{};
  std::span<std::byte> const bytes = std::as_writable_bytes(std::span{&id, 1});
  IdFile file{rendezvous.file, rank};
  if (!rendezvous.file.empty()) file.share(bytes, timeout);
  if (rendezvous.broadcast) rendezvous.broadcast(bytes);
  try {
    return NcclComm{id, size, rank.value(), timeout};
  } catch (CommunicationError const& error) {
    throw CommunicationError{std::string{error.what()} + " (rank " + std::to_string(rank.value()) +
                             " of " + std::to_string(size) +
                             (has_address ? ", rank 0 at " + rendezvous.address : "") + ")"};
  }
}

/// A process's place in the world. It owns its communicators, each with a lane that watches it:
/// the job's, one for each group of more than one rank, and one for each edge of its stage, with
/// the edge's stream. The session, the plan and the tensors belong to others.
///
/// Between two calls nothing waits: what a call enqueued is ordered by the events of its DeviceCall
/// alone, and the watch ends the process if it does not end in time.
class NcclRank final : public ProcessWorld, public Communicator {
 public:
  NcclRank(TrainingPlan const& plan, JobSession& session, NcclOptions const& options)
      : plan_{plan},
        session_{session},
        options_{options},
        buffers_sends_{buffers_sends(plan)},
        message_edges_{message_edges(plan)} {
    try {
      connect_ranks();
    } catch (...) {
      // This comes before communicators are aborted, which may wait for the other ranks
      // (github.com/NVIDIA/nccl/issues/863).
      NcclRank::fail(std::current_exception());
      throw;  // not reached; GCC does not know that the virtual function never returns
    }
  }

  ~NcclRank() override {
    bool const is_failing = std::uncaught_exceptions() > 0;
    watch_.reset();
    if (is_failing) return;  // the destructors abort the communicators
    try {
      for (NcclLane& lane : lanes_) lane.comm().begin_close();
      for (NcclLane& lane : lanes_) lane.comm().close();
    } catch (...) {
      session_.fail(std::current_exception());
    }
  }
  NcclRank(NcclRank const&) = delete;
  NcclRank(NcclRank&&) = delete;
  NcclRank& operator=(NcclRank const&) = delete;
  NcclRank& operator=(NcclRank&&) = delete;

  Communicator& communicator() override { return *this; }

  Ticket start(Collective const& collective) override {
    Group const& group = groups_.at(collective.group);
    if (collective.in_host_memory) {
      reduce_in_host_memory(collective, group.members, group.member,
                            [&](auto const& own) { return numbers_->all_gather(own); });
      return next_ticket_++;
    }
    DeviceCall const& call = *collective.on_device;
    begin(call, call.stream);
    if (group.lane == nullptr) {
      copy_own(collective);
    } else {
      group.lane->issue(call.stream, "a collective", [&] {
        enqueue_collective(group.lane->comm(), group.member, static_cast<int>(group.members.size()),
                           collective);
      });
    }
    check(cudaEventRecord(call.done, call.stream), "cudaEventRecord");
    return next_ticket_++;
  }
  /// Does nothing: streams wait, the host does not.
  TimeSpan finish(GroupId /*group*/, Ticket /*ticket*/) override { return {}; }

  void post(Message const& message) override {
    bool const is_send = message.end == Transfer::End::send;
    EdgeEnd const& edge = edges_.at(message_edges_.at(static_cast<std::size_t>(message.number)));
    cudaStream_t const stream = edge.stream.get();
    DeviceCall const& call = *message.on_device;
    begin(call, stream);
    if (is_send && buffers_sends_) return send_copy(message, edge);
    is_send ? send(message.data, message.bytes, edge) : receive(message.data, message.bytes, edge);
    check(cudaEventRecord(call.done, stream), "cudaEventRecord");
  }
  TimeSpan wait(Message const& /*message*/) override { return {}; }

  void barrier() override { numbers_->all_gather({}); }

  void fail(std::exception_ptr const& error) override {
    try {
      std::rethrow_exception(error);
    } catch (CommunicationError const&) {
      std::this_thread::sleep_for(grace);
    } catch (...) {
    }
    session_.fail(error);
  }

  std::vector<Numbers> gather(Numbers const& own) override { return numbers_->gather(own); }
  std::chrono::nanoseconds clock_offset() override { return numbers_->clock_offset(); }

 private:
  void connect_ranks() {
    check(cudaSetDevice(options_.device), "cudaSetDevice");
    pool_ = make_keeping_pool(options_.device);
    require_message_order(plan_);
    RankId const rank = session_.rank();
    NcclLane& job = lanes_.emplace_back(
        "job", connect_job(rank, session_.size(), options_.rendezvous, options_.timeout));
    numbers_ =
        std::make_unique<NcclNumbers>(job.comm(), rank.value(), session_.size(), pool_.get());
    for (GroupId const id : plan_.groups.ids()) make_group(job.comm(), id);
    for (auto const& round : edge_rounds(plan_)) make_edges(job.comm(), round);
    std::vector<NcclLane*> lanes;
    for (NcclLane& lane : lanes_) lanes.push_back(&lane);
    watch_ = std::make_unique<NcclWatch>(std::move(lanes), options_.device, options_.timeout,
                                         [this](std::exception_ptr const& error) { fail(error); });
  }

  /// All ranks call it in the same order.
  void make_group(NcclComm& job, GroupId id) {
    auto own = plan_.groups.membership(id, session_.rank());
    NcclLane* lane = nullptr;
    if (id == plan_.roles.job) {
      lane = &lanes_.front();
    } else if (plan_.groups.members(id) > 1) {
      auto comm = job.split(own ? std::optional{own->members.front().value()} : std::nullopt,
                            own ? own->member : 0);
      if (comm) {
        lane = &lanes_.emplace_back(name_of(plan_.groups[id], own->members), std::move(*comm));
      }
    }
    if (own) groups_.emplace(id, Group{std::move(own->members), own->member, lane});
  }

  void make_edges(NcclComm& job, std::vector<StageEdge> const& round) {
    RankId const rank = session_.rank();
    StageId const stage = plan_.groups.stage_of(rank);
    auto const own = std::find_if(round.begin(), round.end(), [&](StageEdge const& edge) {
      return edge.from == stage || edge.to == stage;
    });
    if (own == round.end()) {
      job.split(std::nullopt, 0);
      return;
    }
    RankId const sender = plan_.groups.at_stage(rank, own->from);
    RankId const receiver = plan_.groups.at_stage(rank, own->to);
    bool const is_sender = sender == rank;
    auto comm = job.split(sender.value(), is_sender ? 0 : 1);
    NcclLane& lane =
        lanes_.emplace_back(name_of(*own) + ", ranks " + std::to_string(sender.value()) + " and " +
                                std::to_string(receiver.value()),
                            std::move(comm.value()));
    EdgeEnd& edge = edges_[*own];
    edge.lane = &lane;
    edge.stream = make_stream(stream_priorities().highest);
    connect(edge, is_sender);
  }

  /// Sends a first message, because NCCL connects two ranks at their first message and makes the
  /// host wait for the other rank, which is certain to arrive here.
  void connect(EdgeEnd const& edge, bool is_sender) {
    void* const byte = allocate(1, edge.stream.get());
    is_sender ? send(byte, 1, edge) : receive(byte, 1, edge);
    check(cudaFreeAsync(byte, edge.stream.get()), "cudaFreeAsync");
  }

  void* allocate(std::size_t bytes, cudaStream_t stream) {
    void* memory = nullptr;
    check(cudaMallocFromPoolAsync(&memory, bytes, pool_.get(), stream), "cudaMallocFromPoolAsync");
    return memory;
  }

  static void begin(DeviceCall const& call, cudaStream_t stream) {
    check(cudaStreamWaitEvent(stream, call.ready, 0), "cudaStreamWaitEvent");
    if (call.after != nullptr) {
      check(cudaStreamWaitEvent(stream, call.after, 0), "cudaStreamWaitEvent");
    }
    check(cudaEventRecord(call.begun, stream), "cudaEventRecord");
  }

  /// In an edge's communicator the sender is rank 0 and the receiver is rank 1.
  static void send(void const* data, std::size_t bytes, EdgeEnd const& edge) {
    NcclComm& comm = edge.lane->comm();
    edge.lane->issue(edge.stream.get(), "a message", [&] {
      comm.group("ncclSend", [&] {
        check(ncclSend(data, bytes, ncclUint8, 1, comm.get(), edge.stream.get()), "ncclSend");
      });
    });
  }
  static void receive(void* data, std::size_t bytes, EdgeEnd const& edge) {
    NcclComm& comm = edge.lane->comm();
    edge.lane->issue(edge.stream.get(), "a message", [&] {
      comm.group("ncclRecv", [&] {
        check(ncclRecv(data, bytes, ncclUint8, 0, comm.get(), edge.stream.get()), "ncclRecv");
      });
    });
  }

  /// Copies the tensor first, so that the sender may use it again.
  void send_copy(Message const& message, EdgeEnd const& edge) {
    cudaStream_t const stream = edge.stream.get();
    void* const kept = allocate(message.bytes, stream);
    check(cudaMemcpyAsync(kept, message.data, message.bytes, cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
    check(cudaEventRecord(message.on_device->done, stream), "cudaEventRecord");
    send(kept, message.bytes, edge);
    check(cudaFreeAsync(kept, stream), "cudaFreeAsync");
  }

  /// A collective of one rank is a copy.
  static void copy_own(Collective const& collective) {
    std::int64_t const elements =
        collective.has_uneven_pieces() ? collective.sent_begin(1) : collective.elements;
    auto const bytes = static_cast<std::size_t>(elements * element_size(collective.type));
    if (bytes == 0 || collective.source == collective.target) return;
    check(cudaMemcpyAsync(collective.target, collective.source, bytes, cudaMemcpyDeviceToDevice,
                          collective.on_device->stream),
          "cudaMemcpyAsync");
  }

  TrainingPlan const& plan_;
  JobSession& session_;
  NcclOptions options_;
  bool buffers_sends_;
  std::vector<StageEdge> message_edges_;  ///< by message
  CudaPool pool_;
  std::list<NcclLane> lanes_;  ///< the job's first
  std::unique_ptr<NcclNumbers> numbers_;
  std::map<GroupId, Group> groups_;
  std::map<StageEdge, EdgeEnd> edges_;
  Ticket next_ticket_ = 0;
  std::unique_ptr<NcclWatch> watch_;
};

}  // namespace

void prepare_nccl() {
  constexpr int keeps = 0;  // setenv() keeps what the user has set
  setenv("CUDA_MODULE_LOADING", "EAGER", keeps);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", keeps);
}

std::unique_ptr<ProcessWorld> make_nccl_world(TrainingPlan const& plan,
                                              JobSession& session,
                                              NcclOptions const& options) {
  return std::make_unique<NcclRank>(plan, session, options);
}

}  // namespace stagecraft
