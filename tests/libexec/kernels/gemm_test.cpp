#include <catch2/catch.hpp>
#include <stdexcept>

#include "libexec/kernels/cpu/openblas.hpp"
#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::gemm_test {
namespace {

/// Where element (i, j) of matrix `index` lies in an operand.
std::int64_t place(Operand const& x, std::int64_t index, std::int64_t i, std::int64_t j) {
  int const rank = x.shape.rank();
  if (rank < 4) return i * x.shape[rank - 1] + j;
  return index / x.shape[1] * x.stride(0) + index % x.shape[1] * x.stride(1) + i * x.stride(2) + j;
}

/// C (+)= A B by the definition, in double; `offsets`: where the views begin.
std::vector<double> product(GemmShape const& g,
                            TestTensor const& a,
                            Operand const& view_a,
                            std::int64_t offset_a,
                            TestTensor const& b,
                            Operand const& view_b,
                            std::int64_t offset_b,
                            TestTensor const& c,
                            Operand const& view_c) {
  std::vector<double> result = c.values();
  for (std::int64_t index = 0; index < g.batch; ++index) {
    for (std::int64_t i = 0; i < g.m; ++i) {
      for (std::int64_t j = 0; j < g.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < g.k; ++k) {
          sum += a[offset_a +
                   (g.transpose_a ? place(view_a, index, k, i) : place(view_a, index, i, k))] *
                 b[offset_b +
                   (g.transpose_b ? place(view_b, index, j, k) : place(view_b, index, k, j))];
        }
        double& to = result[static_cast<std::size_t>(place(view_c, index, i, j))];
        to = g.accumulate ? to + sum : sum;
      }
    }
  }
  return result;
}

KernelCall gemm_call(GemmShape const& shape, Operand const& a, Operand const& b, Operand const& c) {
  KernelCall call = make_call(OpKind::gemm, {a, b}, {c});
  call.attributes = GemmAttributes{shape, c.type};
  return call;
}

TEST_CASE("products of matrices agree with the definition, whatever is transposed", "[kernels]") {
  auto const kind = GENERATE(GemmKind::openblas, GemmKind::plain);
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  bool const transpose_a = GENERATE(false, true);
  bool const transpose_b = GENERATE(false, true);
  int const threads = GENERATE(1, 2);
  GemmShape const g{.batch = 1,
                    .m = 70,
                    .n = 67,
                    .k = 130,
                    .transpose_a = transpose_a,
                    .transpose_b = transpose_b};
  TestTensor const a =
      TestTensor::random(type, transpose_a ? Shape{g.k, g.m} : Shape{7, 10, g.k}, 1);
  TestTensor const b = TestTensor::random(type, transpose_b ? Shape{g.n, g.k} : Shape{g.k, g.n}, 2);
  TestTensor const c{type, {7, 10, g.n}};
  run(whole(small_model(precision_of(type))), gemm_call(g, a.operand(), b.operand(), c.operand()),
      {.gemm = kind, .threads = threads});
  require_close(c, product(g, a, a.operand(), 0, b, b.operand(), 0,
                           TestTensor::zeros(ElementType::f64, c.shape()), c.operand()));
}

TEST_CASE("weight gradients of 16-bit operands accumulate into f32 without rounding between",
          "[kernels]") {
  auto const kind = GENERATE(GemmKind::openblas, GemmKind::plain);
  auto const type = GENERATE(ElementType::bf16, ElementType::f16);
  GemmShape const g{.batch = 1, .m = 33, .n = 20, .k = 90, .transpose_a = true, .accumulate = true};
  TestTensor const dy = TestTensor::random(type, {45, 2, g.m}, 1);
  TestTensor const x = TestTensor::random(type, {45, 2, g.n}, 2);
  TestTensor const before = TestTensor::random(ElementType::f32, {g.m, g.n}, 3);
  TestTensor const gradient{ElementType::f32, {g.m, g.n}, before.values()};
  run(whole(small_model(precision_of(type))),
      gemm_call(g, dy.operand(), x.operand(), gradient.operand()), {.gemm = kind});
  require_close(gradient,
                product(g, dy, dy.operand(), 0, x, x.operand(), 0, before, gradient.operand()));
}

TEST_CASE("16-bit products larger than the workspace's blocks are summed in float over all of k",
          "[kernels]") {
  auto const type = GENERATE(ElementType::bf16, ElementType::f16);
  bool const transpose = GENERATE(false, true);
  // One more than a block in m, n and k.
  GemmShape const g{.batch = 1,
                    .m = 513,
                    .n = 1025,
                    .k = 513,
                    .transpose_a = transpose,
                    .transpose_b = transpose};
  TestTensor const a = TestTensor::random(type, transpose ? Shape{g.k, g.m} : Shape{g.m, g.k}, 1);
  TestTensor const b = TestTensor::random(type, transpose ? Shape{g.n, g.k} : Shape{g.k, g.n}, 2);
  TestTensor const blas{type, {g.m, g.n}};
  TestTensor const wide_a{ElementType::f64, a.shape(), a.values()};
  TestTensor const wide_b{ElementType::f64, b.shape(), b.values()};
  TestTensor const exact{ElementType::f64, {g.m, g.n}};
  run(whole(small_model(precision_of(type))),
      gemm_call(g, a.operand(), b.operand(), blas.operand()));
  run(whole(small_model()), gemm_call(g, wide_a.operand(), wide_b.operand(), exact.operand()),
      {.gemm = GemmKind::plain});
  require_close(blas, exact.values());
}

TEST_CASE("a GEMM reads and writes heads where they lie in a token", "[kernels]") {
  // scores = q k^T of views of [q | k | v], b 2, heads 3 (g 3), s 5, d 4.
  auto const kind = GENERATE(GemmKind::openblas, GemmKind::plain);
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  int const threads = GENERATE(1, 2);
  std::int64_t const s = 5;
  std::int64_t const b = 2;
  std::int64_t const heads = 3;
  std::int64_t const d = 4;
  std::int64_t const width = 3 * heads * d;
  TestTensor const qkv = TestTensor::random(type, {s, b, width}, 1);
  Shape const by_head{b, heads, s, d};
  Shape const strides{width, d, b * width, 1};
  Operand const q = qkv.view(by_head, strides, 0);
  Operand const k = qkv.view(by_head, strides, heads * d);
  TestTensor const scores{type, {b, heads, s, s}};
  RankShare const rank = whole(small_model(precision_of(type)));
  GemmShape const g{.batch = b * heads, .m = s, .n = s, .k = d, .transpose_b = true};
  CpuKernelOptions const options{.gemm = kind, .threads = threads};
  run(rank, gemm_call(g, q, k, scores.operand()), options);
  require_close(scores,
                product(g, qkv, q, 0, qkv, k, heads * d,
                        TestTensor::zeros(ElementType::f64, scores.shape()), scores.operand()));
  // And into a view: C of [s, b, heads, d] by head.
  TestTensor const context = TestTensor::zeros(type, {s, b, heads, d});
  Operand const out = context.view(by_head, {heads * d, d, b * heads * d, 1}, 0);
  GemmShape const second{.batch = b * heads, .m = s, .n = d, .k = s};
  Operand const v = qkv.view(by_head, strides, 2 * heads * d);
  run(rank, gemm_call(second, scores.operand(), v, out), options);
  require_close(context,
                product(second, scores, scores.operand(), 0, qkv, v, 2 * heads * d,
                        TestTensor::zeros(ElementType::f64, context.shape()), out),
                2 * tolerance(type));
}

TEST_CASE("the plain GEMM gives the same bits however its rows and columns are split",
          "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  RankShare const rank = whole(small_model(precision_of(type)));
  GemmShape const all{.batch = 1, .m = 37, .n = 75, .k = 300, .transpose_b = true};
  TestTensor const a = TestTensor::random(type, {all.m, all.k}, 1);
  TestTensor const b = TestTensor::random(type, {all.n, all.k}, 2);
  TestTensor const c{type, {all.m, all.n}};
  run(rank, gemm_call(all, a.operand(), b.operand(), c.operand()), {.gemm = GemmKind::plain});
  // Rows 13 to 36 and columns 5 to 74 alone.
  GemmShape part = all;
  part.m = 24;
  part.n = 70;
  Operand const rows = a.view({part.m, all.k}, {}, 13 * all.k);
  Operand const columns = b.view({part.n, all.k}, {}, 5 * all.k);
  TestTensor const corner{type, {part.m, part.n}};
  run(rank, gemm_call(part, rows, columns, corner.operand()), {.gemm = GemmKind::plain});
  for (std::int64_t i = 0; i < part.m; ++i) {
    for (std::int64_t j = 0; j < part.n; ++j) {
      REQUIRE(corner[i * part.n + j] == c[(13 + i) * all.n + 5 + j]);
    }
  }
}

TEST_CASE("operands that do not fit a product are refused by name", "[kernels]") {
  TestTensor const a = TestTensor::random(ElementType::f64, {4, 5}, 1);
  TestTensor const b = TestTensor::random(ElementType::f64, {6, 3}, 2);
  TestTensor const c{ElementType::f64, {4, 3}};
  GemmShape const g{.batch = 1, .m = 4, .n = 3, .k = 5};
  REQUIRE_THROWS_WITH(
      run(whole(small_model()), gemm_call(g, a.operand(), b.operand(), c.operand())),
      Catch::StartsWith("gemm: "));
  TestTensor const single = TestTensor::random(ElementType::f32, {5, 3}, 2);
  REQUIRE_THROWS_AS(
      run(whole(small_model()), gemm_call(g, a.operand(), single.operand(), c.operand())),
      std::logic_error);
}

TEST_CASE("the OpenBLAS that is linked is a threaded build", "[kernels]") {
  REQUIRE_NOTHROW(require_threaded_openblas());
}

}  // namespace
}  // namespace stagecraft::test::gemm_test
