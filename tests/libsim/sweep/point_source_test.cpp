#include "libsim/sweep/point_source.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/libsim/sweep/sweep_files.hpp"

namespace stagecraft {
namespace {

Sweep some_sweep(SweepFolder const& folder) {
  return folder.sweep(
      "values:\n"
      "  batch.global: [8, 16, 24, 32, 40, 48, 56, 64, 72, 80]\n"
      "  batch.micro: [1, 2, 4, 8]\n"
      "  parallel.tensor: [1, 2, 4]\n"
      "where: [batch.global % batch.micro == 0, batch.micro * parallel.tensor <= 8]\n");
}

std::vector<std::int64_t> points_of(Sweep const& sweep, Shard shard) {
  PointSource source{sweep, shard};
  std::vector<std::int64_t> points;
  for (std::int64_t number = 0;; ++number) {
    auto const batch = source.next();
    if (!batch) return points;
    REQUIRE(batch->number == number);
    points.insert(points.end(), batch->points.begin(), batch->points.end());
  }
}

}  // namespace

TEST_CASE("the points of a sweep are those that meet the conditions, in order", "[sweep]") {
  SweepFolder const folder;
  Sweep const sweep = some_sweep(folder);
  std::vector<std::int64_t> expected;
  std::int64_t point = 0;
  for (int global = 8; global <= 80; global += 8) {
    for (int micro = 1; micro <= 8; micro *= 2) {
      for (int tensor = 1; tensor <= 4; tensor *= 2, ++point) {
        if (global % micro == 0 && micro * tensor <= 8) expected.push_back(point);
      }
    }
  }
  REQUIRE(points_of(sweep, {}) == expected);
  REQUIRE(count_points(sweep, 2, [](double) {}) == static_cast<std::int64_t>(expected.size()));
}

TEST_CASE("shards have each point once and differ in size by one at most", "[sweep]") {
  SweepFolder const folder;
  Sweep const sweep = some_sweep(folder);
  std::vector<std::int64_t> const whole = points_of(sweep, {});
  int const count = GENERATE(2, 3, 7, 100);
  std::vector<std::int64_t> together;
  for (int number = 1; number <= count; ++number) {
    Shard const shard{number, count};
    std::vector<std::int64_t> const part = points_of(sweep, shard);
    auto const size = static_cast<std::int64_t>(part.size());
    REQUIRE(size == shard.size_of(static_cast<std::int64_t>(whole.size())));
    REQUIRE(size >= static_cast<std::int64_t>(whole.size()) / count);
    REQUIRE(size <= static_cast<std::int64_t>(whole.size()) / count + 1);
    together.insert(together.end(), part.begin(), part.end());
  }
  std::sort(together.begin(), together.end());
  REQUIRE(together == whole);
}

}  // namespace stagecraft
