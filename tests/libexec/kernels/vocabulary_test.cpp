#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::vocabulary_test {
namespace {

constexpr std::int64_t s = 10;
constexpr std::int64_t b = 2;
constexpr std::int64_t h = 300;  // more than a block of columns

/// v 37: words that occur often, and the last one.
TestTensor tokens() {
  TestTensor ids{ElementType::i64, {s, b}};
  for (std::int64_t i = 0; i < s * b; ++i)
    ids.set(i, static_cast<double>(i % 3 == 0 ? 5 : i * 36 / 19));
  return ids;
}

ModelConfig wide_model(ElementType type) {
  ModelConfig model = small_model(precision_of(type));
  model.hidden = h;
  return model;
}

TEST_CASE("the rows that tensor ranks look up add up to the whole table's", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  int const t = GENERATE(1, 2, 4);
  ModelConfig const model = wide_model(type);
  TestTensor const ids = tokens();
  std::int64_t const padded = whole(model).shape.vocabulary();  // 40, also for t 2; 48 for 4
  std::int64_t const words = share(model, t, 0, false).shape.vocabulary();
  TestTensor const table = TestTensor::random(type, {words * t, h}, 1);
  REQUIRE(words * t >= padded);
  std::vector<double> sum(static_cast<std::size_t>(s * b * h));
  for (int rank = 0; rank < t; ++rank) {
    TestTensor const rows{type, {s, b, h}};
    run(share(model, t, rank, false), OpKind::embedding,
        {ids.operand(), table.view({words, h}, {}, rank * words * h)}, {rows.operand()});
    for (std::int64_t i = 0; i < rows.size(); ++i) sum[static_cast<std::size_t>(i)] += rows[i];
  }
  for (std::int64_t i = 0; i < s * b * h; ++i) {
    REQUIRE(sum[static_cast<std::size_t>(i)] ==
            table[static_cast<std::int64_t>(ids[i / h]) * h + i % h]);
  }
}

TEST_CASE("gradients of the embedding are added to the rows of their words", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  int const t = GENERATE(1, 4);
  int const threads = GENERATE(1, 2);
  ModelConfig const model = wide_model(type);
  TestTensor const ids = tokens();
  TestTensor const dy = TestTensor::random(type, {s, b, h}, 2);
  std::int64_t const words = share(model, t, 0, false).shape.vocabulary();
  ElementType const wide = accumulation_type(model.precision);
  for (int rank = 0; rank < t; ++rank) {
    TestTensor const before = TestTensor::random(wide, {words, h}, 3);
    TestTensor const gradient{wide, {words, h}, before.values()};
    run(share(model, t, rank, false),
        make_call(OpKind::embedding_backward, {dy.operand(), ids.operand()}, {gradient.operand()}),
        {.threads = threads});
    std::vector<double> wanted = before.values();
    for (std::int64_t i = 0; i < s * b * h; ++i) {
      std::int64_t const row = static_cast<std::int64_t>(ids[i / h]) - rank * words;
      if (row >= 0 && row < words) wanted[static_cast<std::size_t>(row * h + i % h)] += dy[i];
    }
    require_close(gradient, wanted);
  }
}

TEST_CASE("a slice is a rank's flat piece, filled with zeros beyond the end", "[kernels]") {
  auto const type = GENERATE(ElementType::f16, ElementType::f64);
  // 10 rows of 2 x 3 over four ranks: pieces of 3 rows, the last of 1.
  TestTensor const x = TestTensor::random(type, {10, 2, 3}, 1);
  for (int rank = 0; rank < 5; ++rank) {
    TestTensor const part{type, {3, 2, 3}};
    run(share(small_model(precision_of(type)), 4, rank, true), OpKind::slice, {x.operand()},
        {part.operand()});
    for (std::int64_t i = 0; i < part.size(); ++i) {
      std::int64_t const from = rank * 18 + i;
      REQUIRE(part[i] == (from < 60 ? x[from] : 0));
    }
  }
}

TEST_CASE("the causal mask is 1 above the diagonal", "[kernels]") {
  TestTensor const mask{ElementType::u8, {10, 10}};
  run(whole(small_model()), OpKind::make_causal_mask, {}, {mask.operand()});
  for (std::int64_t i = 0; i < 100; ++i) REQUIRE(mask[i] == (i % 10 > i / 10 ? 1 : 0));
}

TEST_CASE("rows of a rank that splits sequences stand behind those of the ranks before it",
          "[kernels]") {
  // The second of two ranks, each with two of four rows of h = 2.
  CpuKernels kernels{KernelNeeds{.sequence = {.rank = 1, .ranks = 2}, .types = {ElementType::f64}},
                     {}};
  TestTensor const mask{ElementType::u8, {2, 4}};
  kernels.run(make_call(OpKind::make_causal_mask, {}, {mask.operand()}));
  REQUIRE(mask.values() == std::vector<double>{0, 0, 0, 1, 0, 0, 0, 0});
  TestTensor const x{ElementType::f64, {2, 1, 2}, {1, 2, 3, 4}};
  TestTensor const table{ElementType::f64, {4, 2}, {9, 9, 9, 9, 10, 20, 30, 40}};
  kernels.run(make_call(OpKind::add_positions, {x.operand(), table.operand()}, {x.operand()}));
  REQUIRE(x.values() == std::vector<double>{11, 22, 33, 44});
  TestTensor const gradient = TestTensor::zeros(ElementType::f64, {4, 2});
  kernels.run(make_call(OpKind::positions_gradient, {x.operand()}, {gradient.operand()}));
  REQUIRE(gradient.values() == std::vector<double>{0, 0, 0, 0, 11, 22, 33, 44});
  // Position 2 turns (1, 0) by 2 radians.
  TestTensor const q{ElementType::f64, {1, 1, 1, 2}, {1, 0}};
  CpuKernels third{KernelNeeds{.sequence = {.rank = 2, .ranks = 3}, .types = {ElementType::f64}},
                   {}};
  TestTensor const k{ElementType::f64, {1, 1, 1, 2}, {1, 0}};
  KernelCall rotary =
      make_call(OpKind::rotary, {q.operand(), k.operand()}, {q.operand(), k.operand()});
  rotary.attributes = RotaryAttributes{10000};
  third.run(rotary);
  REQUIRE(q[0] == Approx(std::cos(2.0)));
  REQUIRE(q[1] == Approx(std::sin(2.0)));
}

constexpr std::int64_t v = 37;
constexpr double loss_gradient = 0.125;

/// Labels over the whole vocabulary, its last word included.
TestTensor labels() {
  TestTensor ids{ElementType::i64, {s, b}};
  for (std::int64_t i = 0; i < s * b; ++i) ids.set(i, static_cast<double>(36 - i * 36 / 19));
  return ids;
}

struct Loss {
  std::vector<double> loss;      ///< a token
  std::vector<double> gradient;  ///< [s b, v], of the sum of losses times loss_gradient
};

/// -log softmax(logits)[label], and its gradient, by definition.
Loss reference(std::vector<double> const& logits) {
  Loss result;
  TestTensor const ids = labels();
  for (std::int64_t row = 0; row < s * b; ++row) {
    double const* const x = logits.data() + row * v;
    double sum = 0;
    for (std::int64_t i = 0; i < v; ++i) sum += std::exp(x[i]);
    result.loss.push_back(std::log(sum) - x[static_cast<std::int64_t>(ids[row])]);
    for (std::int64_t i = 0; i < v; ++i) {
      double const hit = static_cast<double>(i) == ids[row] ? 1 : 0;
      result.gradient.push_back((std::exp(x[i]) / sum - hit) * loss_gradient);
    }
  }
  return result;
}

/// Runs the loss over t ranks, with the reductions between its kernels done here; NaN logits in the
/// padding. `result.gradient` has the columns of all ranks, without padding.
Loss compute(std::vector<double> const& logits, ElementType type, int t) {
  ModelConfig const model = small_model(precision_of(type));
  ElementType const wide = accumulation_type(model.precision);
  std::int64_t const words = share(model, t, 0, false).shape.vocabulary();
  Shape const row_shape{s, b};
  std::vector<TestTensor> x, maximum, sum, predicted;
  TestTensor const ids = labels();
  for (int rank = 0; rank < t; ++rank) {
    TestTensor narrow{type, {s, b, words}};
    for (std::int64_t i = 0; i < narrow.size(); ++i) {
      std::int64_t const word = rank * words + i % words;
      narrow.set(i, word < v ? logits[static_cast<std::size_t>(i / words * v + word)]
                             : std::numeric_limits<double>::quiet_NaN());
    }
    RankShare const on = share(model, t, rank, false);
    x.emplace_back(wide, narrow.shape());
    if (type == wide) {
      x.back() = narrow;
    } else {
      run(on, OpKind::widen_logits, {narrow.operand()}, {x.back().operand()});
    }
    maximum.emplace_back(wide, row_shape);
    run(on, OpKind::logits_maximum, {x.back().operand()}, {maximum.back().operand()});
  }
  for (std::int64_t row = 0; row < s * b; ++row) {
    double largest = maximum[0][row];
    for (TestTensor const& other : maximum) largest = std::max(largest, other[row]);
    for (TestTensor& all : maximum) all.set(row, largest);
  }
  for (int rank = 0; rank < t; ++rank) {
    auto const i = static_cast<std::size_t>(rank);
    sum.emplace_back(wide, row_shape);
    predicted.emplace_back(wide, row_shape);
    run(share(model, t, rank, false), OpKind::exponentials,
        {x[i].operand(), maximum[i].operand(), ids.operand()},
        {x[i].operand(), sum[i].operand(), predicted[i].operand()});
  }
  for (std::int64_t row = 0; row < s * b; ++row) {
    for (auto* const parts : {&sum, &predicted}) {
      double total = 0;
      for (TestTensor const& part : *parts) total += part[row];
      for (TestTensor& part : *parts) part.set(row, total);
    }
  }
  Loss result{.loss = {}, .gradient = std::vector<double>(static_cast<std::size_t>(s * b * v))};
  for (int rank = 0; rank < t; ++rank) {
    auto const i = static_cast<std::size_t>(rank);
    RankShare const on = share(model, t, rank, false);
    TestTensor const loss{wide, row_shape};
    run(on, OpKind::cross_entropy,
        {x[i].operand(), sum[i].operand(), predicted[i].operand(), ids.operand()},
        {x[i].operand(), loss.operand()});
    if (rank == 0) result.loss = loss.values();
    REQUIRE(loss.values() == result.loss);
    KernelCall call = make_call(OpKind::cross_entropy_backward, {x[i].operand(), ids.operand()},
                                {x[i].operand()});
    call.loss_gradient = loss_gradient;
    run(on, call);
    TestTensor gradient{type, x[i].shape()};
    if (type == wide) {
      gradient = x[i];
    } else {
      run(on, OpKind::narrow_logits, {x[i].operand()}, {gradient.operand()});
    }
    for (std::int64_t at = 0; at < gradient.size(); ++at) {
      std::int64_t const word = rank * words + at % words;
      if (word < v) {
        result.gradient[static_cast<std::size_t>(at / words * v + word)] = gradient[at];
      } else {
        REQUIRE(gradient[at] == 0);
      }
    }
  }
  return result;
}

/// Logits of the type, as doubles.
std::vector<double> some_logits(ElementType type, double scale) {
  TestTensor x = TestTensor::random(type, {s, b, v}, 1);
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, scale * x[i]);
  return x.values();
}

TEST_CASE("loss and gradient are cross entropy by definition, for every t, without the padding",
          "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  // 37 words of 40, 2 x 20, 4 x 12 (the last rank has one word), 8 x 8 (three ranks have none).
  int const t = GENERATE(1, 2, 4, 8);
  std::vector<double> const logits = some_logits(type, 5);
  Loss const got = compute(logits, type, t);
  Loss const wanted = reference(logits);
  ElementType const wide = accumulation_type(precision_of(type));
  require_close(TestTensor{ElementType::f64, {s, b}, got.loss}, wanted.loss, tolerance(wide));
  require_close(TestTensor{ElementType::f64, {s, b, v}, got.gradient}, wanted.gradient,
                tolerance(type));
}

TEST_CASE("the loss of large logits does not overflow", "[kernels]") {
  Loss const got = compute(some_logits(ElementType::f32, 1e4), ElementType::f32, 2);
  for (double const loss : got.loss) REQUIRE(std::isfinite(loss));
}

TEST_CASE("the gradient of the loss is a finite difference of it", "[kernels]") {
  std::vector<double> const logits = some_logits(ElementType::f64, 2);
  TestTensor const x{ElementType::f64, {s, b, v}, logits};
  require_gradient(
      x,
      [](TestTensor const& at) {
        double total = 0;
        for (double const loss : compute(at.values(), ElementType::f64, 1).loss) total += loss;
        return total * loss_gradient;
      },
      compute(logits, ElementType::f64, 2).gradient);
}

}  // namespace

}  // namespace stagecraft::test::vocabulary_test
