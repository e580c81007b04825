#include "libsim/sweep/point_source.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/libsim/sweep/sweep_files.hpp"

namespace stagecraft::point_source_test {
namespace {

Sweep some_sweep(SweepFolder const& folder) {
  return folder.sweep(
      "values:\n"
      "  batch.global: [8, 16, 24, 32, 40, 48, 56, 64, 72, 80]\n"
      "  batch.micro: [1, 2, 4, 8]\n"
      "  parallel.tensor: [1, 2, 4]\n"
      "where: [batch.global % batch.micro == 0, batch.micro * parallel.tensor <= 8]\n");
}

std::vector<PointBatch> batches_of(Sweep const& sweep, Shard shard) {
  PointSource source{sweep, shard};
  std::vector<PointBatch> batches;
  while (auto batch = source.next()) batches.push_back(std::move(*batch));
  return batches;
}

/// Those of all batches, by the numbers of the batches.
std::vector<std::int64_t> points_of(Sweep const& sweep, Shard shard) {
  std::vector<PointBatch> batches = batches_of(sweep, shard);
  std::ranges::sort(batches, {}, &PointBatch::number);
  std::vector<std::int64_t> points;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    REQUIRE(batches[i].number == static_cast<std::int64_t>(i));
    points.insert(points.end(), batches[i].points.begin(), batches[i].points.end());
  }
  return points;
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

TEST_CASE("any part of a sweep's time is spent on points from all over it", "[sweep]") {
  SweepFolder const folder;
  std::string values;
  for (int batch = 8; batch <= 8 * 2048; batch += 8) values += std::to_string(batch) + ", ";
  Sweep const sweep = folder.sweep("values: {batch.global: [" + values + "16392]}\n");
  std::vector<PointBatch> const batches = batches_of(sweep, {});
  REQUIRE(batches.size() == 129);
  // Of costs that grow in proportion to the point's number, half have been spent by the middle.
  for (std::size_t const done : {13U, 32U, 65U, 97U}) {
    double sum = 0;
    for (std::size_t i = 0; i < done; ++i) sum += static_cast<double>(batches[i].number);
    double const mean = sum / static_cast<double>(done);
    REQUIRE(mean == Approx(64).epsilon(0.15));
  }
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

}  // namespace stagecraft::point_source_test
