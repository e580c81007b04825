#include <catch2/catch.hpp>
#include <limits>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test::rows_test {
namespace {

RankShare rank_of(ElementType type, std::int64_t sequence) {
  ModelConfig model = small_model(precision_of(type));
  model.sequence = sequence;
  return whole(model);
}

TEST_CASE("the causal softmax on a device is that of a CPU, and reads nothing above the diagonal",
          "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  // One warp a row, odd columns, several warps a row.
  std::int64_t const s = GENERATE(1, 10, 37, 64, 200, 1032);
  Shape const shape{1, s > 200 ? 1 : 3, s, s};
  TestTensor x = TestTensor::random(type, shape, 1);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    bool const is_alive = i % s <= i / s % s;
    x.set(i, is_alive ? 10 * x[i] : std::numeric_limits<double>::quiet_NaN());
  }
  require_agreement(rank_of(type, s), {.kind = OpKind::causal_softmax,
                                       .tensors = {x, TestTensor{type, shape}},
                                       .reads = {{0}},
                                       .writes = {{1}}});
}

TEST_CASE("the gradient of the causal softmax on a device is that of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const s = GENERATE(1, 37, 64, 200, 1032);
  Shape const shape{1, s > 200 ? 1 : 3, s, s};
  TestTensor y = TestTensor::random(type, shape, 2);
  TestTensor dy = TestTensor::random(type, shape, 3);
  for (std::int64_t i = 0; i < y.size(); ++i) {
    bool const is_alive = i % s <= i / s % s;
    y.set(i, (1 + y[i]) / static_cast<double>(s));
    if (!is_alive) dy.set(i, std::numeric_limits<double>::quiet_NaN());
  }
  require_agreement(rank_of(type, s), {.kind = OpKind::causal_softmax_backward,
                                       .tensors = {dy, y},
                                       .reads = {{0}, {1}},
                                       .writes = {{0}}});
}

TEST_CASE("softmax and dropout in one kernel on a device, and the gradient, are those of a CPU",
          "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  bool const stores = GENERATE(false, true);
  std::int64_t const s = GENERATE(1, 37, 64, 200, 1032);
  ModelConfig const model = rank_of(type, s).shape.model;
  RankShare const rank = s > 200 ? share(model, 4, 1, false, 1) : share(model, 2, 1, false);
  Shape const shape{rank.shape.micro, rank.shape.heads(), s, s};
  TestTensor x = TestTensor::random(type, shape, 1);
  TestTensor dy = TestTensor::random(type, shape, 2);
  TestTensor mask = TestTensor::zeros(ElementType::u8, shape);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    mask.set(i, i % 3 == 0 ? 1 : 0);
    if (i % s <= i / s % s) continue;
    x.set(i, std::numeric_limits<double>::quiet_NaN());
    dy.set(i, std::numeric_limits<double>::quiet_NaN());
  }
  DeviceCase forward{.kind = OpKind::causal_softmax_dropout,
                     .tensors = {x, TestTensor{type, shape}, TestTensor{ElementType::u8, shape}},
                     .reads = {{0}},
                     .writes = {{0}, {1}},
                     .draw = some_draw(DropoutSite::attention)};
  if (stores) forward.writes.push_back({2});
  require_agreement(rank, forward);
  TestTensor const y = on_cpu(rank, forward)[0];
  DeviceCase backward{.kind = OpKind::causal_softmax_dropout_backward,
                      .tensors = {dy, y, mask},
                      .reads = {{0}, {1}},
                      .writes = {{0}},
                      .draw = some_draw(DropoutSite::attention)};
  if (stores) backward.reads.push_back({2});
  require_agreement(rank, backward);
}

TEST_CASE("a window of the causal softmax on a device, and its gradient, are those of a CPU",
          "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const window = GENERATE(1, 7, 90);
  std::int64_t const s = GENERATE(10, 37, 200);
  ModelConfig model = small_model(precision_of(type));
  model.sequence = s;
  model.window = window;
  model.attention_dropout = 0.25;
  RankShare const rank = whole(model, 1);
  Shape const shape{1, rank.shape.heads(), s, s};
  TestTensor x = TestTensor::random(type, shape, 1);
  TestTensor y = TestTensor::random(type, shape, 2);
  TestTensor dy = TestTensor::random(type, shape, 3);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    x.set(i, 4 * x[i]);
    y.set(i, (1 + y[i]) / static_cast<double>(s));
    if (i % s <= i / s % s) continue;
    x.set(i, std::numeric_limits<double>::quiet_NaN());
    dy.set(i, std::numeric_limits<double>::quiet_NaN());
  }
  require_agreement(rank, {.kind = OpKind::causal_softmax,
                           .tensors = {x, TestTensor{type, shape}},
                           .reads = {{0}},
                           .writes = {{1}}});
  require_agreement(rank, {.kind = OpKind::causal_softmax_dropout,
                           .tensors = {x, TestTensor{type, shape}},
                           .reads = {{0}},
                           .writes = {{0}, {1}},
                           .draw = some_draw(DropoutSite::attention)});
  if (window > 1) {  // of one column the gradient is rounding errors only
    require_agreement(rank, {.kind = OpKind::causal_softmax_backward,
                             .tensors = {dy, y},
                             .reads = {{0}, {1}},
                             .writes = {{0}}});
    require_agreement(rank, {.kind = OpKind::causal_softmax_dropout_backward,
                             .tensors = {dy, y},
                             .reads = {{0}, {1}},
                             .writes = {{0}},
                             .draw = some_draw(DropoutSite::attention)});
  }
}

TEST_CASE("norms on a device and their gradients are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const norm = GENERATE(Norm::layernorm, Norm::rmsnorm);
  // Rows of one, of one warp, of odd size, of several warps, and of more than 64 Ki / 4 columns,
  // also one by one.
  std::int64_t const columns = GENERATE(1, 24, 283, 2048, 16392, 16393);
  std::int64_t const s = columns > 2048 ? 1 : 7;
  ModelConfig model = small_model(precision_of(type));
  model.norm = norm;
  RankShare const rank = whole(model);
  ElementType const statistics_type =
      type == ElementType::f64 ? ElementType::f64 : ElementType::f32;
  std::int64_t const moments = norm == Norm::layernorm ? 2 : 1;
  Shape const shape{s, 2, columns};
  TestTensor x = TestTensor::random(type, shape, 1);
  // Far from zero: a mean of squares would cancel.
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, x[i] + 3);
  TestTensor const weight = TestTensor::random(type, {columns}, 2);
  TestTensor const bias = TestTensor::random(type, {columns}, 3);
  DeviceCase forward{.kind = OpKind::norm,
                     .tensors = {x, weight, bias, TestTensor{type, shape},
                                 TestTensor{statistics_type, {moments, 2 * s}}},
                     .reads = {{0}, {1}},
                     .writes = {{3}, {4}}};
  if (norm == Norm::layernorm) forward.reads.push_back({2});
  require_agreement(rank, forward);
  TestTensor const statistics = on_cpu(rank, forward)[4];
  TestTensor const dy = TestTensor::random(type, shape, 4);
  // Of one column y is constant: its gradient is rounding errors only.
  if (columns > 1) {
    require_agreement(rank, {.kind = OpKind::norm_backward,
                             .tensors = {dy, x, statistics, weight, TestTensor{type, shape}},
                             .reads = {{0}, {1}, {2}, {3}},
                             .writes = {{4}}});
  }
  // Gradients of units have the type of the activations.
  ElementType const gradient_type = GENERATE(false, true) ? type : statistics_type;
  DeviceCase weights{.kind = OpKind::norm_weight_gradient,
                     .tensors = {dy, x, statistics, TestTensor::random(gradient_type, {columns}, 5),
                                 TestTensor::random(gradient_type, {columns}, 6)},
                     .reads = {{0}, {1}, {2}},
                     .writes = {{3}}};
  if (norm == Norm::layernorm) weights.writes.push_back({4});
  require_agreement(rank, weights);
}

TEST_CASE("parts of a unit are packed on a device as on a CPU, bit for bit", "[cuda]") {
  auto const from = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const to = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const count = GENERATE(1, 7, 4096, 70001);
  DeviceCase const what{
      .kind = OpKind::pack_unit,
      .tensors = {TestTensor::random(from, {count}, 1), TestTensor::random(from, {3, 5}, 2),
                  TestTensor::zeros(to, {count + 17})},
      .reads = {{0}, {1}},
      .writes = {{2}}};
  RankShare const rank = rank_of(from, 10);
  REQUIRE(on_device(rank, what)[2].same_bits(on_cpu(rank, what)[2]));
}

TEST_CASE("rows that no kernel holds are refused", "[cuda]") {
  std::int64_t const columns = 32769;
  ModelConfig model = small_model(Precision::fp32);
  model.norm = Norm::rmsnorm;
  ElementType const type = ElementType::f32;
  REQUIRE_THROWS_WITH(on_device(whole(model), {.kind = OpKind::norm,
                                               .tensors = {TestTensor::zeros(type, {1, columns}),
                                                           TestTensor::zeros(type, {columns}),
                                                           TestTensor::zeros(type, {1, columns}),
                                                           TestTensor::zeros(type, {1, 1})},
                                               .reads = {{0}, {1}},
                                               .writes = {{2}, {3}}}),
                      "norm: rows of more than 32768 columns have no kernel");
}

TEST_CASE("gradients of biases and positions on a device are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const columns = GENERATE(1, 9, 264, 1000);
  std::int64_t const s = GENERATE(1, 45, 300);
  bool const is_of_unit = GENERATE(false, true);
  ElementType const sum = is_of_unit || type == ElementType::f64 ? type : ElementType::f32;
  TestTensor const dy = TestTensor::random(type, {s, 3, columns}, 1);
  RankShare const rank = rank_of(type, s);
  require_agreement(rank, {.kind = OpKind::bias_gradient,
                           .tensors = {dy, TestTensor::random(sum, {columns}, 2)},
                           .reads = {{0}},
                           .writes = {{1}}});
  require_agreement(rank, {.kind = OpKind::positions_gradient,
                           .tensors = {dy, TestTensor::random(sum, {s + 1, columns}, 2)},
                           .reads = {{0}},
                           .writes = {{1}}});
}

TEST_CASE("a gradient of more columns than one launch sums is that of a CPU", "[cuda]") {
  std::int64_t const columns = (std::int64_t{1} << 17) + 8;
  auto const type = ElementType::bf16;
  require_agreement(rank_of(type, 10),
                    {.kind = OpKind::bias_gradient,
                     .tensors = {TestTensor::random(type, {3, columns}, 1),
                                 TestTensor::random(ElementType::f32, {columns}, 2)},
                     .reads = {{0}},
                     .writes = {{1}}});
}

constexpr std::int64_t s = 8;
constexpr std::int64_t b = 2;

RankShare rank_of(ElementType type) { return whole(small_model(precision_of(type))); }

/// Every tensor has the bits of a CPU's, also where nothing is written.
void require_same_bits(ElementType type, DeviceCase const& what) {
  auto const wanted = on_cpu(rank_of(type), what);
  auto const got = on_device(rank_of(type), what);
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(name_of(what.kind), i, name_of(type));
    REQUIRE(got[i].same_bits(wanted[i]));
  }
}

/// Heads [s, b, heads, d] inside of tokens [s, b, width].
Use heads_at(
    std::int64_t rows, std::int64_t heads, std::int64_t d, std::int64_t width, std::int64_t first) {
  return {.tensor = 0,
          .shape = {rows, b, heads, d},
          .strides = {b * width, width, d, 1},
          .offset = first};
}

TEST_CASE("columns are joined and split on a device bit for bit", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const [left, right] = GENERATE(std::pair{1, 3}, std::pair{16, 40}, std::pair{24, 5});
  Shape const a{s, b, left};
  Shape const c{s, b, right};
  Shape const joined{s, b, left + right};
  require_same_bits(type, {.kind = OpKind::join_columns,
                           .tensors = {TestTensor::random(type, a, 1),
                                       TestTensor::random(type, c, 2), TestTensor{type, joined}},
                           .reads = {{0}, {1}},
                           .writes = {{2}}});
  require_same_bits(type, {.kind = OpKind::split_columns,
                           .tensors = {TestTensor::random(type, joined, 1), TestTensor{type, a},
                                       TestTensor{type, c}},
                           .reads = {{0}},
                           .writes = {{1}, {2}}});
}

TEST_CASE("heads of two sizes are joined by token on a device bit for bit", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const [d, value_d] = GENERATE(std::pair{3, 2}, std::pair{24, 16});
  std::int64_t const heads = 3;
  TestTensor const k = TestTensor::random(type, {s, b, heads * d + 8}, 1);
  require_same_bits(type, {.kind = OpKind::join_heads,
                           .tensors = {k, TestTensor::random(type, {s, b, heads, value_d}, 2),
                                       TestTensor{type, {s, b, heads * (d + value_d)}}},
                           .reads = {heads_at(s, heads, d, heads * d + 8, 8), {1}},
                           .writes = {{2}}});
}

TEST_CASE("heads become parts and come back on a device bit for bit", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const d = GENERATE(3, 16);
  std::int64_t const heads = 4;
  std::int64_t const parts = GENERATE(1, 2, 4);
  std::int64_t const width = heads * d + 16;
  Shape const of_parts{parts * s, b, heads / parts, d};
  Use const tokens = heads_at(s, heads, d, width, 16);
  require_same_bits(
      type, {.kind = OpKind::scatter_heads,
             .tensors = {TestTensor::random(type, {s, b, width}, 1), TestTensor{type, of_parts}},
             .reads = {tokens},
             .writes = {{1}}});
  require_same_bits(
      type, {.kind = OpKind::gather_heads,
             .tensors = {TestTensor{type, {s, b, width}}, TestTensor::random(type, of_parts, 1)},
             .reads = {{1}},
             .writes = {tokens}});
  // Heads as all elements of a token.
  require_same_bits(type, {.kind = OpKind::gather_heads,
                           .tensors = {TestTensor::random(type, {parts * s, b, heads / parts}, 1),
                                       TestTensor{type, {s, b, heads}}},
                           .reads = {{0}},
                           .writes = {{1}}});
}

TEST_CASE("views and rows in zigzag order are copied on a device bit for bit", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const d = GENERATE(3, 16);
  std::int64_t const heads = 3;
  std::int64_t const width = heads * d + 16;
  int const ranks = GENERATE(2, 3);
  std::int64_t const rows = 4 * ranks;
  bool const to_sequence = GENERATE(false, true);
  Use const view = heads_at(rows, heads, d, width, 16);
  std::vector<TestTensor> const tensors{TestTensor::random(type, {rows, b, width}, 1),
                                        TestTensor{type, {rows, b, heads, d}},
                                        TestTensor{type, {rows, b, width}}};
  RowOrderAttributes const order{.ranks = ranks, .to_sequence = to_sequence};
  require_same_bits(
      type, {.kind = OpKind::copy_tensor, .tensors = tensors, .reads = {view}, .writes = {{1}}});
  require_same_bits(
      type, {.kind = OpKind::copy_tensor, .tensors = tensors, .reads = {{0}}, .writes = {{2}}});
  require_same_bits(type, {.kind = OpKind::reorder_rows,
                           .tensors = tensors,
                           .reads = {view},
                           .writes = {{1}},
                           .attributes = order});
  require_same_bits(type, {.kind = OpKind::reorder_rows,
                           .tensors = tensors,
                           .reads = {{0}},
                           .writes = {{2}},
                           .attributes = order});
}

TEST_CASE("a device fills with zeros what it is given and nothing else", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  require_same_bits(type, {.kind = OpKind::zero_fill,
                           .tensors = {TestTensor{type, {40}}},
                           .reads = {},
                           .writes = {{.tensor = 0, .shape = {7, 3}, .offset = 5}}});
}

}  // namespace

}  // namespace stagecraft::test::rows_test
