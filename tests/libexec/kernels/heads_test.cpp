#include <catch2/catch.hpp>
#include <cmath>
#include <complex>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::heads_test {
namespace {

constexpr std::int64_t s = 10;
constexpr std::int64_t b = 2;
constexpr std::int64_t d = 6;

/// Where element e of a head lies in [s, b, heads, d] of the given strides.
std::int64_t place(Shape const& strides,
                   std::int64_t position,
                   std::int64_t sequence,
                   std::int64_t head,
                   std::int64_t e) {
  return position * strides[0] + sequence * strides[1] + head * strides[2] + e;
}

/// Strides of [s, b, heads, d] in [b, heads, s, d].
Shape by_token(std::int64_t heads) { return {d, heads * s * d, s * d, 1}; }

TEST_CASE("rotary positions multiply pairs as complex numbers by e^(i position frequency)",
          "[kernels]") {
  // Su et al. 2021, with pairs (i, i + d/2); q of 4 heads and k of 2 as views of [q | k | v].
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  ModelConfig model = small_model(precision_of(type));
  model.rotary_base = 100;
  std::int64_t const width = 8 * d;
  TestTensor const qkv = TestTensor::random(type, {s, b, width}, 1);
  Shape const strides{b * width, width, d, 1};
  TestTensor const q{type, {s, b, 4, d}};
  TestTensor const k{type, {s, b, 2, d}};
  run(whole(model), OpKind::rotary,
      {qkv.view(q.shape(), strides, 0), qkv.view(k.shape(), strides, 4 * d)},
      {q.operand(), k.operand()});
  auto const rotated = [&](std::int64_t heads, std::int64_t offset) {
    std::vector<double> wanted(static_cast<std::size_t>(s * b * heads * d));
    for (std::int64_t i = 0; i < s * b * heads; ++i) {
      std::int64_t const from =
          offset + place(strides, i / (b * heads), i / heads % b, i % heads, 0);
      for (std::int64_t pair = 0; pair < d / 2; ++pair) {
        double const angle = static_cast<double>(i / (b * heads)) *
                             std::pow(100.0, -2.0 * static_cast<double>(pair) / d);
        std::complex<double> const turned =
            std::complex<double>{qkv[from + pair], qkv[from + d / 2 + pair]} *
            std::polar(1.0, angle);
        wanted[static_cast<std::size_t>(i * d + pair)] = turned.real();
        wanted[static_cast<std::size_t>(i * d + d / 2 + pair)] = turned.imag();
      }
    }
    return wanted;
  };
  require_close(q, rotated(4, 0));
  require_close(k, rotated(2, 4 * d));
}

TEST_CASE("rotary backward turns back, in place on gradients by head", "[kernels]") {
  // The rotation is orthogonal, so its transpose is its inverse.
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  RankShare const rank = whole(small_model(precision_of(type)));
  TestTensor const before = TestTensor::random(type, {b, 4, s, d}, 1);
  Operand const view = before.view({s, b, 4, d}, by_token(4), 0);
  TestTensor const q{type, {b, 4, s, d}};
  TestTensor const k{type, {b, 4, s, d}};
  Operand const q_view = q.view({s, b, 4, d}, by_token(4), 0);
  Operand const k_view = k.view({s, b, 4, d}, by_token(4), 0);
  run(rank, OpKind::rotary, {view, view}, {q_view, k_view});
  REQUIRE_FALSE(q.same_bits(before));
  run(rank, OpKind::rotary_backward, {q_view, k_view}, {q_view, k_view});
  require_close(q, before.values(), 2 * tolerance(type));
  require_close(k, before.values(), 2 * tolerance(type));
}

TEST_CASE("query head j reads key and value head j / (heads / groups)", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  RankShare const rank = whole(small_model(precision_of(type)));
  std::int64_t const groups = 2;
  std::int64_t const heads = 6;
  std::int64_t const width = 2 * groups * d;
  TestTensor const kv = TestTensor::random(type, {s, b, width}, 1);
  Shape const strides{b * width, width, d, 1};
  TestTensor const k{type, {s, b, heads, d}};
  TestTensor const v{type, {s, b, heads, d}};
  run(rank, OpKind::repeat_heads,
      {kv.view({s, b, groups, d}, strides, 0), kv.view({s, b, groups, d}, strides, groups * d)},
      {k.operand(), v.operand()});
  for (std::int64_t i = 0; i < k.size(); ++i) {
    std::int64_t const from =
        place(strides, i / (b * heads * d), i / (heads * d) % b, i / d % heads / 3, i % d);
    REQUIRE(k[i] == kv[from]);
    REQUIRE(v[i] == kv[from + groups * d]);
  }
  // Backward: sums of three query heads each, read from gradients by head.
  TestTensor const dk = TestTensor::random(type, {b, heads, s, d}, 2);
  TestTensor const dv = TestTensor::random(type, {b, heads, s, d}, 3);
  TestTensor const dk_group{type, {s, b, groups, d}};
  TestTensor const dv_group{type, {s, b, groups, d}};
  run(rank, OpKind::repeat_heads_backward,
      {dk.view({s, b, heads, d}, by_token(heads), 0),
       dv.view({s, b, heads, d}, by_token(heads), 0)},
      {dk_group.operand(), dv_group.operand()});
  auto const sums = [&](TestTensor const& gradient) {
    std::vector<double> wanted;
    for (std::int64_t i = 0; i < dk_group.size(); ++i) {
      double sum = 0;
      for (std::int64_t r = 0; r < 3; ++r) {
        sum += gradient[place(by_token(heads), i / (b * groups * d), i / (groups * d) % b,
                              i / d % groups * 3 + r, i % d)];
      }
      wanted.push_back(sum);
    }
    return wanted;
  };
  require_close(dk_group, sums(dk));
  require_close(dv_group, sums(dv));
}

TEST_CASE("heads are merged into tokens, and gradients joined as [dq | dk | dv]", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  RankShare const rank = whole(small_model(precision_of(type)));
  TestTensor const context = TestTensor::random(type, {b, 4, s, d}, 1);
  TestTensor const merged{type, {s, b, 4 * d}};
  run(rank, OpKind::merge_heads, {context.view({s, b, 4, d}, by_token(4), 0)}, {merged.operand()});
  for (std::int64_t i = 0; i < merged.size(); ++i) {
    REQUIRE(merged[i] ==
            context[place(by_token(4), i / (b * 4 * d), i / (4 * d) % b, i / d % 4, i % d)]);
  }
  // dq by head, dk and dv of two groups by token.
  TestTensor const dk = TestTensor::random(type, {s, b, 2, d}, 2);
  TestTensor const dv = TestTensor::random(type, {s, b, 2, d}, 3);
  TestTensor const joined{type, {s, b, 8 * d}};
  run(rank, OpKind::concatenate,
      {context.view({s, b, 4, d}, by_token(4), 0), dk.operand(), dv.operand()}, {joined.operand()});
  for (std::int64_t token = 0; token < s * b; ++token) {
    for (std::int64_t i = 0; i < 8 * d; ++i) {
      double const wanted = i < 4 * d   ? merged[token * 4 * d + i]
                            : i < 6 * d ? dk[token * 2 * d + i - 4 * d]
                                        : dv[token * 2 * d + i - 6 * d];
      REQUIRE(joined[token * 8 * d + i] == wanted);
    }
  }
}

TEST_CASE("heads are scattered into parts that follow each other, and gathered again",
          "[kernels]") {
  // Two rows of two heads of two elements, behind one element of five, in two parts of a head.
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  RankShare const rank = whole(small_model(precision_of(type)));
  TestTensor const all{type, {2, 1, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}};
  TestTensor const parts{type, {4, 1, 1, 2}};
  run(rank, OpKind::scatter_heads, {all.view({2, 1, 2, 2}, {5, 5, 2, 1}, 1)}, {parts.operand()});
  REQUIRE(parts.values() == std::vector<double>{1, 2, 6, 7, 3, 4, 8, 9});
  TestTensor const gathered{type, {2, 1, 4}};
  run(rank, OpKind::gather_heads, {parts.operand()}, {gathered.operand()});
  REQUIRE(gathered.values() == std::vector<double>{1, 2, 3, 4, 6, 7, 8, 9});
  TestTensor const three{type, {6, 1, 1, 2}};
  REQUIRE_THROWS_WITH(run(rank, OpKind::gather_heads, {three.operand()}, {gathered.operand()}),
                      Catch::StartsWith("gather_heads: "));
}

TEST_CASE("heads that fall into no groups, or odd ones, are refused by name", "[kernels]") {
  RankShare const rank = whole(small_model());
  TestTensor const few = TestTensor::random(ElementType::f64, {s, b, 2, d}, 1);
  TestTensor const many{ElementType::f64, {s, b, 5, d}};
  REQUIRE_THROWS_WITH(run(rank, OpKind::repeat_heads, {few.operand(), few.operand()},
                          {many.operand(), many.operand()}),
                      Catch::StartsWith("repeat_heads: "));
  TestTensor const odd = TestTensor::random(ElementType::f64, {s, b, 2, 5}, 1);
  REQUIRE_THROWS_WITH(
      run(rank, OpKind::rotary, {odd.operand(), odd.operand()}, {odd.operand(), odd.operand()}),
      Catch::StartsWith("rotary: "));
}

}  // namespace
}  // namespace stagecraft::test::heads_test
