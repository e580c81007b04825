#include "libsim/schedule/lowered_order.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "libsim/schedule/generators/order_request.hpp"
#include "libsim/schedule/orders/order_kind.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft::lowered_order_test {
namespace {

OrderKind kind_named(std::string const& name) {
  auto const* const found = std::ranges::find(order_kinds, name, &OrderKindTraits::name);
  return found->kind;
}

}  // namespace

TEST_CASE("orders of sharded stages communicate as PyTorch's do", "[schedule]") {
  std::ifstream file{STAGECRAFT_SOURCE_DIR "/tests/oracle/fsdp_lowered.json"};
  nlohmann::json const cases = nlohmann::json::parse(file).at("cases");
  REQUIRE(cases.size() == 40);
  for (auto const& entry : cases) {
    nlohmann::json const& parameters = entry.at("parameters");
    OrderRequest request;
    request.kind = kind_named(entry.at("schedule"));
    request.stages = entry.at("p");
    request.microbatches = entry.at("microbatches");
    request.chunks = entry.at("chunks");
    // PyTorch's rounds: as many groups as n / p says, all alike.
    int const rounds = std::max(1, request.microbatches / request.stages);
    if (request.kind == OrderKind::interleaved) request.group = request.microbatches / rounds;
    LoweredOrder const order =
        lowered(make_order(request),
                {.max_active_stages = parameters.value("max_active_stages", 3),
                 .looks_ahead_by_rank = parameters.contains("unshard_lookahead"),
                 .defers_reduction_wait = parameters.contains("defer_reduce_grad_wait")});
    for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
      CAPTURE(entry.dump(), rank);
      REQUIRE(lowered_text(order.ranks[rank]) == entry.at("actions")[rank]);
    }
  }
}

TEST_CASE("a rank gathers a stage again after it had to free it", "[schedule]") {
  // Of one stage held at once, GPipe gathers chunk 0 and 1 forward, and keeps 1 for its backward.
  OrderRequest request;
  request.kind = OrderKind::gpipe;
  request.stages = 2;
  request.microbatches = 2;
  request.chunks = 2;
  LoweredOrder const order = lowered(make_order(request), {.max_active_stages = 1});
  REQUIRE(order.unshards == std::vector{3, 3});
  REQUIRE(order.most_unsharded == std::vector{1, 1});
}

TEST_CASE("orders that PyTorch does not lower are refused", "[schedule]") {
  OrderRequest request;
  request.kind = OrderKind::dualpipe;
  request.stages = 2;
  request.microbatches = 4;
  request.chunks = 2;
  REQUIRE_THROWS_WITH(lowered(make_order(request), {}), Catch::Contains("two copies of the model"));
  request.kind = OrderKind::dualpipev;
  REQUIRE_THROWS_WITH(lowered(make_order(request), {.max_active_stages = 1}),
                      Catch::Contains("max active stages: found '1'"));
}

}  // namespace stagecraft::lowered_order_test
