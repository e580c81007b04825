#include <catch2/catch.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/libexec/cuda/agreement.hpp"

// The rows that a device makes of tokens and their choices, held against a CPU's.

namespace stagecraft::test {
namespace {

ElementType wide_of(ElementType type) {
  return type == ElementType::f64 ? ElementType::f64 : ElementType::f32;
}

/// Choices of all kinds: none, chosen, dropped, padding.
TestTensor some_map(std::int64_t tokens, std::int64_t experts) {
  TestTensor map{ElementType::u8, {tokens, experts}};
  for (std::int64_t i = 0; i < map.size(); ++i) {
    std::int64_t const draw = (i * 2654435761 >> 7) % 11;
    map.set(i, draw < 4 ? static_cast<double>(draw) : 0);
  }
  return map;
}

bool has_row(double choice) { return choice == 1 || choice == 3; }

/// Rows of experts [first, first + count).
std::int64_t rows_of(TestTensor const& map, std::int64_t first, std::int64_t count) {
  std::int64_t const experts = map.shape()[1];
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < map.size(); ++i) {
    bool const is_own = i % experts >= first && i % experts < first + count;
    rows += is_own && has_row(map[i]) ? 1 : 0;
  }
  return rows;
}

TEST_CASE("tokens on a device become rows, and rows tokens, as on a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  // More tokens than a block has threads, more experts than a warp; accesses of one element.
  auto const [tokens, experts, h] =
      GENERATE(std::tuple{5, 4, 24}, std::tuple{300, 4, 7}, std::tuple{20, 70, 8});
  std::int64_t const own = GENERATE(1, 2) == 1 ? experts : experts / 2;
  RankShare rank = whole(small_model(precision_of(type)));
  rank.expert_rank = 1;
  std::int64_t const first = own == experts ? 0 : own;
  TestTensor const map = some_map(tokens, experts);
  // There is room for more rows than there are.
  std::int64_t const rows = rows_of(map, first, own) + 3;
  ElementType const wide = wide_of(type);
  TestTensor const x = TestTensor::random(type, {tokens, 1, h}, 1);
  TestTensor const probabilities = TestTensor::random(wide, {tokens, experts}, 2);
  TestTensor const row_map{ElementType::i32, {tokens, 2 * own + 1}};
  DeviceCase const permute{.kind = OpKind::permute,
                           .tensors = {x, probabilities, map, TestTensor{type, {rows, h}},
                                       TestTensor{wide, {rows}}, row_map},
                           .reads = {{0}, {1}, {2}},
                           .writes = {{3}, {4}, {5}}};
  require_agreement(rank, permute);
  auto const made = on_cpu(rank, permute);
  require_agreement(rank, {.kind = OpKind::count_rows,
                           .tensors = {map, TestTensor{ElementType::i32, {own}}},
                           .reads = {{0}},
                           .writes = {{1}}});
  TestTensor const d_rows = TestTensor::random(type, {rows, h}, 3);
  require_agreement(
      rank, {.kind = OpKind::permute_backward,
             .tensors = {d_rows, TestTensor::random(wide, {rows}, 4), made[5],
                         TestTensor{type, {tokens, 1, h}}, TestTensor{wide, {tokens, experts}}},
             .reads = {{0}, {1}, {2}},
             .writes = {{3}, {4}}});
  require_agreement(rank, {.kind = OpKind::unpermute,
                           .tensors = {d_rows, made[5], TestTensor{type, {tokens, 1, h}}},
                           .reads = {{0}, {1}},
                           .writes = {{2}}});
  require_agreement(rank, {.kind = OpKind::unpermute_backward,
                           .tensors = {x, made[5], TestTensor{type, {rows, h}}},
                           .reads = {{0}, {1}},
                           .writes = {{2}}});
}

TEST_CASE("a device leaves out the rows that a plan has no room for", "[cuda]") {
  // Token 0 chooses expert 0, token 1 both.
  std::vector<TestTensor> const made = on_device(
      whole(small_model()),
      {.kind = OpKind::permute,
       .tensors = {TestTensor{ElementType::f64, {2, 1, 1}, {5, 6}},
                   TestTensor{ElementType::f64, {2, 2}, {.1, .2, .3, .4}},
                   TestTensor{ElementType::u8, {2, 2}, {1, 0, 1, 1}},
                   TestTensor{ElementType::f64, {2, 1}}, TestTensor{ElementType::f64, {2}},
                   TestTensor{ElementType::i32, {2, 5}}},
       .reads = {{0}, {1}, {2}},
       .writes = {{3}, {4}, {5}}});
  REQUIRE(made[3].values() == std::vector<double>{5, 6});
  REQUIRE(made[4].values() == std::vector<double>{.1, .3});
  REQUIRE(made[5].values() == std::vector<double>{0, 0, 0, 0, 1, 1, 0, 0, 0, 1});
}

TEST_CASE("tokens on a device go to the ranks of their experts as on a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const [tokens, ranks, local] =
      GENERATE(std::tuple{5, 2, 4}, std::tuple{300, 4, 2}, std::tuple{20, 40, 3});
  std::int64_t const sharers = GENERATE(1, 2);
  std::int64_t const experts = ranks * local / sharers;
  std::int64_t const h = GENERATE(8, 7);
  RankShare const rank = whole(small_model(precision_of(type)));
  ElementType const wide = wide_of(type);
  TestTensor const x = TestTensor::random(type, {tokens, 1, h}, 1);
  TestTensor const probabilities = TestTensor::random(wide, {tokens, experts}, 2);
  std::int64_t const rows = tokens * ranks;
  DeviceCase const spread{.kind = OpKind::spread_tokens,
                          .tensors = {x, probabilities, some_map(tokens, experts),
                                      TestTensor{type, {rows, h}}, TestTensor{wide, {rows, local}},
                                      TestTensor{ElementType::i32, {tokens, 2 * ranks + 1}},
                                      TestTensor{ElementType::i32, {ranks}}},
                          .reads = {{0}, {1}, {2}},
                          .writes = {{3}, {4}, {5}, {6}}};
  require_agreement(rank, spread);
  auto const made = on_cpu(rank, spread);
  require_agreement(
      rank, {.kind = OpKind::spread_tokens_backward,
             .tensors = {TestTensor::random(type, {rows, h}, 3),
                         TestTensor::random(wide, {rows, local}, 4), made[5],
                         TestTensor{type, {tokens, 1, h}}, TestTensor{wide, {tokens, experts}}},
             .reads = {{0}, {1}, {2}},
             .writes = {{3}, {4}}});
  // Not all of the rows that there is room for arrive.
  TestTensor arrived = made[4];
  for (std::int64_t i = 0; i < arrived.size(); ++i) {
    if (!(arrived[i] >= -1)) arrived.set(i, 0.5);
  }
  require_agreement(rank,
                    {.kind = OpKind::mark_choices,
                     .tensors = {arrived, made[6], TestTensor{ElementType::u8, {rows, local}}},
                     .reads = {{0}, {1}},
                     .writes = {{2}}});
}

TEST_CASE("chunks of rows are moved on a device as on a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const [outer, inner] = GENERATE(std::pair{2, 3}, std::pair{1, 4}, std::pair{40, 8});
  std::int64_t const h = GENERATE(8, 3);
  bool const is_even = GENERATE(false, true);
  RankShare const rank = whole(small_model(precision_of(type)));
  ElementType const wide = wide_of(type);
  std::int64_t const chunks = outer * inner;
  TestTensor counts{ElementType::i32, {outer, inner}};
  std::int64_t rows = is_even ? 3 * chunks : 2;  // two that nobody uses
  for (std::int64_t i = 0; i < chunks; ++i) {
    std::int64_t const count = i * 5 % 7 > 2 ? i * 5 % 7 - 2 : 0;
    counts.set(i, static_cast<double>(count));
    rows += is_even ? 0 : count;
  }
  for (bool const by_inner : {false, true}) {
    DeviceCase move{
        .kind = OpKind::transpose_chunks,
        .tensors = {TestTensor::random(type, {rows, h}, 1), TestTensor::random(wide, {rows}, 2),
                    counts, TestTensor{type, {rows, h}}, TestTensor{wide, {rows}}},
        .reads = {{0}, {1}},
        .writes = {{3}, {4}},
        .attributes = ChunkAttributes{outer, inner, by_inner && !is_even}};
    if (!is_even) move.reads.push_back({2});
    require_agreement(rank, move);
  }
}

}  // namespace
}  // namespace stagecraft::test
