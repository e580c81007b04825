#include "libexec/kernels/cuda/reduce_members.hpp"

#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "libexec/kernels/cpu/kernel_table.hpp"
#include "libexec/kernels/element.hpp"
#include "tests/libexec/cuda/device_objects.hpp"

namespace stagecraft::test {
namespace {

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
}  // namespace stagecraft::test
