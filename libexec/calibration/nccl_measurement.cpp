#include "libexec/calibration/nccl_measurement.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "libexec/calibration/collective_measurement.hpp"
#include "libexec/calibration/sample_statistics.hpp"
#include "libexec/comm/cuda/nccl_collective.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"

namespace stagecraft {
namespace {

constexpr std::chrono::seconds timeout{60};
constexpr std::size_t smallest = std::size_t{64} << 10;
constexpr std::size_t largest = std::size_t{256} << 20;
constexpr std::size_t step = 4;  ///< from one size to the next
constexpr int samples = 7;
constexpr int calls = 10;  ///< between two events
constexpr int fillings_ahead = 20;
/// bf16 numbers near 0.01: transfers of zeros are quicker on some links.
constexpr int filling = 0x3c;

struct FreeDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;

DeviceMemory make_filled(cudaStream_t stream) {
  void* address = nullptr;
  check(cudaMalloc(&address, largest), "cudaMalloc");
  DeviceMemory memory{address};
  check(cudaMemsetAsync(address, filling, largest, stream), "cudaMemsetAsync");
  return memory;
}

/// What the members of a measurement know of each other: the first that fails.
class Failures {
 public:
  void note(std::exception_ptr const& error) {
    std::lock_guard const lock{mutex_};
    if (!first_) first_ = error;
    has_any_ = true;
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

/// One GPU's part, in a thread of its own.
class Member {
 public:
  Member(ncclUniqueId const& id, int members, int number, Failures const& failures)
      : members_{members},
        number_{on_device(number)},
        failures_{failures},
        stream_{make_stream(0)},
        memory_{make_filled(stream_.get())},
        begin_{make_event()},
        end_{make_event()},
        comm_{id, members, number, timeout} {}

  /// Seconds of one collective of a tensor of so many bytes.
  double collective(OpKind kind, std::size_t bytes) {
    Collective const call = collective_of(kind, bytes);
    return seconds([&] { enqueue_collective(comm_, number_, members_, call); });
  }

  /// Seconds of one message from GPU 0 to GPU 1; the others do nothing.
  double message(std::size_t bytes) {
    if (number_ > 1) return 0;
    return seconds([&] {
      comm_.group("message", [&] {
        check(number_ == 0
                  ? ncclSend(memory_.get(), bytes, ncclUint8, 1, comm_.get(), stream_.get())
                  : ncclRecv(memory_.get(), bytes, ncclUint8, 0, comm_.get(), stream_.get()),
              "message");
      });
    });
  }

  void begin_close() { comm_.begin_close(); }
  void close() { comm_.close(); }

 private:
  static int on_device(int number) {
    check(cudaSetDevice(number), "cudaSetDevice");
    return number;
  }

  Collective collective_of(OpKind kind, std::size_t bytes) const {
    auto const elements =
        static_cast<std::int64_t>(bytes) / element_size(ElementType::bf16) / members_ * members_;
    std::int64_t const piece = elements / members_;
    void* const whole = memory_.get();
    void* const own =
        static_cast<std::byte*>(whole) + number_ * piece * element_size(ElementType::bf16);
    // The maximum: sums of sums would soon be infinite.
    Collective call{.kind = kind,
                    .reduction = Reduction::maximum,
                    .type = ElementType::bf16,
                    .source = kind == OpKind::all_gather ? own : whole,
                    .target = kind == OpKind::reduce_scatter ? own : whole,
                    .elements = elements,
                    .piece = piece};
    call.cuda.stream = stream_.get();
    return call;
  }

  /// Median of several runs, the first of which does not count. Other work goes first, so that the
  /// host is ahead of the device and its own time does not show.
  template <typename Call>
  double seconds(Call const& call) {
    std::vector<double> taken;
    for (int sample = 0; sample <= samples; ++sample) {
      for (int i = 0; i < fillings_ahead; ++i) {
        check(cudaMemsetAsync(memory_.get(), filling, largest, stream_.get()), "cudaMemsetAsync");
      }
      check(cudaEventRecord(begin_.get(), stream_.get()), "cudaEventRecord");
      for (int i = 0; i < calls; ++i) call();
      check(cudaEventRecord(end_.get(), stream_.get()), "cudaEventRecord");
      await_end();
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
      constexpr double milli = 1e-3;
      if (sample > 0) taken.push_back(milli * milliseconds / calls);
    }
    return median(taken);
  }

  /// Where a peer is gone, the end never comes.
  void await_end() const {
    auto const deadline = std::chrono::steady_clock::now() + timeout;
    for (;;) {
      cudaError_t const status = cudaEventQuery(end_.get());
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
  int number_;
  Failures const& failures_;
  CudaStream stream_;
  DeviceMemory memory_;
  CudaEvent begin_;
  CudaEvent end_;
  NcclComm comm_;  ///< last: aborted before memory is freed, which waits for its kernels
};

/// What one member measures, in the order that all members keep to.
NcclCosts measure(Member& member, int ranks) {
  auto const table = [&](OpKind kind) {
    CollectiveCost cost;
    cost.ranks = ranks;
    for (std::size_t bytes = smallest; bytes <= largest; bytes *= step) {
      cost.table.push_back({.size = Bytes{static_cast<std::int64_t>(bytes)},
                            .duration = {member.collective(kind, bytes)}});
    }
    return cost;
  };
  NcclCosts costs;
  costs.all_reduce = table(OpKind::all_reduce);
  costs.all_gather = table(OpKind::all_gather);
  costs.reduce_scatter = table(OpKind::reduce_scatter);
  costs.message = line_through(static_cast<double>(smallest), member.message(smallest),
                               static_cast<double>(largest), member.message(largest));
  return costs;
}

}  // namespace

bool can_measure_nccl() { return true; }

NcclCosts measure_nccl(int ranks) {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  NcclCosts costs;
  Failures failures;
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(ranks));
    for (int number = 0; number < ranks; ++number) {
      threads.emplace_back([&, number] {
        try {
          Member member{id, ranks, number, failures};
          NcclCosts const measured = measure(member, ranks);
          member.begin_close();
          member.close();
          if (number == 0) costs = measured;
        } catch (...) {
          failures.note(std::current_exception());
        }
      });
    }
  }
  failures.rethrow();
  return costs;
}

}  // namespace stagecraft
