#include <catch2/catch.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test::expert_rows_test {
namespace {

// The rows that a device makes of tokens and their choices, held against a CPU's.

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

// What experts compute on a device with their rows, held against a CPU's.

/// Of three groups, from two senders: 9, 0 and 8 rows; two more are room.
TestTensor some_counts() { return {ElementType::i32, {2, 3}, {4, 0, 5, 5, 0, 3}}; }
constexpr std::int64_t groups = 3;
constexpr std::int64_t rows = 19;

TEST_CASE("products of groups of rows on a device are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const n = GENERATE(8, 5), k = GENERATE(16, 3);
  bool const transposes = GENERATE(false, true);
  RankShare const rank = whole(small_model(precision_of(type)));
  TestTensor const a = TestTensor::random(type, {rows, k}, 1);
  TestTensor const b =
      TestTensor::random(type, {transposes ? groups * n : groups * k, transposes ? k : n}, 2);
  require_agreement(rank,
                    {.kind = OpKind::grouped_gemm,
                     .tensors = {a, b, some_counts(), TestTensor{type, {rows, n}}},
                     .reads = {{0}, {1}, {2}},
                     .writes = {{3}},
                     .gemm = {.batch = groups, .m = 6, .n = n, .k = k, .transpose_b = transposes}});
  // Weight gradients, added to what there is.
  require_agreement(
      rank,
      {.kind = OpKind::grouped_gemm,
       .tensors = {a, TestTensor::random(type, {rows, n}, 3), some_counts(),
                   TestTensor::random(wide_of(type), {groups * k, n}, 4)},
       .reads = {{0}, {1}, {2}},
       .writes = {{3}},
       .gemm = {.batch = groups, .m = k, .n = n, .k = 6, .transpose_a = true, .accumulate = true}});
  // Equally many rows.
  require_agreement(rank,
                    {.kind = OpKind::grouped_gemm,
                     .tensors = {TestTensor::random(type, {groups * 6, k}, 5), b,
                                 TestTensor{type, {groups * 6, n}}},
                     .reads = {{0}, {1}},
                     .writes = {{2}},
                     .gemm = {.batch = groups, .m = 6, .n = n, .k = k, .transpose_b = transposes}});
}

TEST_CASE("a device refuses groups with more rows than there are", "[cuda]") {
  DeviceCase const product{.kind = OpKind::grouped_gemm,
                           .tensors = {TestTensor::random(ElementType::f32, {10, 4}, 1),
                                       TestTensor::random(ElementType::f32, {groups * 4, 4}, 2),
                                       some_counts(), TestTensor{ElementType::f32, {10, 4}}},
                           .reads = {{0}, {1}, {2}},
                           .writes = {{3}},
                           .gemm = {.batch = groups, .m = 3, .n = 4, .k = 4}};
  REQUIRE_THROWS_WITH(on_device(whole(small_model(Precision::fp32)), product),
                      Catch::Contains("the groups have more rows than an operand"));
}

TEST_CASE("biases of experts on a device, and their gradients, are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const columns = GENERATE(8, 7, 600);
  bool const has_factors = GENERATE(false, true);
  bool const is_even = GENERATE(false, true);
  RankShare const rank = whole(small_model(precision_of(type)));
  ElementType const wide = wide_of(type);
  std::int64_t const all = is_even ? 18 : rows;
  TestTensor const x = TestTensor::random(type, {all, columns}, 1);
  TestTensor const bias = TestTensor::random(type, {groups * columns}, 2);
  TestTensor const factors = TestTensor::random(wide, {all}, 3);
  OpAttributes const attributes =
      has_factors ? OpAttributes{GroupsAttributes{groups}} : OpAttributes{};
  auto const with_more = [&](std::vector<Use> reads) {
    if (has_factors) reads.push_back({2});
    if (!is_even) reads.push_back({3});
    return reads;
  };
  require_agreement(rank,
                    {.kind = has_factors ? OpKind::weighted_bias_add : OpKind::grouped_bias_add,
                     .tensors = {x, bias, factors, some_counts()},
                     .reads = with_more({{0}, {1}}),
                     .writes = {{0}},
                     .attributes = attributes});
  require_agreement(
      rank,
      {.kind = has_factors ? OpKind::weighted_bias_gradient : OpKind::grouped_bias_gradient,
       .tensors = {x, TestTensor::random(wide, {groups * columns}, 4), factors, some_counts()},
       .reads = with_more({{0}}),
       .writes = {{1}},
       .attributes = attributes});
  if (has_factors) return;
  require_agreement(rank, {.kind = OpKind::bias_probability_gradient,
                           .tensors = {x, bias, TestTensor{wide, {all}}, some_counts()},
                           .reads = with_more({{0}, {1}}),
                           .writes = {{2}},
                           .attributes = GroupsAttributes{groups}});
}

TEST_CASE("rows of many experts on a device get the biases that a CPU gives them", "[cuda]") {
  // Some have no rows, two rows at the end are room.
  std::int64_t const experts = 70, columns = 3;
  TestTensor counts{ElementType::i32, {2, experts}};
  std::int64_t all = 2;
  for (std::int64_t i = 0; i < counts.size(); ++i) {
    std::int64_t const count = i * 5 % 7 > 3 ? i * 5 % 7 - 3 : 0;
    counts.set(i, static_cast<double>(count));
    all += count;
  }
  RankShare const rank = whole(small_model(Precision::fp32));
  require_agreement(
      rank, {.kind = OpKind::grouped_bias_add,
             .tensors = {TestTensor::random(ElementType::f32, {all, columns}, 1),
                         TestTensor::random(ElementType::f32, {experts * columns}, 2), counts},
             .reads = {{0}, {1}, {2}},
             .writes = {{0}}});
}

TEST_CASE("weighted activations on a device, and their gradients, are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const activation = GENERATE(Activation::gelu, Activation::relu, Activation::swiglu,
                                   Activation::geglu, Activation::swiglu_clamped);
  std::int64_t const f = GENERATE(8, 7, 2000);
  std::int64_t const branches =
      activation == Activation::gelu || activation == Activation::relu ? 1 : 2;
  RankShare const rank = whole(small_model(precision_of(type)));
  ElementType const wide = wide_of(type);
  TestTensor x = TestTensor::random(type, {5, branches * f}, 1);
  // Beyond the limit of the clamped gate, too.
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, 10 * x[i]);
  TestTensor const probabilities = TestTensor::random(wide, {5}, 2);
  require_agreement(rank, {.kind = OpKind::weighted_activation,
                           .tensors = {x, probabilities, TestTensor{type, {5, f}}},
                           .reads = {{0}, {1}},
                           .writes = {{2}},
                           .attributes = ActivationAttributes{activation}});
  require_agreement(rank, {.kind = OpKind::weighted_activation_backward,
                           .tensors = {TestTensor::random(type, {5, f}, 3), x, probabilities,
                                       TestTensor{type, x.shape()}, TestTensor{wide, {5}}},
                           .reads = {{0}, {1}, {2}},
                           .writes = {{3}, {4}},
                           .attributes = ActivationAttributes{activation}});
}

TEST_CASE("rows on a device are scaled, and their gradients summed, as on a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  bool const are_wide = GENERATE(false, true);
  RowFactor const kind = GENERATE(RowFactor::identity, RowFactor::sigmoid);
  std::int64_t const width = GENERATE(8, 7, 3000);
  RankShare const rank = whole(small_model(precision_of(type)));
  ElementType const of_factors = are_wide ? wide_of(type) : type;
  TestTensor const x = TestTensor::random(type, {5, width}, 1);
  TestTensor const factors = TestTensor::random(of_factors, {5}, 2);
  require_agreement(rank, {.kind = OpKind::scale_rows,
                           .tensors = {x, factors, TestTensor{type, x.shape()}},
                           .reads = {{0}, {1}},
                           .writes = {{2}},
                           .attributes = RowScaleAttributes{kind}});
  require_agreement(rank, {.kind = OpKind::scale_rows_backward,
                           .tensors = {TestTensor::random(type, x.shape(), 3), x, factors,
                                       TestTensor{type, x.shape()}, TestTensor{of_factors, {5}}},
                           .reads = {{0}, {1}, {2}},
                           .writes = {{3}, {4}},
                           .attributes = RowScaleAttributes{kind}});
}

}  // namespace

}  // namespace stagecraft::test::expert_rows_test
