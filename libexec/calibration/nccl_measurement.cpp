#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libexec/calibration/collective_measurement.hpp"
#include "libexec/calibration/measurement.hpp"
#include "libexec/comm/cuda/device_call.hpp"
#include "libexec/comm/cuda/nccl_comm.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"

namespace stagecraft {
namespace {

constexpr std::chrono::seconds timeout{60};
constexpr std::size_t step = 4;  ///< the factor from one size to the next
constexpr int samples = 7;
constexpr int calls_between_events = 10;
constexpr int fillings_ahead = 20;
/// The byte of bf16 numbers near 0.01: transfers of zeros are faster on some links.
constexpr int filling = 0x3c;

CudaMemory make_filled(std::size_t bytes, cudaStream_t stream) {
  CudaMemory memory = make_cuda_memory(bytes);
  check(cudaMemsetAsync(memory.get(), filling, bytes, stream), "cudaMemsetAsync");
  return memory;
}

/// The first failure of any member of a measurement, known to all of them.
class Failures {
 public:
  /// Runs the body and notes what it throws.
  template <typename Body>
  void watch(Body const& body) {
    try {
      body();
    } catch (...) {
      std::lock_guard const lock{mutex_};
      if (!first_) first_ = std::current_exception();
      has_any_ = true;
    }
  }
  bool has_any() const { return has_any_; }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
  std::atomic<bool> has_any_ = false;
};

/// The resources of one GPU. Its constructor makes the GPU the calling thread's device.
struct Workspace {
  int number;           ///< the number of the GPU
  std::size_t largest;  ///< the bytes of the largest tensor
  CudaStream stream;
  DeviceCall call;  ///< on the stream
  CudaMemory memory;
  CudaEvent begin;
  CudaEvent end;

  Workspace(int gpu, std::size_t bytes)
      : number{on_device(gpu)},
        largest{bytes},
        stream{make_stream(0)},
        call{.stream = stream.get()},
        memory{make_filled(bytes, stream.get())},
        begin{make_event()},
        end{make_event()} {}

 private:
  static int on_device(int gpu) {
    check(cudaSetDevice(gpu), "cudaSetDevice");
    return gpu;
  }
};

/// The part of one GPU, in a thread of its own.
class Member {
 public:
  /// The workspace must outlive it: freeing memory waits, so that NCCL's kernels end before it.
  Member(ncclUniqueId const& id, int members, Workspace const& workspace, Failures const& failures)
      : members_{members},
        workspace_{workspace},
        failures_{failures},
        comm_{id, members, workspace.number, timeout} {}

  /// The seconds of one collective of a tensor of so many bytes.
  double collective(OpKind kind, std::size_t bytes) {
    Collective const call = collective_of(kind, bytes);
    return seconds([&] { enqueue_collective(comm_, workspace_.number, members_, call); });
  }

  /// The seconds of one message from GPU 0 to GPU 1; the others do nothing.
  double message(std::size_t bytes) {
    if (workspace_.number > 1) return 0;
    return seconds([&] {
      comm_.group("message", [&] {
        check(workspace_.number == 0 ? ncclSend(workspace_.memory.get(), bytes, ncclUint8, 1,
                                                comm_.get(), workspace_.stream.get())
                                     : ncclRecv(workspace_.memory.get(), bytes, ncclUint8, 0,
                                                comm_.get(), workspace_.stream.get()),
              "message");
      });
    });
  }

  void begin_close() { comm_.begin_close(); }
  void close() { comm_.close(); }

 private:
  Collective collective_of(OpKind kind, std::size_t bytes) const {
    auto const elements =
        static_cast<std::int64_t>(bytes) / element_size(ElementType::bf16) / members_ * members_;
    std::int64_t const piece = elements / members_;
    void* const whole = workspace_.memory.get();
    void* const own = static_cast<std::byte*>(whole) +
                      workspace_.number * piece * element_size(ElementType::bf16);
    // The maximum, as sums of sums would soon be infinite.
    return {.kind = kind,
            .reduction = Reduction::maximum,
            .type = ElementType::bf16,
            .source = kind == OpKind::all_gather ? own : whole,
            .target = kind == OpKind::reduce_scatter ? own : whole,
            .elements = elements,
            .piece = piece,
            .on_device = &workspace_.call};
  }

  /// The median of several runs without the first. Other work is queued before, so that the host is
  /// ahead of the device and its own time is not measured.
  template <typename Call>
  double seconds(Call const& call) {
    std::vector<double> taken;
    for (int sample = 0; sample <= samples; ++sample) {
      for (int i = 0; i < fillings_ahead; ++i) {
        check(cudaMemsetAsync(workspace_.memory.get(), filling, workspace_.largest,
                              workspace_.stream.get()),
              "cudaMemsetAsync");
      }
      check(cudaEventRecord(workspace_.begin.get(), workspace_.stream.get()), "cudaEventRecord");
      for (int i = 0; i < calls_between_events; ++i) call();
      check(cudaEventRecord(workspace_.end.get(), workspace_.stream.get()), "cudaEventRecord");
      await_end();
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, workspace_.begin.get(), workspace_.end.get()),
            "cudaEventElapsedTime");
      constexpr double milli = 1e-3;
      if (sample > 0) taken.push_back(milli * milliseconds / calls_between_events);
    }
    return median(taken);
  }

  /// Waits for the end of the calls, but not forever: if a peer has failed, they never end.
  void await_end() const {
    auto const deadline = std::chrono::steady_clock::now() + timeout;
    for (;;) {
      cudaError_t const status = cudaEventQuery(workspace_.end.get());
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
      if (auto const error = comm_.error()) check(*error, "a collective");
      if (failures_.has_any()) throw CommunicationError{"NCCL: another GPU's part has failed"};
      if (std::chrono::steady_clock::now() > deadline) {
        throw CommunicationError{
            "NCCL: a collective between GPUs of this machine is not over after " +
            std::to_string(timeout.count()) + " s"};
      }
      std::this_thread::yield();
    }
  }

  int members_;
  Workspace const& workspace_;
  Failures const& failures_;
  NcclComm comm_;
};

/// The measurements of one member, in the same order on all members.
NcclCosts measure(Member& member, int ranks, NcclSizes const& sizes) {
  auto const table = [&](OpKind kind) {
    CollectiveCost cost;
    cost.ranks = ranks;
    for (std::size_t bytes = sizes.smallest; bytes <= sizes.largest; bytes *= step) {
      cost.table.push_back({.size = Bytes{static_cast<std::int64_t>(bytes)},
                            .duration = {member.collective(kind, bytes)}});
    }
    return cost;
  };
  NcclCosts costs;
  costs.all_reduce = table(OpKind::all_reduce);
  costs.all_gather = table(OpKind::all_gather);
  costs.reduce_scatter = table(OpKind::reduce_scatter);
  double const of_smallest = member.message(sizes.smallest);
  double const of_largest = member.message(sizes.largest);
  costs.message = line_through(static_cast<double>(sizes.smallest), of_smallest,
                               static_cast<double>(sizes.largest), of_largest);
  return costs;
}

}  // namespace

bool can_measure_nccl() { return true; }

NcclCosts measure_nccl(int ranks, NcclSizes const& sizes) {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  NcclCosts costs;
  Failures failures;
  std::latch prepared{ranks};
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(ranks));
    for (int number = 0; number < ranks; ++number) {
      threads.emplace_back([&, number] {
        std::optional<Workspace> workspace;
        failures.watch([&] { workspace.emplace(number, sizes.largest); });
        // Otherwise a communicator would wait for a member that failed to prepare.
        prepared.arrive_and_wait();
        if (failures.has_any()) return;
        failures.watch([&] {
          Member member{id, ranks, *workspace, failures};
          NcclCosts const measured = measure(member, ranks, sizes);
          member.begin_close();
          member.close();
          if (number == 0) costs = measured;
        });
      });
    }
  }
  failures.rethrow();
  return costs;
}

}  // namespace stagecraft
