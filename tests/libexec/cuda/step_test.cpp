#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "libexec/kernels/cpu/kernel_table.hpp"
#include "libexec/kernels/cuda/reduce_members.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernel_call.hpp"
#include "tests/libexec/cuda/agreement.hpp"
#include "tests/libexec/cuda/device_objects.hpp"
#include "tests/libexec/kernels/step_calls.hpp"

namespace stagecraft::test::step_test {
namespace {

/// Tensors of a device that ranges are of.
class Ranges {
 public:
  FlatRange upload(TestTensor const& x) {
    auto const bytes = static_cast<std::size_t>(x.size() * element_size(x.type()));
    return {device_.upload(x.operand().data, bytes), x.type(), x.size()};
  }
  TestTensor read(FlatRange const& range) {
    TestTensor x{range.type, {range.elements}};
    device_.download(x.operand().data, range.data, range.bytes());
    return x;
  }
  void run(KernelCall const& call) { device_.kernels().run(call); }
  bool overflows(FlatRange const& range, double loss_scale) {
    StepNumbers numbers{.loss_scale = loss_scale};
    run(unscaling(range.operand(), numbers));
    return numbers.overflow != 0;
  }
  double squares(FlatRange const& range) {
    StepNumbers numbers;
    run(squaring(range.operand(), numbers));
    return numbers.squares.value();
  }

 private:
  Device device_{whole(small_model())};
};

TEST_CASE("gradients are zeroed, scaled and unscaled on a device, and infinities noted", "[cuda]") {
  auto const type = GENERATE(ElementType::f32, ElementType::f64);
  std::int64_t const n = GENERATE(1, 1023, 10240);
  Ranges device;
  TestTensor const before = TestTensor::random(type, {n}, 1);
  FlatRange const x = device.upload(before);
  device.run(scaling(x.operand(), 0.25));
  REQUIRE(device.read(x)[n - 1] == before[n - 1] / 4);
  REQUIRE_FALSE(device.overflows(x, 0.25));
  REQUIRE(device.read(x).same_bits(before));
  for (double const bad :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    for (std::int64_t const at : {std::int64_t{0}, n / 2, n - 1}) {
      TestTensor spoilt = before;
      spoilt.set(at, bad);
      REQUIRE(device.overflows(device.upload(spoilt), 65536));
    }
  }
  REQUIRE_FALSE(device.overflows(x, 1));
  device.run(zeroing(x.operand()));
  REQUIRE(device.read(x).same_bits(TestTensor::zeros(type, {n})));
}

TEST_CASE("the sum of squares on a device is taken in double, in an order of the size alone",
          "[cuda]") {
  auto const type = GENERATE(ElementType::f32, ElementType::f64);
  // Nothing, less than an access, several tiles.
  std::int64_t const n = GENERATE(0, 3, 50021);
  Ranges device;
  TestTensor x = TestTensor::random(type, {n + 1}, 1);
  if (n > 0) x.set(1, 1e5);  // in float 1e10 would swallow the squares of the others
  long double exact = 0;
  for (std::int64_t i = 1; i <= n; ++i) exact += static_cast<long double>(x[i]) * x[i];
  // Unaligned, and aligned.
  double const sum = device.squares(device.upload(x).part(1, n));
  REQUIRE(sum == Approx(static_cast<double>(exact)).epsilon(1e-14));
  TestTensor const shifted{type, {n}, [&] {
                             std::vector<double> values = x.values();
                             values.erase(values.begin());
                             return values;
                           }()};
  REQUIRE(device.squares(device.upload(shifted)) == sum);
}

TEST_CASE("Adam steps on a device are those of a CPU", "[cuda]") {
  auto const type = GENERATE(ElementType::f32, ElementType::f64);
  std::int64_t const n = GENERATE(1, 1023, 5120);
  Ranges device;
  TestTensor const p = TestTensor::random(type, {n}, 1);
  TestTensor const m = TestTensor::zeros(type, {n});
  TestTensor const v = TestTensor::zeros(type, {n});
  FlatRange const on[3] = {device.upload(p), device.upload(m), device.upload(v)};
  AdamAttributes const adam{.learning_rate = 0.01, .weight_decay = 0.1};
  for (std::int64_t step = 1; step <= 3; ++step) {
    TestTensor const g = TestTensor::random(type, {n}, static_cast<unsigned>(10 + step));
    StepNumbers numbers{.updates = step - 1};
    run(whole(small_model()),
        adam_update(adam, {p.operand(), m.operand(), v.operand()}, g.operand(), numbers));
    device.run(adam_update(adam, {on[0].operand(), on[1].operand(), on[2].operand()},
                           device.upload(g).operand(), numbers));
  }
  REQUIRE(relative_error(device.read(on[0]), p) <= device_tolerance(type));
  REQUIRE(relative_error(device.read(on[1]), m) <= device_tolerance(type));
  REQUIRE(relative_error(device.read(on[2]), v) <= device_tolerance(type));
}

TEST_CASE("a step ahead on a device gives the parameters of Adam, and leaves its state as it is",
          "[cuda]") {
  auto const type = GENERATE(ElementType::f16, ElementType::bf16);
  std::int64_t const n = GENERATE(1, 1023, 5120);
  Ranges device;
  TestTensor const master = TestTensor::random(ElementType::f32, {n}, 1);
  TestTensor const first = TestTensor::random(ElementType::f32, {n}, 2);
  TestTensor second = first;
  for (std::int64_t i = 0; i < n; ++i) second.set(i, first[i] * first[i]);
  std::vector<FlatRange> const on{device.upload(master), device.upload(first),
                                  device.upload(second)};
  std::vector<Operand> const state{on[0].operand(), on[1].operand(), on[2].operand()};
  Operand const gradient = device.upload(TestTensor::random(ElementType::f32, {n}, 7)).operand();
  TestTensor const untouched{type, {n}};
  FlatRange const parameters = device.upload(untouched);
  AdamAheadAttributes const ahead{.adam = {.learning_rate = 0.01, .weight_decay = 0.1},
                                  .clip = {.largest_norm = 5}};
  StepNumbers numbers{.updates = 3};
  numbers.squares.add(36);  // a norm of 6 needs clipping to 5
  device.run(stepping_ahead(ahead, state, gradient, parameters.operand(), numbers));
  REQUIRE(device.read(parameters).same_bits(untouched));
  numbers.squares = {};
  numbers.squares.add(16);
  device.run(stepping_ahead(ahead, state, gradient, parameters.operand(), numbers));
  REQUIRE(device.read(on[0]).same_bits(master));
  REQUIRE(device.read(on[1]).same_bits(first));
  REQUIRE(device.read(on[2]).same_bits(second));
  // Adam itself, then rounded.
  FlatRange const wanted = device.upload(untouched);
  device.run(adam_update(ahead.adam, state, gradient, numbers));
  device.run(narrowing(state[0], wanted.operand(), numbers));
  REQUIRE(device.read(parameters).same_bits(device.read(wanted)));
}

TEST_CASE("a master copy on a device is rounded to 16-bit parameters as on a CPU", "[cuda]") {
  auto const type = GENERATE(ElementType::f16, ElementType::bf16);
  std::int64_t const n = GENERATE(1, 1023, 5120);
  Ranges device;
  StepNumbers numbers;
  TestTensor const master = TestTensor::random(ElementType::f32, {n}, 1);
  FlatRange const parameters = device.upload(TestTensor{type, {n}});
  device.run(narrowing(device.upload(master).operand(), parameters.operand(), numbers));
  REQUIRE(device.read(parameters).same_bits(TestTensor{type, {n}, master.values()}));
}

TEST_CASE("ranges that do not fit together are refused on a device", "[cuda]") {
  Ranges device;
  StepNumbers numbers;
  FlatRange const x = device.upload(TestTensor::random(ElementType::f32, {8}, 1));
  FlatRange const narrow = device.upload(TestTensor::random(ElementType::f16, {8}, 1));
  Operand const fits = x.operand();
  CHECK_THROWS_AS(device.run(adam_update({}, {fits, fits, fits}, x.part(0, 7).operand(), numbers)),
                  std::logic_error);
  CHECK_THROWS_AS(device.run(scaling(narrow.operand(), 2)), std::logic_error);
  CHECK_THROWS_AS(device.run(narrowing(fits, narrow.part(0, 7).operand(), numbers)),
                  std::logic_error);
}

std::vector<float> reduced(Reduction reduction, std::vector<std::vector<float>> const& members) {
  std::deque<DeviceArray<float>> arrays;
  std::vector<void const*> sources;
  for (auto const& member : members) sources.push_back(arrays.emplace_back(member).data());
  DeviceArray<float> const result{members.front().size()};
  Stream const stream;
  reduce_on_device(reduction, ElementType::f32, sources, result.data(),
                   static_cast<std::int64_t>(result.size()), stream);
  return result.values();
}

TEST_CASE("a device sums members in the order of ranks", "[cuda]") {
  // In floats 1e8 + 1 is 1e8: any other order gives 1.
  CHECK(reduced(Reduction::sum, {{1e8F, 2}, {1, 3}, {-1e8F, 4}}) == std::vector<float>{0, 9});
  CHECK(reduced(Reduction::sum, {{5, 6, 7}}) == std::vector<float>{5, 6, 7});
}

TEST_CASE("a maximum of members on a device keeps NaN of any of them", "[cuda]") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  auto const result =
      reduced(Reduction::maximum, {{1, nan, 3, -4}, {2, 1, nan, -5}, {0, 1, 1, -6}});
  REQUIRE(result.size() == 4);
  CHECK(result[0] == 2);
  CHECK(std::isnan(result[1]));
  CHECK(std::isnan(result[2]));
  CHECK(result[3] == -4);
}

TEST_CASE("members on a device have the bits of members on a CPU, for every type", "[cuda]") {
  auto const type =
      GENERATE(ElementType::f64, ElementType::f32, ElementType::bf16, ElementType::f16);
  auto const reduction = GENERATE(Reduction::sum, Reduction::maximum);
  std::int64_t const elements = GENERATE(70000, 70001);  // in packs, and one by one
  constexpr std::size_t members = 5;
  CAPTURE(type, reduction, elements);
  std::mt19937 engine{7};
  std::array<std::vector<std::uint8_t>, members> host;
  std::deque<DeviceArray<std::uint8_t>> arrays;
  std::vector<void const*> of_host;
  std::vector<void const*> of_device;
  with_storage_type(OpKind::all_reduce, type, [&](auto tag) {
    using S = decltype(tag);
    for (auto& member : host) {
      member.resize(static_cast<std::size_t>(elements) * sizeof(S));
      auto* const values = reinterpret_cast<S*>(member.data());
      for (std::int64_t i = 0; i < elements; ++i) {
        values[i] = narrow<S>(static_cast<Compute<S>>(engine()) / 2147483648 - 1);
      }
      of_host.push_back(member.data());
      of_device.push_back(arrays.emplace_back(member).data());
    }
  });
  std::vector<std::uint8_t> expected(host.front().size());
  WorkerPool pool{1};
  reduce_in_rank_order(pool, reduction, type, of_host, expected.data(), elements);
  // In place, as the CPU's may be.
  Stream const stream;
  reduce_on_device(reduction, type, of_device, arrays.front().data(), elements, stream);
  CHECK(arrays.front().values() == expected);
}

TEST_CASE("a device reduces 1 to 32 members of a floating-point type", "[cuda]") {
  DeviceArray<float> const value{std::vector<float>{1}};
  Stream const stream;
  auto const reduce = [&](std::size_t members, ElementType type) {
    std::vector<void const*> const sources(members, value.data());
    reduce_on_device(Reduction::sum, type, sources, value.data(), 1, stream);
  };
  CHECK_THROWS_AS(reduce(0, ElementType::f32), std::logic_error);
  CHECK_THROWS_AS(reduce(33, ElementType::f32), std::logic_error);
  CHECK_THROWS_AS(reduce(1, ElementType::i64), std::logic_error);
  reduce(32, ElementType::f32);
  CHECK(value.values() == std::vector<float>{32});
}

}  // namespace

}  // namespace stagecraft::test::step_test
