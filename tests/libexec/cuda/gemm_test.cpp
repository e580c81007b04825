#include <catch2/catch.hpp>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test::gemm_test {
namespace {

RankShare rank_of(ElementType type) { return whole(small_model(precision_of(type))); }
ElementType wide_of(ElementType type) {
  return type == ElementType::f64 ? ElementType::f64 : ElementType::f32;
}

TEST_CASE("products of matrices by cuBLASLt are those of a CPU, whatever is transposed", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  bool const transpose_a = GENERATE(false, true);
  bool const transpose_b = GENERATE(false, true);
  GemmShape const g{.batch = 1,
                    .m = 40,
                    .n = 24,
                    .k = 56,
                    .transpose_a = transpose_a,
                    .transpose_b = transpose_b};
  require_agreement(
      rank_of(type),
      {.kind = OpKind::gemm,
       .tensors = {TestTensor::random(type, transpose_a ? Shape{g.k, g.m} : Shape{8, 5, g.k}, 1),
                   TestTensor::random(type, transpose_b ? Shape{g.n, g.k} : Shape{g.k, g.n}, 2),
                   TestTensor{type, {8, 5, g.n}}},
       .reads = {{0}, {1}},
       .writes = {{2}},
       .gemm = g});
}

TEST_CASE("weight gradients by cuBLASLt accumulate into f32", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  GemmShape const g{.batch = 1, .m = 32, .n = 24, .k = 80, .transpose_a = true, .accumulate = true};
  require_agreement(rank_of(type), {.kind = OpKind::gemm,
                                    .tensors = {TestTensor::random(type, {40, 2, g.m}, 1),
                                                TestTensor::random(type, {40, 2, g.n}, 2),
                                                TestTensor::random(wide_of(type), {g.m, g.n}, 3)},
                                    .reads = {{0}, {1}},
                                    .writes = {{2}},
                                    .gemm = g});
}

TEST_CASE("cuBLASLt reads and writes heads where they lie in a token", "[cuda]") {
  // scores = q k^T and context = scores v of views of [q | k | v]. Few sequences of many heads, and
  // many of few: launches go along either axis.
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const [b, heads] = GENERATE(std::pair{1, 3}, std::pair{2, 3}, std::pair{4, 2});
  std::int64_t const s = 16;
  std::int64_t const d = 8;
  std::int64_t const width = 3 * heads * d;
  Shape const by_head{b, heads, s, d};
  Shape const strides{width, d, b * width, 1};
  auto const part = [&](std::int64_t which) {
    return Use{.tensor = 0, .shape = by_head, .strides = strides, .offset = which * heads * d};
  };
  TestTensor const qkv = TestTensor::random(type, {s, b, width}, 1);
  require_agreement(rank_of(type),
                    {.kind = OpKind::gemm,
                     .tensors = {qkv, TestTensor{type, {b, heads, s, s}}},
                     .reads = {part(0), part(1)},
                     .writes = {{1}},
                     .gemm = {.batch = b * heads, .m = s, .n = s, .k = d, .transpose_b = true}});
  Use const out{.tensor = 2, .shape = by_head, .strides = {heads * d, d, b * heads * d, 1}};
  require_agreement(rank_of(type), {.kind = OpKind::gemm,
                                    .tensors = {qkv, TestTensor::random(type, {b, heads, s, s}, 2),
                                                TestTensor{type, {s, b, heads, d}}},
                                    .reads = {{1}, part(2)},
                                    .writes = {out},
                                    .gemm = {.batch = b * heads, .m = s, .n = d, .k = s}});
}

TEST_CASE("a product is computed once more with the same bits, and measured algorithms agree",
          "[cuda]") {
  auto const type = GENERATE(ElementType::f32, ElementType::bf16);
  bool const measures = GENERATE(false, true);
  GemmShape const g{
      .batch = 1, .m = 32, .n = 64, .k = 256, .transpose_b = true, .accumulate = true};
  RankShare const rank = rank_of(type);
  auto const choices = measures ? make_product_choices() : nullptr;
  Device device{rank, choices};
  DeviceCase const what{
      .kind = OpKind::gemm,
      .tensors = {TestTensor::random(type, {g.m, g.k}, 1), TestTensor::random(type, {g.n, g.k}, 2),
                  TestTensor::random(ElementType::f32, {g.m, g.n}, 3)},
      .reads = {{0}, {1}},
      .writes = {{2}},
      .gemm = g};
  TestTensor const first = device.run(what)[2];
  REQUIRE(device.run(what)[2].same_bits(first));
  REQUIRE(relative_error(first, on_cpu(rank, what)[2]) <= device_tolerance(type));
}

TEST_CASE(
    "a product adds its bias where that is measured to be faster, as a kernel behind it would",
    "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  GemmShape const g{.batch = 1, .m = 40, .n = 64, .k = 56, .transpose_b = true};
  RankShare const rank = rank_of(type);
  DeviceCase what{
      .kind = OpKind::gemm,
      .tensors = {TestTensor::random(type, {8, 5, g.k}, 1), TestTensor::random(type, {g.n, g.k}, 2),
                  TestTensor::random(type, {g.n}, 3), TestTensor{type, {8, 5, g.n}}},
      .reads = {{0}, {1}},
      .writes = {{3}},
      .gemm = g};
  DeviceCase const addition{.kind = OpKind::bias_add,
                            .tensors = {on_cpu(rank, what)[3], what.tensors[2]},
                            .reads = {{0}, {1}},
                            .writes = {{0}}};
  TestTensor const wanted = on_cpu(rank, addition)[0];
  what.reads.push_back({2});
  Device first_choices{rank};
  REQUIRE_FALSE(first_choices.adds_bias(what));
  auto const choices = make_product_choices();
  Device device{rank, choices};
  bool const adds_bias = device.adds_bias(what);
  REQUIRE(device.adds_bias(what) == adds_bias);
  // What was found out holds for all that share the choices.
  REQUIRE(Device{rank, choices}.adds_bias(what) == adds_bias);
  if (!adds_bias) return;  // either way may be the faster
  TestTensor const got = device.run(what)[3];
  REQUIRE(relative_error(got, wanted) <= device_tolerance(type));
  REQUIRE(device.run(what)[3].same_bits(got));
  // Another bias of the same shape.
  what.tensors[2] = TestTensor::zeros(type, {g.n});
  REQUIRE(relative_error(device.run(what)[3], addition.tensors[0]) <= device_tolerance(type));
}

TEST_CASE("a bias that does not fit its product is refused on a device", "[cuda]") {
  ElementType const type = ElementType::f32;
  DeviceCase what{
      .kind = OpKind::gemm,
      .tensors = {TestTensor::random(type, {4, 5}, 1), TestTensor::random(type, {5, 3}, 2),
                  TestTensor::random(type, {4}, 3), TestTensor{type, {4, 3}}},
      .reads = {{0}, {1}, {2}},
      .writes = {{3}},
      .gemm = {.batch = 1, .m = 4, .n = 3, .k = 5}};
  REQUIRE_THROWS_WITH(on_device(rank_of(type), what), Catch::StartsWith("gemm: "));
  what.tensors[2] = TestTensor::random(type, {3}, 3);
  what.gemm.accumulate = true;
  REQUIRE_THROWS_WITH(on_device(rank_of(type), what),
                      "gemm: only a single product that does not accumulate can add a bias");
}

TEST_CASE("fp32 products keep fp32's digits", "[cuda]") {
  // In TF32 (10 bits of mantissa) 1 + 2^-12 is 1.
  double const x = 1 + 1.0 / 4096;
  ElementType const type = ElementType::f32;
  std::int64_t const n = 32;
  auto const all = [&](double value) {
    return TestTensor{type, {n, n}, std::vector<double>(static_cast<std::size_t>(n * n), value)};
  };
  DeviceCase const what{.kind = OpKind::gemm,
                        .tensors = {all(x), all(1), TestTensor{type, {n, n}}},
                        .reads = {{0}, {1}},
                        .writes = {{2}},
                        .gemm = {.batch = 1, .m = n, .n = n, .k = n}};
  REQUIRE(on_device(rank_of(type), what)[2][5] == Approx(32 * x).epsilon(1e-7));
}

TEST_CASE("operands that do not fit a product are refused on a device by name", "[cuda]") {
  ElementType const type = ElementType::f64;
  DeviceCase what{.kind = OpKind::gemm,
                  .tensors = {TestTensor::random(type, {4, 5}, 1),
                              TestTensor::random(type, {6, 3}, 2), TestTensor{type, {4, 3}}},
                  .reads = {{0}, {1}},
                  .writes = {{2}},
                  .gemm = {.batch = 1, .m = 4, .n = 3, .k = 5}};
  REQUIRE_THROWS_WITH(on_device(rank_of(type), what), Catch::StartsWith("gemm: "));
  what.tensors[1] = TestTensor::random(ElementType::f32, {5, 3}, 2);
  REQUIRE_THROWS_WITH(on_device(rank_of(type), what), "gemm: A and B differ in type");
}

TEST_CASE("the workspace of a device's kernels is what the device asks for", "[cuda]") {
  // 4 MiB of our own, and cuBLASLt's 4 MiB, or 32 MiB from compute capability 9.0 on.
  Device device{rank_of(ElementType::f32)};
  std::int64_t const mebibytes = device.kernels().workspace().count() >> 20;
  REQUIRE((mebibytes == 8 || mebibytes == 36));
}

}  // namespace
}  // namespace stagecraft::test::gemm_test
