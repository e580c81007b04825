// The emulation itself: what NCCL promises, and what it only hangs at.
#include <nccl.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "libexec/kernels/cuda/cuda_handles.hpp"
#include "tests/libexec/cuda_emulation/emulation.hpp"

namespace stagecraft::nccl_emulation::test {
namespace {

using emulation::set_device_count;

// In threads of ranks: Catch's assertions are for one thread.

class Stream {
 public:
  operator cudaStream_t() const { return owner_.get(); }

 private:
  CudaStream owner_ = make_stream(0);
};

/// On the device.
class Floats {
 public:
  explicit Floats(std::vector<float> const& values) : size_{values.size()} {
    check(cudaMalloc(&data_, bytes()), "cudaMalloc");
    check(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  explicit Floats(std::size_t size) : Floats{std::vector<float>(size)} {}
  ~Floats() { cudaFree(data_); }
  Floats(Floats const&) = delete;
  Floats(Floats&&) = delete;
  Floats& operator=(Floats const&) = delete;
  Floats& operator=(Floats&&) = delete;

  float* data() const { return static_cast<float*>(data_); }
  std::vector<float> values_now() const {
    std::vector<float> values(size_);
    cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  std::size_t bytes() const { return size_ * sizeof(float); }

  void* data_ = nullptr;
  std::size_t size_;
};

/// What a rank's calls came to, and why.
struct Outcome {
  ncclResult_t result = ncclSuccess;
  std::string why;
};

/// Asks until it is over.
ncclResult_t settled(ncclComm_t comm) {
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress && std::chrono::steady_clock::now() < deadline) {
    if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) return ncclInternalError;
    std::this_thread::yield();
  }
  return state;
}

struct Rank {
  int number;
  int ranks;
  ncclComm_t comm;
  ncclComm_t child = nullptr;  ///< A split under way writes here until `comm` is aborted.
};

/// Threads with a device each, and a communicator that does not block. Results by rank.
std::vector<Outcome> on_ranks(int ranks, std::function<ncclResult_t(Rank&)> const& body) {
  set_device_count(ranks);
  ncclUniqueId id{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int number = 0; number < ranks; ++number) {
      threads.emplace_back([&, number] {
        Outcome& own = outcomes[static_cast<std::size_t>(number)];
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        Rank rank{.number = number, .ranks = ranks, .comm = nullptr};
        cudaSetDevice(number);
        own.result = ncclCommInitRankConfig(&rank.comm, ranks, id, number, &config);
        if (own.result == ncclInProgress) own.result = settled(rank.comm);
        if (own.result == ncclSuccess) own.result = body(rank);
        own.why = ncclGetLastError(nullptr);
        if (rank.comm != nullptr) ncclCommAbort(rank.comm);
      });
    }
  }
  emulation::repair();
  set_device_count(1);
  return outcomes;
}

void require_success(std::vector<Outcome> const& outcomes) {
  for (Outcome const& outcome : outcomes) {
    CAPTURE(outcome.why);
    REQUIRE(outcome.result == ncclSuccess);
  }
}

ncclResult_t finished(ncclComm_t comm, ncclResult_t called, cudaStream_t stream) {
  if (called != ncclSuccess && called != ncclInProgress) return called;
  if (ncclResult_t const state = settled(comm)) return state;
  return cudaStreamSynchronize(stream) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

TEST_CASE("all ranks get the same bits of a sum, whose order is the seed's", "[nccl]") {
  int const ranks = GENERATE(1, 2, 4);
  std::vector<std::vector<float>> sums(static_cast<std::size_t>(ranks));
  require_success(on_ranks(ranks, [&](Rank& rank) {
    Stream const stream;
    std::vector<float> own(1000, 1e8F);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (rank.number % 2 == 0) own[i] = -0.1F * static_cast<float>(i) - 1e8F;
    }
    Floats const numbers{own};
    auto const status = finished(rank.comm,
                                 ncclAllReduce(numbers.data(), numbers.data(), own.size(),
                                               ncclFloat32, ncclSum, rank.comm, stream),
                                 stream);
    sums[static_cast<std::size_t>(rank.number)] = numbers.values_now();
    return status;
  }));
  for (auto const& sum : sums) REQUIRE(sum == sums.front());
}

TEST_CASE("ranks of a color are in the order of their keys, those without one get nothing",
          "[nccl]") {
  std::vector<int> numbers(4, -1);
  require_success(on_ranks(4, [&](Rank& rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t made = nullptr;
    int const color = rank.number == 0 ? NCCL_SPLIT_NOCOLOR : 7;
    ncclResult_t const called = ncclCommSplit(rank.comm, color, -rank.number, &made, &config);
    if (called != ncclInProgress && called != ncclSuccess) return called;
    if (ncclResult_t const state = settled(rank.comm)) return state;
    if (made == nullptr) return rank.number == 0 ? ncclSuccess : ncclInternalError;
    int size = 0;
    ncclCommCount(made, &size);
    ncclCommUserRank(made, &numbers[static_cast<std::size_t>(rank.number)]);
    ncclCommAbort(made);
    return size == 3 ? ncclSuccess : ncclInternalError;
  }));
  REQUIRE(numbers == std::vector<int>{-1, 2, 1, 0});
}

TEST_CASE("messages in a group go both ways", "[nccl]") {
  std::vector<float> got(2);
  require_success(on_ranks(2, [&](Rank& rank) {
    Stream const stream;
    Floats const own{std::vector<float>{10.F + static_cast<float>(rank.number)}};
    Floats const theirs{1};
    ncclGroupStart();
    ncclSend(own.data(), 1, ncclFloat32, 1 - rank.number, rank.comm, stream);
    ncclRecv(theirs.data(), 1, ncclFloat32, 1 - rank.number, rank.comm, stream);
    auto const status = finished(rank.comm, ncclGroupEnd(), stream);
    got[static_cast<std::size_t>(rank.number)] = theirs.values_now().front();
    return status;
  }));
  REQUIRE(got == std::vector<float>{11, 10});
}

TEST_CASE("ranks that call different collectives are told of each other", "[nccl]") {
  auto const outcomes = on_ranks(2, [](Rank& rank) {
    Stream const stream;
    Floats const numbers{8};
    bool const is_first = rank.number == 0;
    ncclResult_t const called = is_first ? ncclAllReduce(numbers.data(), numbers.data(), 4,
                                                         ncclFloat32, ncclSum, rank.comm, stream)
                                         : ncclAllReduce(numbers.data(), numbers.data(), 8,
                                                         ncclFloat32, ncclSum, rank.comm, stream);
    return finished(rank.comm, called, stream);
  });
  for (Outcome const& outcome : outcomes) {
    REQUIRE(outcome.result == ncclInvalidUsage);
    REQUIRE(
        outcome.why ==
        "call 0 of a communicator: rank 0 has ncclAllReduce of 4 ncclFloat32 by ncclSum, rank 1 "
        "has ncclAllReduce of 8 ncclFloat32 by ncclSum");
  }
}

TEST_CASE("a split that not all call is told from what they call instead", "[nccl]") {
  auto const outcomes = on_ranks(3, [](Rank& rank) {
    if (rank.number == 2) return finished(rank.comm, ncclCommFinalize(rank.comm), Stream{});
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return finished(rank.comm, ncclCommSplit(rank.comm, 0, 0, &rank.child, &config), Stream{});
  });
  for (Outcome const& outcome : outcomes) {
    REQUIRE(outcome.result == ncclInvalidUsage);
    REQUIRE_THAT(outcome.why, Catch::Contains("has ncclCommSplit, rank 2 has ncclCommFinalize"));
  }
}

TEST_CASE("a message of another length than its receiver expects is an error of both", "[nccl]") {
  auto const outcomes = on_ranks(2, [](Rank& rank) {
    Stream const stream;
    Floats const numbers{8};
    bool const is_first = rank.number == 0;
    ncclResult_t const called =
        is_first ? ncclSend(numbers.data(), 8, ncclFloat32, 1, rank.comm, stream)
                 : ncclRecv(numbers.data(), 4, ncclFloat32, 0, rank.comm, stream);
    return finished(rank.comm, called, stream);
  });
  for (Outcome const& outcome : outcomes) {
    REQUIRE(outcome.result == ncclUnhandledCudaError);
    REQUIRE(outcome.why ==
            "message 0: rank 0 has ncclSend of 8 ncclFloat32 to rank 1, rank 1 has ncclRecv of 4 "
            "ncclFloat32 from rank 0");
  }
}

TEST_CASE("a send without its receive does not end, and is not in its stream before it is met",
          "[nccl]") {
  auto const outcomes = on_ranks(2, [](Rank& rank) {
    if (rank.number == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds{200});
      return ncclSuccess;
    }
    Stream const stream;
    Floats const numbers{1};
    ncclResult_t const called = ncclSend(numbers.data(), 1, ncclFloat32, 1, rank.comm, stream);
    if (called != ncclInProgress) return ncclInternalError;
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(rank.comm, &state);
    bool const is_empty = cudaStreamQuery(stream) == cudaSuccess;
    return state == ncclInProgress && is_empty ? ncclSuccess : ncclInternalError;
  });
  require_success(outcomes);
}

TEST_CASE("a communicator is not used before its last call is over, nor after it is gone",
          "[nccl]") {
  require_success(on_ranks(2, [](Rank& rank) {
    Stream const stream;
    Floats const numbers{1};
    auto const reduce = [&] {
      return ncclAllReduce(numbers.data(), numbers.data(), 1, ncclFloat32, ncclSum, rank.comm,
                           stream);
    };
    if (rank.number == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
      return ncclSuccess;
    }
    if (reduce() != ncclInProgress || reduce() != ncclInvalidArgument) return ncclInternalError;
    ncclCommAbort(rank.comm);
    bool const is_refused = reduce() == ncclInvalidArgument;
    rank.comm = nullptr;
    return is_refused ? ncclSuccess : ncclInternalError;
  }));
}

TEST_CASE("two ranks on one device are refused", "[nccl]") {
  for (Outcome const& outcome : on_ranks(2, [](Rank&) { return ncclSuccess; })) {
    REQUIRE(outcome.result == ncclSuccess);
  }
  set_device_count(1);
  ncclUniqueId id{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t first = nullptr;
  ncclComm_t second = nullptr;
  REQUIRE(ncclCommInitRankConfig(&first, 2, id, 0, &config) == ncclInProgress);
  ncclCommInitRankConfig(&second, 2, id, 1, &config);
  REQUIRE(settled(first) == ncclInvalidUsage);
  ncclCommAbort(first);
  ncclCommAbort(second);
}

TEST_CASE("collectives of several streams wait for each other as their calls follow", "[nccl]") {
  std::vector<float> got(2);
  require_success(on_ranks(2, [&](Rank& rank) {
    Stream const one;
    Stream const other;
    Floats const numbers{std::vector<float>{1}};
    auto const add = [&](cudaStream_t stream) {
      ncclResult_t const called =
          ncclAllReduce(numbers.data(), numbers.data(), 1, ncclFloat32, ncclSum, rank.comm, stream);
      return called == ncclInProgress ? settled(rank.comm) : called;
    };
    for (int i = 0; i < 5; ++i) {
      if (ncclResult_t const status = add(one)) return status;
      if (ncclResult_t const status = add(other)) return status;
    }
    cudaStreamSynchronize(other);
    got[static_cast<std::size_t>(rank.number)] = numbers.values_now().front();
    return ncclSuccess;
  }));
  REQUIRE(got == std::vector<float>{1024, 1024});
}

}  // namespace
}  // namespace stagecraft::nccl_emulation::test
