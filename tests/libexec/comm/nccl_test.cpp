// NCCL on one GPU: a communicator of one rank shows that it is linked, that its calls keep the
// order of streams and events, and that what goes wrong is said. It runs on the emulation; not yet
// on a device.

#include <cuda_runtime_api.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libexec/comm/cuda/device_call.hpp"
#include "libexec/comm/cuda/nccl_comm.hpp"
#include "libexec/comm/cuda/nccl_watch.hpp"
#include "libexec/comm/cuda/nccl_world.hpp"
#include "libexec/comm/process_environment.hpp"
#include "libexec/kernels/cuda/cuda_check.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"
#include "libsim/plan/make_plan.hpp"

namespace stagecraft::nccl_test {
namespace {

NcclComm lone_comm() {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return NcclComm{id, 1, 0, std::chrono::seconds{60}};
}

ErrorReport report_of(std::exception_ptr const& error) {
  try {
    std::rethrow_exception(error);
  } catch (std::exception const& problem) {
    return {1, std::string{problem.what()} + '\n'};
  }
}

int device_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

TrainingPlan plan_of_one() {
  TrainingConfig config;
  config.model.layers = 1;
  config.model.heads = config.model.kv_heads = 2;
  config.model.head_dim = 4;
  config.model.hidden = 8;
  config.model.ffn_hidden = 32;
  config.model.sequence = 8;
  config.model.vocabulary = 32;
  return make_plan(as_settled(config));
}

/// Numbers on the device, filled on one stream.
template <typename Number>
class DeviceNumbers {
 public:
  explicit DeviceNumbers(std::size_t count) : count_{count} {
    check(cudaMalloc(&data_, count * sizeof(Number)), "cudaMalloc");
  }
  ~DeviceNumbers() { cudaFree(data_); }
  DeviceNumbers(DeviceNumbers const&) = delete;
  DeviceNumbers(DeviceNumbers&&) = delete;
  DeviceNumbers& operator=(DeviceNumbers const&) = delete;
  DeviceNumbers& operator=(DeviceNumbers&&) = delete;

  Number* data() const { return static_cast<Number*>(data_); }
  /// The values stay where they are until the stream has come there.
  void fill(std::vector<Number> const& values, cudaStream_t stream) const {
    check(cudaMemcpyAsync(data_, values.data(), values.size() * sizeof(Number),
                          cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
  }
  std::vector<Number> read() const {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::vector<Number> values(count_);
    check(cudaMemcpy(values.data(), data_, count_ * sizeof(Number), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return values;
  }

 private:
  void* data_ = nullptr;
  std::size_t count_;
};

TEST_CASE("a collective of the job runs between the events of its call", "[nccl]") {
  prepare_nccl();
  TrainingPlan const plan = plan_of_one();
  LaunchedProcess session{{.rank = 0, .size = 1}, report_of};
  auto const world = make_nccl_world(plan, session, {.device = 0});
  Communicator& communicator = world->communicator();
  CudaStream const compute = make_stream(0);
  CudaStream const other = make_stream(0);
  CudaEvent const ready = make_event();
  CudaEvent const begun = make_event();
  CudaEvent const done = make_event();
  std::size_t const count = 1 << 20;
  DeviceNumbers<float> const source{count};
  DeviceNumbers<float> const target{count};
  DeviceNumbers<float> const after{count};
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i % 1000) - 500;
  // The compute stream fills the source late; without the events the other streams would not wait.
  std::vector<float> const sevens(count, 7);
  for (int i = 0; i < 20; ++i) source.fill(sevens, compute.get());
  source.fill(numbers, compute.get());
  check(cudaEventRecord(ready.get(), compute.get()), "cudaEventRecord");
  DeviceCall const on_device{
      .stream = other.get(), .ready = ready.get(), .begun = begun.get(), .done = done.get()};
  auto const ticket = communicator.start({.group = plan.roles.job,
                                          .source = source.data(),
                                          .target = target.data(),
                                          .elements = static_cast<std::int64_t>(count),
                                          .on_device = &on_device});
  communicator.finish(plan.roles.job, ticket);
  check(cudaStreamWaitEvent(compute.get(), done.get(), 0), "cudaStreamWaitEvent");
  check(cudaMemcpyAsync(after.data(), target.data(), count * sizeof(float),
                        cudaMemcpyDeviceToDevice, compute.get()),
        "cudaMemcpyAsync");
  REQUIRE(after.read() == numbers);
  float milliseconds = -1;
  check(cudaEventElapsedTime(&milliseconds, begun.get(), done.get()), "cudaEventElapsedTime");
  REQUIRE(milliseconds >= 0);
  communicator.barrier();
}

TEST_CASE("numbers that the host has are reduced as those of the device", "[nccl]") {
  TrainingPlan const plan = plan_of_one();
  LaunchedProcess session{{.rank = 0, .size = 1}, report_of};
  auto const world = make_nccl_world(plan, session, {.device = 0});
  std::array<std::int64_t, 2> numbers{3, std::int64_t{1} << 60};
  world->communicator().start({.group = plan.roles.job,
                               .type = ElementType::i64,
                               .source = numbers.data(),
                               .target = numbers.data(),
                               .elements = 2,
                               .in_host_memory = true});
  REQUIRE(numbers == std::array<std::int64_t, 2>{3, std::int64_t{1} << 60});
}

TEST_CASE("every type is reduced, and pieces of every cut come and go", "[nccl]") {
  check(cudaSetDevice(0), "cudaSetDevice");
  NcclComm comm = lone_comm();
  CudaStream const stream = make_stream(0);
  auto const type = GENERATE(ElementType::f16, ElementType::bf16, ElementType::f32,
                             ElementType::f64, ElementType::i64);
  auto const kind = GENERATE(OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter);
  // Of 23 elements the only piece has all, or, cut with an origin, all but none before it.
  std::int64_t const piece = GENERATE(23, 40);
  std::int64_t const origin = piece - 23;
  std::vector<std::int64_t> numbers(23);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i) << 8;
  DeviceNumbers<std::int64_t> const source{23};
  DeviceNumbers<std::int64_t> const target{23};
  source.fill(numbers, stream.get());
  std::vector<std::int64_t> const zeros(23);
  target.fill(zeros, stream.get());
  DeviceCall const on_device{.stream = stream.get()};
  enqueue_collective(comm, 0, 1,
                     {.kind = kind,
                      .reduction = GENERATE(Reduction::sum, Reduction::maximum),
                      .type = type,
                      .source = source.data(),
                      .target = target.data(),
                      .elements = 23,
                      .piece = piece,
                      .origin = origin,
                      .on_device = &on_device});
  std::vector<std::int64_t> expected(23, 0);
  auto const bytes = static_cast<std::size_t>(23 * element_size(type));
  std::memcpy(expected.data(), numbers.data(), bytes);
  REQUIRE(target.read() == expected);
  comm.begin_close();
  comm.close();
}

TEST_CASE("a group of one is split off, and who takes no part gets nothing", "[nccl]") {
  check(cudaSetDevice(0), "cudaSetDevice");
  NcclComm comm = lone_comm();
  auto part = comm.split(5, 0);
  REQUIRE(part);
  REQUIRE_FALSE(comm.split(std::nullopt, 0));
  int size = 0;
  check(ncclCommCount(part->get(), &size), "ncclCommCount");
  REQUIRE(size == 1);
}

TEST_CASE("what NCCL refuses is said in its words", "[nccl]") {
  check(cudaSetDevice(0), "cudaSetDevice");
  NcclComm comm = lone_comm();
  CudaStream const stream = make_stream(0);
  DeviceNumbers<float> const numbers{4};
  try {
    comm.group("ncclReduce", [&] {
      check(ncclReduce(numbers.data(), numbers.data(), 4, ncclFloat32, ncclSum, 1, comm.get(),
                       stream.get()),
            "ncclReduce");
    });
    FAIL("there is no rank 1");
  } catch (CommunicationError const& error) {
    REQUIRE(std::string{error.what()}.find("NCCL: ncclReduce: invalid argument") == 0);
  }
}

TEST_CASE("a rank that never comes is not waited for for ever", "[nccl]") {
  check(cudaSetDevice(0), "cudaSetDevice");
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  auto const begin = std::chrono::steady_clock::now();
  REQUIRE_THROWS_AS((NcclComm{id, 2, 0, std::chrono::seconds{2}}), CommunicationError);
  REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds{20});
}

TEST_CASE("a split that not all call is given up, and what NCCL made of it, too", "[nccl]") {
  if (device_count() < 2) return;
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  std::jthread const other{[id] {
    check(cudaSetDevice(1), "cudaSetDevice");
    NcclComm const comm{id, 2, 1, std::chrono::seconds{60}};
    std::this_thread::sleep_for(std::chrono::milliseconds{1500});
  }};
  check(cudaSetDevice(0), "cudaSetDevice");
  NcclComm comm{id, 2, 0, std::chrono::seconds{1}};
  REQUIRE_THROWS_WITH(comm.split(5, 0), "NCCL: ncclCommSplit: other ranks did not come within 1 s");
}

TEST_CASE("a collective that does not end is noticed, one that has ended is not", "[nccl]") {
  check(cudaSetDevice(0), "cudaSetDevice");
  NcclLane lane{"tensor group", lone_comm()};
  CudaStream const stream = make_stream(0);
  std::mutex gate;
  gate.lock();
  // A host function holds the stream as a dead peer would.
  auto const hold = [](void* held) {
    std::scoped_lock const lock{*static_cast<std::mutex*>(held)};
  };
  lane.issue(stream.get(), "a collective",
             [&] { check(cudaLaunchHostFunc(stream.get(), hold, &gate), "cudaLaunchHostFunc"); });
  // What comes after it has not begun.
  lane.issue(stream.get(), "another", [] {});
  REQUIRE_FALSE(lane.obstacle(std::chrono::seconds{600}));
  std::optional<std::string> obstacle;
  for (int i = 0; i < 10'000 && !obstacle; ++i) {
    obstacle = lane.obstacle(std::chrono::seconds{0});
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  REQUIRE(obstacle == "NCCL, tensor group: a collective has not ended within 0 s");
  gate.unlock();
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  REQUIRE_FALSE(lane.obstacle(std::chrono::seconds{0}));
}

}  // namespace
}  // namespace stagecraft::nccl_test
