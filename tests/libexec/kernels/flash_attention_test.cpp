#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <optional>

#include "libexec/kernels/dropout.hpp"
#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::flash_attention_test {
namespace {

/// Sizes of an attention core; d of small_model() is 6.
struct Core {
  std::int64_t s = 0;
  std::int64_t b = 2;
  std::int64_t heads = 4;
  std::int64_t groups = 4;
  std::int64_t d = 6;
  std::int64_t value_d = 0;  ///< 0: d
  std::int64_t window = 0;
  double softcap = 0;

  std::int64_t width() const { return value_d == 0 ? d : value_d; }
  Shape q() const { return {s, b, heads, d}; }
  Shape k() const { return {s, b, groups, d}; }
  Shape v() const { return {s, b, groups, width()}; }
  Shape context() const { return {s, b, heads * width()}; }
  RankShare rank(ElementType type, double dropout) const {
    ModelConfig model = small_model(precision_of(type));
    model.sequence = s;
    model.heads = heads;
    model.kv_heads = groups;
    model.head_dim = d;
    model.dropout = dropout;
    model.attention = Attention::flash;
    model.window = window;
    model.attention_softcap = softcap;
    return whole(model, b);
  }
};

struct Inputs {
  TestTensor q, k, v;
  std::optional<TestTensor> sinks{};
};

Inputs inputs(Core const& core, ElementType type) {
  return {TestTensor::random(type, core.q(), 1), TestTensor::random(type, core.k(), 2),
          TestTensor::random(type, core.v(), 3)};
}

struct Outputs {
  TestTensor context, log_sum_exp;
};

Outputs flash(Core const& core, Inputs const& in, double dropout, int threads = 1) {
  ElementType const type = in.q.type();
  Outputs out{TestTensor{type, core.context()},
              TestTensor{accumulation_type(precision_of(type)), {core.b, core.heads, core.s}}};
  std::vector<Operand> reads{in.q.operand(), in.k.operand(), in.v.operand()};
  if (in.sinks) reads.push_back(in.sinks->operand());
  KernelCall call =
      make_call(OpKind::flash_attention, reads, {out.context.operand(), out.log_sum_exp.operand()});
  call.draw = some_draw(DropoutSite::attention);
  run(core.rank(type, dropout), call, {.threads = threads});
  return out;
}

/// Attention by definition: dropout(softmax(q k^T / sqrt(d), causal)) v, and log-sum-exp; scores
/// are capped by c tanh(score / c), and those of keys before a window are left out.
struct Reference {
  std::vector<double> context, log_sum_exp;

  Reference(Core const& c, Inputs const& in, double dropout) {
    RandomDraw const draw = some_draw(DropoutSite::attention);
    context.resize(static_cast<std::size_t>(c.context().elements()));
    for (std::int64_t sequence = 0; sequence < c.b; ++sequence) {
      for (std::int64_t head = 0; head < c.heads; ++head) {
        std::int64_t const group = head / (c.heads / c.groups);
        for (std::int64_t row = 0; row < c.s; ++row) {
          std::vector<double> weights;
          double sum = in.sinks ? std::exp((*in.sinks)[head]) : 0;
          for (std::int64_t column = 0; column <= row; ++column) {
            double score = 0;
            for (std::int64_t e = 0; e < c.d; ++e) {
              score += in.q[((row * c.b + sequence) * c.heads + head) * c.d + e] *
                       in.k[((column * c.b + sequence) * c.groups + group) * c.d + e];
            }
            score /= std::sqrt(static_cast<double>(c.d));
            if (c.softcap > 0) score = c.softcap * std::tanh(score / c.softcap);
            bool const is_seen = c.window == 0 || row - column < c.window;
            weights.push_back(is_seen ? std::exp(score) : 0);
            sum += weights.back();
          }
          log_sum_exp.push_back(std::log(sum));
          for (std::int64_t column = 0; column <= row; ++column) {
            auto const i = static_cast<std::uint64_t>(
                ((sequence * c.heads + head) * c.s + row) * c.s + column);
            bool const kept = draw_block(draw, i / 4).word[i % 4] >=
                              static_cast<std::uint32_t>(dropout * 4294967296.0);
            double const weight =
                kept ? weights[static_cast<std::size_t>(column)] / sum / (1 - dropout) : 0;
            for (std::int64_t e = 0; e < c.width(); ++e) {
              auto const to = ((row * c.b + sequence) * c.heads + head) * c.width() + e;
              context[static_cast<std::size_t>(to)] +=
                  weight * in.v[((column * c.b + sequence) * c.groups + group) * c.width() + e];
            }
          }
        }
      }
    }
  }
};

TEST_CASE("flash attention is attention by definition, whatever s and its tiles", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  double const dropout = GENERATE(0.0, 0.25);
  // Below, at, above and far above a tile of 64 rows.
  std::int64_t const s = GENERATE(1, 10, 64, 65, 150);
  std::int64_t const groups = GENERATE(4, 2, 1);
  Core const core{.s = s, .groups = groups};
  Inputs const in = inputs(core, type);
  Outputs const out = flash(core, in, dropout);
  Reference const wanted{core, in, dropout};
  require_close(out.context, wanted.context);
  require_close(out.log_sum_exp, wanted.log_sum_exp);
}

TEST_CASE("flash attention takes heads of any size, with smaller tiles for large ones",
          "[kernels]") {
  auto const type = GENERATE(ElementType::f64, ElementType::f32);
  std::int64_t const d = GENERATE(16, 64, 80, 300, 1000);
  Core const core{.s = 70, .b = 1, .heads = 2, .groups = 1, .d = d};
  Inputs const in = inputs(core, type);
  require_close(flash(core, in, 0.25).context, Reference{core, in, 0.25}.context);
}

TEST_CASE("flash attention in a window, with a cap, with values of another size", "[kernels]") {
  auto const type = GENERATE(ElementType::f64, ElementType::f32, ElementType::bf16);
  double const dropout = GENERATE(0.0, 0.25);
  // Windows within a tile of 64 rows, of a tile, over several, and longer than the sequence.
  std::int64_t const window = GENERATE(0, 1, 10, 64, 90, 200);
  Core const core{.s = 150,
                  .b = 1,
                  .heads = 2,
                  .groups = 1,
                  .value_d = GENERATE(3, 20),
                  .window = window,
                  .softcap = GENERATE(0.0, 0.3)};
  Inputs const in = inputs(core, type);
  Outputs const out = flash(core, in, dropout);
  Reference const wanted{core, in, dropout};
  require_close(out.context, wanted.context);
  require_close(out.log_sum_exp, wanted.log_sum_exp);
}

TEST_CASE("a sink is a score that takes its share of the sum, with no value", "[kernels]") {
  auto const type = GENERATE(ElementType::f64, ElementType::f32, ElementType::bf16);
  Core const core{.s = 150, .groups = 2, .window = GENERATE(0, 3, 90)};
  Inputs in = inputs(core, type);
  in.sinks = TestTensor::random(type, {core.heads}, 5);
  in.sinks->set(0, 30);  // far above all scores
  double const dropout = GENERATE(0.0, 0.25);
  Outputs const out = flash(core, in, dropout);
  Reference const wanted{core, in, dropout};
  require_close(out.context, wanted.context);
  require_close(out.log_sum_exp, wanted.log_sum_exp);
}

TEST_CASE("the gradient of sinks is a finite difference of attention", "[kernels]") {
  double const dropout = GENERATE(0.0, 0.25);
  Core const core{.s = 67, .groups = 2, .window = GENERATE(0, 5)};
  Inputs in = inputs(core, ElementType::f64);
  in.sinks = TestTensor::random(ElementType::f64, {core.heads}, 5);
  TestTensor const dy = TestTensor::random(ElementType::f64, core.context(), 4);
  Outputs const saved = flash(core, in, dropout);
  TestTensor gradient{ElementType::f64, {core.heads}};
  for (std::int64_t i = 0; i < core.heads; ++i) gradient.set(i, 2);  // it is added to
  run(core.rank(ElementType::f64, dropout),
      make_call(
          OpKind::sinks_gradient,
          {dy.operand(), saved.context.operand(), saved.log_sum_exp.operand(), in.sinks->operand()},
          {gradient.operand()}));
  for (std::int64_t i = 0; i < core.heads; ++i) gradient.set(i, gradient[i] - 2);
  require_gradient(
      *in.sinks,
      [&](TestTensor const& sinks) {
        return dot(flash(core, {in.q, in.k, in.v, sinks}, dropout).context, dy);
      },
      gradient.values());
}

TEST_CASE("flash attention does not overflow where scores are large", "[kernels]") {
  Core const core{.s = 70};
  Inputs in = inputs(core, ElementType::f32);
  for (std::int64_t i = 0; i < in.q.size(); ++i) in.q.set(i, 1e4 * in.q[i]);
  Outputs const out = flash(core, in, 0);
  for (std::int64_t i = 0; i < out.context.size(); ++i) REQUIRE(std::abs(out.context[i]) <= 1.001);
}

std::vector<TestTensor> flash_gradients(
    Core const& core, Inputs const& in, TestTensor const& dy, double dropout, int threads = 1) {
  ElementType const type = in.q.type();
  Outputs const saved = flash(core, in, dropout);
  std::vector<TestTensor> gradients{TestTensor{type, core.q()}, TestTensor{type, core.k()},
                                    TestTensor{type, core.v()}};
  KernelCall call =
      make_call(OpKind::flash_attention_backward,
                {dy.operand(), in.q.operand(), in.k.operand(), in.v.operand(),
                 saved.context.operand(), saved.log_sum_exp.operand()},
                {gradients[0].operand(), gradients[1].operand(), gradients[2].operand()});
  call.draw = some_draw(DropoutSite::attention);
  run(core.rank(type, dropout), call, {.threads = threads});
  return gradients;
}

TEST_CASE("gradients of flash attention are finite differences of it", "[kernels]") {
  double const dropout = GENERATE(0.0, 0.25);
  // One tile; and two, of which the second is short, with fewer elements for time's sake.
  Core const core =
      GENERATE(Core{.s = 9, .groups = 2}, Core{.s = 67, .b = 1, .heads = 2, .groups = 1, .d = 2},
               Core{.s = 67, .b = 1, .heads = 2, .groups = 1, .d = 2, .value_d = 3, .window = 5},
               Core{.s = 140, .b = 1, .heads = 1, .groups = 1, .d = 1, .window = 70},
               Core{.s = 9, .groups = 2, .window = 4, .softcap = 0.3});
  Inputs const in = inputs(core, ElementType::f64);
  TestTensor const dy = TestTensor::random(ElementType::f64, core.context(), 4);
  std::vector<TestTensor> const got = flash_gradients(core, in, dy, dropout);
  require_gradient(
      in.q,
      [&](TestTensor const& q) {
        return dot(flash(core, {q, in.k, in.v}, dropout).context, dy);
      },
      got[0].values());
  require_gradient(
      in.k,
      [&](TestTensor const& k) {
        return dot(flash(core, {in.q, k, in.v}, dropout).context, dy);
      },
      got[1].values());
  require_gradient(
      in.v,
      [&](TestTensor const& v) {
        return dot(flash(core, {in.q, in.k, v}, dropout).context, dy);
      },
      got[2].values());
}

TEST_CASE("gradients of flash attention in few bits are those in double, rounded", "[kernels]") {
  auto const type = GENERATE(ElementType::f32, ElementType::bf16, ElementType::f16);
  Core const core{.s = 130, .groups = 2};
  Inputs const in = inputs(core, type);
  TestTensor const dy = TestTensor::random(type, core.context(), 4);
  auto const wide = [](TestTensor const& x) {
    return TestTensor{ElementType::f64, x.shape(), x.values()};
  };
  std::vector<TestTensor> const got = flash_gradients(core, in, dy, 0.25);
  std::vector<TestTensor> const exact =
      flash_gradients(core, {wide(in.q), wide(in.k), wide(in.v)}, wide(dy), 0.25);
  // The context that was kept is rounded to the type, and enters sums of up to 130 terms.
  double const allowed = type == ElementType::f32 ? 2e-5 : 8 * tolerance(type);
  for (std::size_t i = 0; i < 3; ++i) require_close(got[i], exact[i].values(), allowed);
}

TEST_CASE("flash attention reads views of [q | k | v], and a tensor rank drops its own heads",
          "[kernels]") {
  auto const type = GENERATE(ElementType::f64, ElementType::bf16);
  Core const core{.s = 70, .groups = 2};
  Inputs const in = inputs(core, type);
  TestTensor const all = flash(core, in, 0.25).context;
  std::int64_t const d = core.d;
  for (int tensor_rank = 0; tensor_rank < 2; ++tensor_rank) {
    // This rank's [q of 2 heads | k of 1 | v of 1] in one buffer.
    std::int64_t const width = 4 * d;
    TestTensor qkv{type, {core.s, core.b, width}};
    for (std::int64_t token = 0; token < core.s * core.b; ++token) {
      for (std::int64_t e = 0; e < d; ++e) {
        std::int64_t const to = token * width + e;
        qkv.set(to, in.q[(token * 4 + 2 * tensor_rank) * d + e]);
        qkv.set(to + d, in.q[(token * 4 + 2 * tensor_rank + 1) * d + e]);
        qkv.set(to + 2 * d, in.k[(token * 2 + tensor_rank) * d + e]);
        qkv.set(to + 3 * d, in.v[(token * 2 + tensor_rank) * d + e]);
      }
    }
    Shape const strides{core.b * width, width, d, 1};
    Shape const one{core.s, core.b, 1, d};
    TestTensor const context{type, {core.s, core.b, 2 * d}};
    TestTensor const log_sums{accumulation_type(precision_of(type)), {core.b, 2, core.s}};
    KernelCall call = make_call(OpKind::flash_attention,
                                {qkv.view({core.s, core.b, 2, d}, strides, 0),
                                 qkv.view(one, strides, 2 * d), qkv.view(one, strides, 3 * d)},
                                {context.operand(), log_sums.operand()});
    call.draw = some_draw(DropoutSite::attention);
    RankShare rank = core.rank(type, 0.25);
    rank.shape.tensor = 2;
    rank.tensor_rank = tensor_rank;
    run(rank, call);
    for (std::int64_t i = 0; i < context.size(); ++i) {
      REQUIRE(context[i] == all[i / (2 * d) * 4 * d + 2 * tensor_rank * d + i % (2 * d)]);
    }
  }
}

TEST_CASE("flash attention gives the same bits with one thread and with three", "[kernels]") {
  auto const type = GENERATE(ElementType::f32, ElementType::f16);
  Core const core{.s = 150, .groups = 2};
  Inputs const in = inputs(core, type);
  TestTensor const dy = TestTensor::random(type, core.context(), 4);
  REQUIRE(flash(core, in, 0.25, 3).context.same_bits(flash(core, in, 0.25, 1).context));
  std::vector<TestTensor> const three = flash_gradients(core, in, dy, 0.25, 3);
  std::vector<TestTensor> const one = flash_gradients(core, in, dy, 0.25, 1);
  for (std::size_t i = 0; i < 3; ++i) REQUIRE(three[i].same_bits(one[i]));
}

}  // namespace
}  // namespace stagecraft::test::flash_attention_test
