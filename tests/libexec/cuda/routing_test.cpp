#include <catch2/catch.hpp>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "libsim/program/forced_routing.hpp"
#include "tests/libexec/cuda/agreement.hpp"

// Routers on a device, held against a CPU's: which experts tokens choose, and the losses on it.

namespace stagecraft::test::routing_test {
namespace {

RankShare rank_of(ElementType type) { return whole(small_model(precision_of(type))); }

ElementType wide_of(ElementType type) {
  return type == ElementType::f64 ? ElementType::f64 : ElementType::f32;
}

DeviceCase route_case(RoutingAttributes const& routing, TestTensor const& logits) {
  ElementType const wide = wide_of(logits.type());
  return {.kind = OpKind::route,
          .tensors = {logits, TestTensor{wide, logits.shape()}, TestTensor{wide, logits.shape()},
                      TestTensor{ElementType::u8, logits.shape()}},
          .reads = {{0}},
          .writes = {{1}, {2}, {3}},
          .attributes = routing,
          .draw = some_draw(DropoutSite::embedding)};
}

/// The router and its backward.
void require_routing(RankShare const& rank,
                     RoutingAttributes const& routing,
                     TestTensor const& logits) {
  DeviceCase const forward = route_case(routing, logits);
  require_agreement(rank, forward);
  auto const made = on_cpu(rank, forward);
  require_agreement(rank, {.kind = OpKind::route_backward,
                           .tensors = {TestTensor::random(made[1].type(), logits.shape(), 5),
                                       made[2], made[3], TestTensor{logits.type(), logits.shape()}},
                           .reads = {{0}, {1}, {2}},
                           .writes = {{3}},
                           .attributes = routing});
}

/// Logits of which many are equal.
TestTensor tied_logits(ElementType type, Shape const& shape) {
  TestTensor logits = TestTensor::random(type, shape, 1);
  for (std::int64_t i = 0; i < logits.size(); ++i) logits.set(i, std::round(4 * logits[i]) / 4);
  return logits;
}

TEST_CASE("routers on a device choose as a CPU does, of equal scores the lower expert", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const [tokens, experts] = GENERATE(std::pair{5, 12}, std::pair{300, 12}, std::pair{70, 40});
  TestTensor const logits = tied_logits(type, {tokens, experts});
  RoutingAttributes const after{.per_token = 3, .unlimited = true};
  RoutingAttributes const before{
      .order = RouterOrder::before, .normalise = false, .per_token = 2, .unlimited = true};
  RoutingAttributes normalised = before;
  normalised.normalise = true;
  RoutingAttributes const sigmoid{
      .score = RouterScore::sigmoid, .scaling = 2.5, .per_token = 4, .unlimited = true};
  RoutingAttributes groups = sigmoid;
  groups.groups = 4;
  groups.groups_per_token = 2;
  RoutingAttributes const balanced{.per_token = 3};
  for (RoutingAttributes const& routing : {after, before, normalised, sigmoid, groups, balanced}) {
    require_routing(rank_of(type), routing, logits);
  }
}

TEST_CASE("experts on a device drop and pad the rows that a CPU does", "[cuda]") {
  auto const type = GENERATE(ElementType::f64, ElementType::f32);
  std::int64_t const tokens = GENERATE(40, 300);
  // 0.5, 1 and 2.5 times as many rows as if choices were even.
  std::int64_t const rows = tokens * 2 / 8 * GENERATE(1, 2, 5) / 2;
  bool const pads = GENERATE(false, true);
  DropBy const drop = GENERATE(DropBy::probabilities, DropBy::position);
  RoutingAttributes const routing{.per_token = 2, .expert_rows = rows, .pads = pads, .drop = drop};
  require_routing(rank_of(type), routing, TestTensor::random(type, {tokens, 8}, 1));
}

TEST_CASE("a device has the choices that a plan forces", "[cuda]") {
  // Two sequences of 40 rows, which two zigzag ranks and their two tensor ranks split.
  std::int64_t const micro = 2, rows = 40, experts = 300;
  std::vector<std::int64_t> of_expert(experts, 0);
  for (std::int64_t row = 0; row < 2 * micro * rows; ++row) {
    ++of_expert[static_cast<std::size_t>(row * 7 % 311 % experts)];
  }
  ForcedRouting forced;
  forced.add(some_draw(DropoutSite::embedding).layer, every_microbatch,
             ForcedCounts{of_expert, micro * rows});
  RoutingAttributes const routing{.per_token = 2, .forced = &forced, .micro = micro, .shards = 2};
  RankShare rank = share(small_model(Precision::fp32), 2, GENERATE(0, 1), true);
  rank.sequence = {.rank = GENERATE(0, 1), .ranks = 2, .zigzag = true};
  require_routing(rank, routing,
                  TestTensor::random(ElementType::f32, {micro * rows / 4, experts}, 1));
}

TEST_CASE("choices of a microbatch are limited on a device as on a CPU", "[cuda]") {
  auto const type = GENERATE(ElementType::f64, ElementType::f32);
  std::int64_t const tokens = GENERATE(24, 560), experts = 5, micro = 2;
  RankShare rank = share(small_model(precision_of(type)), 2, GENERATE(0, 1), true);
  rank.sequence = {.rank = 1, .ranks = 2, .zigzag = GENERATE(false, true)};
  // Many equal probabilities; every third choice is one.
  TestTensor probabilities = tied_logits(type, {tokens, experts});
  TestTensor choices = TestTensor::zeros(ElementType::u8, {tokens, experts});
  for (std::int64_t i = 0; i < choices.size(); ++i) choices.set(i, i * 7 % 3 == 0 ? 1 : 0);
  RoutingAttributes routing{.per_token = 2, .micro = micro, .shards = 2};
  routing.expert_rows = tokens * GENERATE(1, 3) / 6;
  routing.pads = GENERATE(false, true);
  routing.drop = GENERATE(DropBy::probabilities, DropBy::position);
  require_agreement(rank, {.kind = OpKind::limit_choices,
                           .tensors = {probabilities, choices,
                                       TestTensor{ElementType::u8, {tokens / 4, experts}}},
                           .reads = {{0}, {1}},
                           .writes = {{1}, {2}},
                           .attributes = routing});
}

TEST_CASE("losses of routers on a device, and their gradients, are those of a CPU", "[cuda]") {
  // Gradients are of the model's type, logits of it or wider.
  auto const [model, type] = GENERATE(std::pair{ElementType::f64, ElementType::f64},
                                      std::pair{ElementType::f32, ElementType::f32},
                                      std::pair{ElementType::bf16, ElementType::bf16},
                                      std::pair{ElementType::f16, ElementType::f32});
  ElementType const wide = wide_of(type);
  auto const [tokens, experts, sequences] =
      GENERATE(std::tuple{6, 4, 2}, std::tuple{300, 4, 1}, std::tuple{70, 37, 2});
  RouterScore const score = GENERATE(RouterScore::softmax, RouterScore::sigmoid);
  auto const [per_token, balance] =
      GENERATE(std::pair{1, 0.5}, std::pair{3, 0.5}, std::pair{3, 0.0});
  RouterLossAttributes const losses{.score = score,
                                    .per_token = per_token,
                                    .sequences = sequences,
                                    .tokens = 2 * tokens,
                                    .replicas = 2,
                                    .balance = balance,
                                    .size = 0.01};
  RankShare const rank = rank_of(model);
  TestTensor const logits = tied_logits(type, {tokens, experts});
  DeviceCase const count{.kind = OpKind::count_choices,
                         .tensors = {logits, TestTensor{wide, {sequences, experts}}},
                         .reads = {{0}},
                         .writes = {{1}},
                         .attributes = losses};
  require_agreement(rank, count);
  TestTensor const counts = on_cpu(rank, count)[1];
  DeviceCase loss{.kind = OpKind::router_loss,
                  .tensors = {logits, counts, TestTensor{wide, {1}}},
                  .reads = {{0}},
                  .writes = {{2}},
                  .attributes = losses};
  DeviceCase backward{.kind = OpKind::router_loss_backward,
                      .tensors = {TestTensor::random(model, {tokens, experts}, 2), logits, counts},
                      .reads = {{0}, {1}},
                      .writes = {{0}},
                      .attributes = losses,
                      .loss_gradient = 0.25};
  if (losses.balance > 0) {
    loss.reads.push_back({1});
    backward.reads.push_back({2});
  }
  require_agreement(rank, loss);
  require_agreement(rank, backward);
}

TEST_CASE("choices of an iteration are averaged on a device as on a CPU", "[cuda]") {
  auto const type = GENERATE(ElementType::f32, ElementType::f64);
  std::int64_t const experts = GENERATE(4, 300);
  std::vector<double> counts, counter;
  for (std::int64_t e = 0; e < experts; ++e) {
    counts.push_back(static_cast<double>(e * 5 % 13));
    counter.push_back(static_cast<double>(e * 3 % 31));
  }
  counter.push_back(2);  // microbatches before this one
  require_agreement(rank_of(type), {.kind = OpKind::average_choices,
                                    .tensors = {TestTensor{type, {1, experts}, counts},
                                                TestTensor{type, {experts + 1}, counter},
                                                TestTensor{type, {1, experts}}},
                                    .reads = {{0}},
                                    .writes = {{1}, {2}},
                                    .attributes = NoAttributes{}});
}

}  // namespace
}  // namespace stagecraft::test::routing_test
