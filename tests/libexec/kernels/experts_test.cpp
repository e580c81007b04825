#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::experts_test {
namespace {

void run_with(OpAttributes const& attributes,
              OpKind kind,
              std::vector<Operand> const& reads,
              std::vector<Operand> const& writes) {
  KernelCall call = make_call(kind, reads, writes);
  call.attributes = attributes;
  CpuKernels{KernelNeeds{.types = {ElementType::f64}}, {}}.run(call);
}

/// Probabilities of 2 tokens with 4 experts each, of which the first chooses 0 and 1, the second 2
/// and 3.
std::vector<double> route(RoutingAttributes routing, std::vector<double> const& logits) {
  routing.per_token = 2;
  Shape const shape{2, 4};
  TestTensor const from{ElementType::f64, shape, logits};
  TestTensor const probabilities{ElementType::f64, shape};
  TestTensor const scores{ElementType::f64, shape};
  TestTensor const map{ElementType::u8, shape};
  run_with(routing, OpKind::route, {from.operand()},
           {probabilities.operand(), scores.operand(), map.operand()});
  REQUIRE(map.values() == std::vector<double>{1, 1, 0, 0, 0, 0, 1, 1});
  return probabilities.values();
}

void require_values(std::vector<double> const& got, std::vector<double> const& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == Approx(wanted[i]).margin(1e-15));
}

TEST_CASE("routers make of logits the probabilities of their papers", "[kernels]") {
  auto const log = [](double x) { return std::log(x); };
  std::vector<double> const logits{log(1), log(3), log(4), log(2), log(5), log(1), log(1), log(3)};
  // Mixtral: a softmax over the chosen.
  require_values(route({}, logits), {0.25, 0.75, 0, 0, 0, 0, 0.25, 0.75});
  // OLMoE: over all, as it is; Qwen3: divided by the sum of the chosen.
  RoutingAttributes before{.order = RouterOrder::before, .normalise = false};
  require_values(route(before, logits), {0.1, 0.3, 0, 0, 0, 0, 0.1, 0.3});
  before.normalise = true;
  require_values(route(before, logits), {0.25, 0.75, 0, 0, 0, 0, 0.25, 0.75});
  // DeepSeek-V3: sigmoids x / (1 + x), divided by their sum, times a factor.
  RoutingAttributes const sigmoid{.score = RouterScore::sigmoid, .scaling = 2.5};
  require_values(route(sigmoid, logits), {1, 1.5, 0, 0, 0, 0, 1, 1.5});
}

/// What a router makes of logits [tokens, experts].
struct Routed {
  std::vector<double> probabilities;
  std::vector<double> choices;  ///< 1: chosen, 2: dropped, 3: padding
};

Routed routed(RoutingAttributes const& routing, Shape const& shape, std::vector<double> logits) {
  TestTensor const from{ElementType::f64, shape, std::move(logits)};
  TestTensor const probabilities{ElementType::f64, shape};
  TestTensor const scores{ElementType::f64, shape};
  TestTensor const map{ElementType::u8, shape};
  run_with(routing, OpKind::route, {from.operand()},
           {probabilities.operand(), scores.operand(), map.operand()});
  return {probabilities.values(), map.values()};
}

TEST_CASE("experts with a number of rows drop the least probable tokens, or are padded",
          "[kernels]") {
  // Three of four tokens choose expert 0. The softmax over one expert is 1: the last is dropped.
  std::vector<double> const logits{3, 0, 1, 4, 0, 1, 3, 1, 0, 0, 1, 5};
  RoutingAttributes routing{.expert_rows = 2};
  auto const [probabilities, choices] = routed(routing, {4, 3}, logits);
  REQUIRE(choices == std::vector<double>{1, 3, 3, 1, 3, 0, 2, 0, 0, 0, 0, 1});
  REQUIRE(probabilities == std::vector<double>{1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1});

  // Two choices of each token: equal logits are chosen by number.
  routing = {.order = RouterOrder::before, .normalise = false, .per_token = 2, .expert_rows = 1};
  double const log3 = std::log(3);
  auto const two = routed(routing, {2, 4}, {log3, 0, 0, 0, 0, log3, 0, 0});
  // Both tokens choose experts 0 and 1; each expert keeps the token that prefers it.
  REQUIRE(two.choices == std::vector<double>{1, 2, 3, 3, 2, 1, 0, 0});
  require_values(two.probabilities, {.5, 1. / 6, 0, 0, 1. / 6, .5, 0, 0});
}

TEST_CASE("tokens choose experts of the groups whose best have the highest sums", "[kernels]") {
  std::vector<double> const logits{4, 3, 0, 1, 2, 3, 5, -5, 1, 1, 1, 1};
  RoutingAttributes routing{.per_token = 4, .groups = 4, .groups_per_token = 2, .expert_rows = 1};
  // Groups of three, whose two best have sums of 7, 5, 6 and 2. Who is not chosen is padded.
  REQUIRE(routed(routing, {1, 12}, logits).choices ==
          std::vector<double>{1, 1, 3, 3, 3, 3, 1, 3, 1, 3, 3, 3});
  // Groups of two, of which one counts: 4, 1, 3, 5, 1 and 1.
  routing.groups = 6;
  routing.groups_per_token = 4;
  REQUIRE(routed(routing, {1, 12}, logits).choices ==
          std::vector<double>{1, 1, 3, 3, 3, 1, 1, 3, 3, 3, 3, 3});
}

TEST_CASE("rows are permuted by expert, then by token, and summed on their way back", "[kernels]") {
  // Token 0 chooses experts 2 and 0, token 1 expert 0, token 2 experts 1 and 2.
  std::int64_t const tokens = 3, experts = 3, h = 2;
  TestTensor const x{ElementType::f64, {tokens, 1, h}, {1, 2, 3, 4, 5, 6}};
  TestTensor const map{ElementType::u8, {tokens, experts}, {1, 0, 1, 1, 0, 0, 0, 1, 1}};
  TestTensor const probabilities{
      ElementType::f64, {tokens, experts}, {.1, 0, .2, .3, 0, 0, 0, .4, .5}};
  TestTensor const rows{ElementType::f64, {5, h}};
  TestTensor const of_rows{ElementType::f64, {5}};
  TestTensor const row_map{ElementType::i32, {tokens, 2 * experts + 1}};
  run_with({}, OpKind::permute, {x.operand(), probabilities.operand(), map.operand()},
           {rows.operand(), of_rows.operand(), row_map.operand()});
  REQUIRE(rows.values() == std::vector<double>{1, 2, 3, 4, 5, 6, 1, 2, 5, 6});
  REQUIRE(of_rows.values() == std::vector<double>{.1, .3, .4, .2, .5});

  TestTensor const y{ElementType::f64, {tokens, 1, h}};
  TestTensor const parts{ElementType::f64, {5, h}, {1, 10, 2, 20, 3, 30, 4, 40, 5, 50}};
  run_with({}, OpKind::unpermute, {parts.operand(), row_map.operand()}, {y.operand()});
  REQUIRE(y.values() == std::vector<double>{5, 50, 2, 20, 8, 80});
  TestTensor const d_rows{ElementType::f64, {5, h}};
  run_with({}, OpKind::unpermute_backward, {x.operand(), row_map.operand()}, {d_rows.operand()});
  REQUIRE(d_rows.values() == rows.values());

  TestTensor const dx{ElementType::f64, {tokens, 1, h}};
  TestTensor const d_probabilities{ElementType::f64, {tokens, experts}};
  run_with({}, OpKind::permute_backward, {parts.operand(), of_rows.operand(), row_map.operand()},
           {dx.operand(), d_probabilities.operand()});
  REQUIRE(dx.values() == y.values());
  REQUIRE(d_probabilities.values() == probabilities.values());
}

TEST_CASE("a plan without room for the rows that tokens choose is refused", "[kernels]") {
  TestTensor const x = TestTensor::zeros(ElementType::f64, {2, 1, 2});
  TestTensor const map{ElementType::u8, {2, 2}, {1, 0, 1, 1}};
  TestTensor const probabilities = TestTensor::zeros(ElementType::f64, {2, 2});
  TestTensor const rows{ElementType::f64, {2, 2}};
  TestTensor const of_rows{ElementType::f64, {2}};
  TestTensor const row_map{ElementType::i32, {2, 5}};
  REQUIRE_THROWS_WITH(
      run_with({}, OpKind::permute, {x.operand(), probabilities.operand(), map.operand()},
               {rows.operand(), of_rows.operand(), row_map.operand()}),
      Catch::Contains("tokens choose more rows than the plan has room for"));
}

TEST_CASE("chunks by sender become chunks by expert, and back", "[kernels]") {
  // Two senders with three experts of two rows each.
  std::vector<double> values(12);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  TestTensor const rows{ElementType::f32, {12, 1}, values};
  TestTensor const sorted{ElementType::f32, {12, 1}};
  run_with(ChunkAttributes{2, 3}, OpKind::transpose_chunks, {rows.operand()}, {sorted.operand()});
  REQUIRE(sorted.values() == std::vector<double>{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11});
  TestTensor const back{ElementType::f32, {12, 1}};
  run_with(ChunkAttributes{3, 2}, OpKind::transpose_chunks, {sorted.operand()}, {back.operand()});
  REQUIRE(back.values() == values);
}

TEST_CASE("chunks of different sizes are moved from senders to experts and back", "[kernels]") {
  // Sender 0 has 2, 0 and 1 rows for the three experts, sender 1 has 1, 3 and 0; an eighth row is
  // room that nobody uses.
  TestTensor const counts{ElementType::i32, {2, 3}, {2, 0, 1, 1, 3, 0}};
  TestTensor const rows{ElementType::f32, {8, 1}, {0, 1, 2, 3, 4, 5, 6, 7}};
  TestTensor const sorted{ElementType::f32, {8, 1}, {9, 9, 9, 9, 9, 9, 9, 9}};
  run_with(ChunkAttributes{2, 3}, OpKind::transpose_chunks, {rows.operand(), counts.operand()},
           {sorted.operand()});
  REQUIRE(sorted.values() == std::vector<double>{0, 1, 3, 4, 5, 6, 2, 9});
  TestTensor const back{ElementType::f32, {8, 1}, {9, 9, 9, 9, 9, 9, 9, 9}};
  run_with(ChunkAttributes{3, 2, true}, OpKind::transpose_chunks,
           {sorted.operand(), counts.operand()}, {back.operand()});
  REQUIRE(back.values() == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 9});
}

TEST_CASE("rows are counted by expert, of dropped choices none", "[kernels]") {
  TestTensor const map{ElementType::u8, {3, 4}, {1, 0, 2, 1, 3, 0, 1, 0, 1, 0, 1, 0}};
  TestTensor const counts{ElementType::i32, {4}};
  run_with(NoAttributes{}, OpKind::count_rows, {map.operand()}, {counts.operand()});
  REQUIRE(counts.values() == std::vector<double>{3, 0, 2, 1});
}

TEST_CASE("a grouped product of groups of different sizes is a product per group", "[kernels]") {
  // Groups of 3, 0 and 2 rows, from two senders; a sixth row is room.
  TestTensor const counts{ElementType::i32, {2, 3}, {1, 0, 2, 2, 0, 0}};
  std::int64_t const groups = 3, rows = 6, n = 2, k = 3;
  TestTensor const a = TestTensor::random(ElementType::f64, {rows, k}, 1);
  TestTensor const b = TestTensor::random(ElementType::f64, {groups * k, n}, 2);
  TestTensor const c{ElementType::f64, {rows, n}};
  GemmShape const forward{.batch = groups, .m = 2, .n = n, .k = k};
  run_with(GemmAttributes{forward, ElementType::f64}, OpKind::grouped_gemm,
           {a.operand(), b.operand(), counts.operand()}, {c.operand()});
  // The weight gradients a^T c of each group, added to ones.
  TestTensor const sums{ElementType::f64, {groups * k, n}, std::vector<double>(18, 1)};
  GemmShape const backward{
      .batch = groups, .m = k, .n = n, .k = 2, .transpose_a = true, .accumulate = true};
  run_with(GemmAttributes{backward, ElementType::f64}, OpKind::grouped_gemm,
           {a.operand(), c.operand(), counts.operand()}, {sums.operand()});
  auto const at = [](TestTensor const& x, std::int64_t columns, std::int64_t i, std::int64_t j) {
    return x.values()[static_cast<std::size_t>(i * columns + j)];
  };
  std::vector<double> wanted(18, 1);
  for (std::int64_t row = 0; row < 5; ++row) {
    std::int64_t const group = row < 3 ? 0 : 2;
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += at(a, k, row, i) * at(b, n, group * k + i, j);
      REQUIRE(at(c, n, row, j) == Approx(sum));
      for (std::int64_t i = 0; i < k; ++i) {
        wanted[static_cast<std::size_t>((group * k + i) * n + j)] += at(a, k, row, i) * sum;
      }
    }
  }
  require_values(sums.values(), wanted);
}

TEST_CASE("activations are weighted by row", "[kernels]") {
  // silu(x) u p and relu(x) p.
  auto const silu = [](double x) { return x / (1 + std::exp(-x)); };
  TestTensor const x{ElementType::f64, {2, 4}, {1, -2, 3, 4, 0.5, 2, -1, 5}};
  TestTensor const p{ElementType::f64, {2}, {0.5, 3}};
  TestTensor const y{ElementType::f64, {2, 2}};
  run_with(ActivationAttributes{Activation::swiglu}, OpKind::weighted_activation,
           {x.operand(), p.operand()}, {y.operand()});
  require_values(y.values(),
                 {silu(1) * 3 * 0.5, silu(-2) * 4 * 0.5, silu(0.5) * -1 * 3, silu(2) * 5 * 3});
  TestTensor const plain{ElementType::f64, {2, 4}};
  run_with(ActivationAttributes{Activation::relu}, OpKind::weighted_activation,
           {x.operand(), p.operand()}, {plain.operand()});
  require_values(plain.values(), {0.5, 0, 1.5, 2, 1.5, 6, 0, 15});
}

TEST_CASE("a grouped product is a product per group", "[kernels]") {
  GemmKind const kind = GENERATE(GemmKind::openblas, GemmKind::plain);
  std::int64_t const groups = 3, m = 4, n = 5, k = 6;
  TestTensor const a = TestTensor::random(ElementType::f64, {groups * m, k}, 1);
  TestTensor const b = TestTensor::random(ElementType::f64, {groups * n, k}, 2);
  TestTensor const c{ElementType::f64, {groups * m, n}};
  KernelCall call = make_call(OpKind::grouped_gemm, {a.operand(), b.operand()}, {c.operand()});
  call.attributes = GemmAttributes{{.batch = groups, .m = m, .n = n, .k = k, .transpose_b = true},
                                   ElementType::f64};
  CpuKernels{KernelNeeds{.types = {ElementType::f64}}, CpuKernelOptions{.gemm = kind}}.run(call);
  std::vector<double> wanted;
  for (std::int64_t row = 0; row < groups * m; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i)
        sum += a[row * k + i] * b[(row / m * n + column) * k + i];
      wanted.push_back(sum);
    }
  }
  require_close(c, wanted, 1e-14);
}

// Kernels of choices and tokens that several ranks have.

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
  run_with({}, GroupsAttributes{2}, OpKind::weighted_bias_gradient,
           {dy.operand(), factors.operand(), counts.operand()}, {sums.operand()});
  REQUIRE(sums.values() == std::vector<double>{1, 320});
}

}  // namespace

}  // namespace stagecraft::test::experts_test
