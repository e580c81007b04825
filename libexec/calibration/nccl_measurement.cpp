#include "libexec/calibration/nccl_measurement.hpp"

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
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
/// bf16 numbers near 0.01: transfers of zeros are quicker on some links.
constexpr int filling = 0x3c;

struct FreeDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};

/// One GPU's part, in a thread of its own.
class Member {
 public:
  Member(ncclUniqueId const& id, int members, int number)
      : members_{members},
        number_{number},
        comm_{on(id, members, number)},
        stream_{make_stream(0)} {
    void* memory = nullptr;
    check(cudaMalloc(&memory, largest), "cudaMalloc");
    memory_.reset(memory);
    check(cudaMemsetAsync(memory, filling, largest, stream_.get()), "cudaMemsetAsync");
  }

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
  static NcclComm on(ncclUniqueId const& id, int members, int number) {
    check(cudaSetDevice(number), "cudaSetDevice");
    return NcclComm{id, members, number, timeout};
  }

  Collective collective_of(OpKind kind, std::size_t bytes) const {
    auto const elements =
        static_cast<std::int64_t>(bytes) / element_size(ElementType::bf16) / members_ * members_;
    std::int64_t const piece = elements / members_;
    void* const whole = memory_.get();
    void* const own =
        static_cast<std::byte*>(whole) + number_ * piece * element_size(ElementType::bf16);
    Collective call{.kind = kind,
                    .type = ElementType::bf16,
                    .source = kind == OpKind::all_gather ? own : whole,
                    .target = kind == OpKind::reduce_scatter ? own : whole,
                    .elements = elements,
                    .piece = piece};
    call.cuda.stream = stream_.get();
    return call;
  }

  /// Median of several runs, the first of which does not count.
  template <typename Call>
  double seconds(Call const& call) {
    CudaEvent const begin = make_event();
    CudaEvent const end = make_event();
    std::vector<double> taken;
    for (int sample = 0; sample <= samples; ++sample) {
      check(cudaEventRecord(begin.get(), stream_.get()), "cudaEventRecord");
      for (int i = 0; i < calls; ++i) call();
      check(cudaEventRecord(end.get(), stream_.get()), "cudaEventRecord");
      await(end.get());
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
      constexpr double milli = 1e-3;
      if (sample > 0) taken.push_back(milli * milliseconds / calls);
    }
    return median(taken);
  }

  /// Where a peer is gone, the event never comes.
  void await(cudaEvent_t event) const {
    auto const deadline = std::chrono::steady_clock::now() + timeout;
    for (;;) {
      cudaError_t const status = cudaEventQuery(event);
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
      if (auto const error = comm_.error()) check(*error, "a collective");
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
  NcclComm comm_;
  CudaStream stream_;
  std::unique_ptr<void, FreeDevice> memory_;
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
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int number = 0; number < ranks; ++number) {
      threads.emplace_back([&, number] {
        try {
          Member member{id, ranks, number};
          NcclCosts const measured = measure(member, ranks);
          member.begin_close();
          member.close();
          if (number == 0) costs = measured;
        } catch (...) {
          errors[static_cast<std::size_t>(number)] = std::current_exception();
        }
      });
    }
  }
  for (std::exception_ptr const& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return costs;
}

}  // namespace stagecraft
