#include <catch2/catch.hpp>
#include <vector>

#include "tests/libexec/kernels/kernel_test.hpp"

/// Kernels of choices and tokens that several ranks have.
namespace stagecraft::test::expert_ranks_test {
namespace {

void run_with(KernelNeeds needs,
              OpAttributes const& attributes,
              OpKind kind,
              std::vector<Operand> const& reads,
              std::vector<Operand> const& writes) {
  KernelCall call = make_call(kind, reads, writes);
  call.attributes = attributes;
  needs.types = {ElementType::f64};
  CpuKernels{needs, {}}.run(call);
}

TEST_CASE("a token has a row for each rank of its experts, and gets the sum of them back",
          "[kernels]") {
  // Ranks of two experts each. Token 0 chooses both of rank 0, token 1 one of each rank.
  std::int64_t const tokens = 2, ranks = 2, local = 2, h = 2;
  TestTensor const x{ElementType::f64, {tokens, 1, h}, {1, 2, 3, 4}};
  TestTensor const map{ElementType::u8, {tokens, ranks * local}, {1, 1, 0, 0, 0, 1, 1, 2}};
  TestTensor const probabilities{
      ElementType::f64, {tokens, ranks * local}, {.1, .2, 0, 0, 0, .3, .4, .5}};
  TestTensor const rows{ElementType::f64, {3, h}};
  TestTensor const of_rows{ElementType::f64, {3, local}};
  TestTensor const rank_map{ElementType::i32, {tokens, 2 * ranks + 1}};
  TestTensor const counts{ElementType::i32, {ranks}};
  run_with({}, {}, OpKind::spread_tokens, {x.operand(), probabilities.operand(), map.operand()},
           {rows.operand(), of_rows.operand(), rank_map.operand(), counts.operand()});
  REQUIRE(rows.values() == std::vector<double>{1, 2, 3, 4, 3, 4});
  REQUIRE(of_rows.values() == std::vector<double>{.1, .2, -1, .3, .4, -1});
  REQUIRE(counts.values() == std::vector<double>{2, 1});

  TestTensor const d_rows{ElementType::f64, {3, h}, {1, 10, 2, 20, 3, 30}};
  TestTensor const d_of_rows{ElementType::f64, {3, local}, {1, 2, 0, 3, 4, 0}};
  TestTensor const dx{ElementType::f64, {tokens, 1, h}};
  TestTensor const d_probabilities{ElementType::f64, {tokens, ranks * local}};
  run_with({}, {}, OpKind::spread_tokens_backward,
           {d_rows.operand(), d_of_rows.operand(), rank_map.operand()},
           {dx.operand(), d_probabilities.operand()});
  REQUIRE(dx.values() == std::vector<double>{1, 10, 5, 50});
  REQUIRE(d_probabilities.values() == std::vector<double>{1, 2, 0, 0, 0, 3, 4, 0});

  TestTensor const few{ElementType::f64, {2, h}};
  TestTensor const of_few{ElementType::f64, {2, local}};
  REQUIRE_THROWS_WITH(
      run_with({}, {}, OpKind::spread_tokens, {x.operand(), probabilities.operand(), map.operand()},
               {few.operand(), of_few.operand(), rank_map.operand(), counts.operand()}),
      Catch::Contains("tokens go to more ranks than the plan has room for"));
}

TEST_CASE("a token has a row for each rank that shares the weights of its experts", "[kernels]") {
  // Four ranks, of which two share two experts, and two the other two. The token chooses experts 0
  // and 1; the gradients of its probabilities are sums over the ranks that share them.
  TestTensor const x{ElementType::f64, {1, 1, 1}, {7}};
  TestTensor const map{ElementType::u8, {1, 4}, {1, 1, 0, 0}};
  TestTensor const probabilities{ElementType::f64, {1, 4}, {.6, .4, 0, 0}};
  TestTensor const rows{ElementType::f64, {2, 1}};
  TestTensor const of_rows{ElementType::f64, {2, 2}};
  TestTensor const rank_map{ElementType::i32, {1, 2 * 4 + 1}};
  TestTensor const counts{ElementType::i32, {4}};
  run_with({}, {}, OpKind::spread_tokens, {x.operand(), probabilities.operand(), map.operand()},
           {rows.operand(), of_rows.operand(), rank_map.operand(), counts.operand()});
  REQUIRE(rows.values() == std::vector<double>{7, 7});
  REQUIRE(of_rows.values() == std::vector<double>{.6, .4, .6, .4});
  REQUIRE(counts.values() == std::vector<double>{1, 1, 0, 0});
  TestTensor const d_rows{ElementType::f64, {2, 1}, {3, 4}};
  TestTensor const d_of_rows{ElementType::f64, {2, 2}, {1, 2, 10, 20}};
  TestTensor const dx{ElementType::f64, {1, 1, 1}};
  TestTensor const d_probabilities{ElementType::f64, {1, 4}};
  run_with({}, {}, OpKind::spread_tokens_backward,
           {d_rows.operand(), d_of_rows.operand(), rank_map.operand()},
           {dx.operand(), d_probabilities.operand()});
  REQUIRE(dx.values() == std::vector<double>{7});
  REQUIRE(d_probabilities.values() == std::vector<double>{11, 22, 0, 0});
}

TEST_CASE("tokens that arrive choose the experts that they have probabilities of", "[kernels]") {
  // There is room for a token more than the two that arrive, one from each of two ranks.
  TestTensor const probabilities{ElementType::f64, {3, 2}, {.5, -1, 0, .25, .75, .75}};
  TestTensor const counts{ElementType::i32, {2}, {1, 1}};
  TestTensor const map{ElementType::u8, {3, 2}};
  run_with({}, {}, OpKind::mark_choices, {probabilities.operand(), counts.operand()},
           {map.operand()});
  REQUIRE(map.values() == std::vector<double>{1, 0, 1, 1, 0, 0});
}

TEST_CASE("choices of a microbatch are limited in the order of its tokens", "[kernels]") {
  // Of rows 0 to 3 rank 0 has 0 and 3, rank 1 has 1 and 2. All choose an expert that takes 2.
  TestTensor const probabilities{ElementType::f64, {4, 1}, {.5, .5, .5, .5}};
  RoutingAttributes const routing{.expert_rows = 2};
  auto const limited = [&](int rank, RoutingAttributes const& by) {
    TestTensor const choices{ElementType::u8, {4, 1}, {1, 1, 1, 1}};
    TestTensor const map{ElementType::u8, {2, 1}};
    run_with({.sequence = {.rank = rank, .ranks = 2, .zigzag = true}}, by, OpKind::limit_choices,
             {probabilities.operand(), choices.operand()}, {choices.operand(), map.operand()});
    return map.values();
  };
  REQUIRE(limited(0, routing) == std::vector<double>{1, 2});
  REQUIRE(limited(1, routing) == std::vector<double>{1, 2});
  RoutingAttributes three = routing;
  three.expert_rows = 3;
  three.drop = DropBy::position;
  REQUIRE(limited(0, three) == std::vector<double>{1, 2});
  REQUIRE(limited(1, three) == std::vector<double>{1, 1});
}

TEST_CASE("biases of experts are added to the rows that counts give them", "[kernels]") {
  // Two parts of two experts: 1 + 0 rows of the first, 0 + 2 of the second, one row of nobody.
  TestTensor const x = TestTensor::zeros(ElementType::f64, {4, 1});
  TestTensor const bias{ElementType::f64, {2}, {10, 20}};
  TestTensor const counts{ElementType::i32, {2, 2}, {1, 0, 0, 2}};
  run_with({}, {}, OpKind::grouped_bias_add, {x.operand(), bias.operand(), counts.operand()},
           {x.operand()});
  REQUIRE(x.values() == std::vector<double>{10, 20, 20, 0});
  TestTensor const dy{ElementType::f64, {4, 1}, {1, 2, 3, 4}};
  TestTensor const factors{ElementType::f64, {4}, {1, 10, 100, 1000}};
  TestTensor const sums = TestTensor::zeros(ElementType::f64, {2});
  run_with({}, {}, OpKind::grouped_bias_gradient,
           {dy.operand(), factors.operand(), counts.operand()}, {sums.operand()});
  REQUIRE(sums.values() == std::vector<double>{1, 320});
}

}  // namespace
}  // namespace stagecraft::test::expert_ranks_test
