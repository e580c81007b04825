#include <catch2/catch.hpp>
#include <vector>

#include "tests/libexec/kernels/kernel_test.hpp"

// Kernels of sharded units.

namespace stagecraft::test::units_test {
namespace {

TEST_CASE("tensors are packed one behind the other, in the type of the whole", "[units]") {
  RankShare const rank = whole(small_model(Precision::bf16));
  // 1 + 2^-9 is between two numbers of bf16, of which it takes the even one.
  TestTensor const a{ElementType::f32, {2, 1}, {1 + 0x1p-9, -3}};
  TestTensor const b{ElementType::bf16, {3}, {0.5, 2, -0.25}};
  TestTensor const packed = TestTensor::zeros(ElementType::bf16, {6});
  run(rank, OpKind::pack_unit, {a.operand(), b.operand()}, {packed.operand()});
  REQUIRE(packed.values() == std::vector<double>{1, -3, 0.5, 2, -0.25, 0});
  TestTensor const wide{ElementType::f32, {6}};
  run(rank, OpKind::unpack_unit, {packed.operand()}, {wide.operand()});
  REQUIRE(wide.values() == packed.values());
}

TEST_CASE("gradients in 16 bits are sums in 32, rounded once", "[units]") {
  RankShare const rank = whole(small_model(Precision::bf16));
  // From 256 on, bf16 has no odd numbers: adding one at a time would stay there.
  constexpr std::int64_t tokens = 300;
  TestTensor const ones{ElementType::bf16, {tokens, 1, 1}, std::vector<double>(tokens, 1)};
  TestTensor const words{ElementType::i64, {tokens, 1}, std::vector<double>(tokens, 2)};
  TestTensor const table = TestTensor::zeros(ElementType::bf16, {4, 1});
  run(rank, OpKind::embedding_backward, {ones.operand(), words.operand()}, {table.operand()});
  REQUIRE(table.values() == std::vector<double>{0, 0, 300, 0});
  TestTensor const bias = TestTensor::zeros(ElementType::bf16, {1});
  run(rank, OpKind::bias_gradient, {ones.operand()}, {bias.operand()});
  REQUIRE(bias[0] == 300);
}

TEST_CASE("what is added to a sum may have fewer bits", "[units]") {
  RankShare const rank = whole(small_model(Precision::bf16));
  TestTensor const sum{ElementType::f32, {2}, {1 + 0x1p-20, 2}};
  TestTensor const more{ElementType::bf16, {2}, {3, -2}};
  run(rank, OpKind::add, {sum.operand(), more.operand()}, {sum.operand()});
  REQUIRE(sum.values() == std::vector<double>{4 + 0x1p-20, 0});
}

}  // namespace
}  // namespace stagecraft::test::units_test
