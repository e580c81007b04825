#include "libsim/program/unique_tokens.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "libsim/modules/blocks.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::unique_tokens_test {
namespace {

BlockShape shape_of(std::int64_t experts, std::int64_t per_token, int ranks, std::int64_t tokens) {
  BlockShape shape;
  shape.model.sequence = tokens;
  shape.model.experts = ExpertsConfig{.count = experts, .per_token = per_token};
  shape.expert = ranks;
  shape.sends_once = true;
  return shape;
}

/// The tokens of a rank that choose experts of each rank, if choice j of token i is expert
/// (i k + j) mod E.
std::vector<std::int64_t> reaching(BlockShape const& shape) {
  ExpertsConfig const& experts = *shape.model.experts;
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(shape.expert));
  for (std::int64_t i = 0; i < shape.tokens(); ++i) {
    std::vector<bool> reached(tokens.size());
    for (std::int64_t j = 0; j < experts.per_token; ++j) {
      std::int64_t const expert = (i * experts.per_token + j) % experts.count;
      reached[static_cast<std::size_t>(expert / shape.local_experts())] = true;
    }
    for (std::size_t rank = 0; rank < tokens.size(); ++rank) tokens[rank] += reached[rank] ? 1 : 0;
  }
  return tokens;
}

/// A layer of 112 tokens, each with 2 of 8 experts on 4 ranks, whose router chooses without a
/// limit. The rank has room for `room` rows.
BlockProgram natural_layer(std::int64_t room, Recipe recipe = Recipe::none) {
  BlockShape shape{.model = gpt(1, 256, 8, 56, 1000), .micro = 2};
  shape.model.precision = Precision::bf16;
  shape.model.activation = Activation::swiglu;
  shape.model.biases = false;
  shape.model.attention = Attention::flash;
  shape.model.dropout = 0;
  shape.model.experts = ExpertsConfig{.count = 8, .per_token = 2, .ffn_hidden = 128};
  shape.expert = 4;
  shape.sends_once = true;
  shape.is_natural = true;
  shape.room = shape.computed_room = room;
  shape.quantisation.recipe = recipe;
  return build_layers(shape, 1, {});
}

std::int64_t traffic_of(BlockProgram const& layer, Pass pass, Name name) {
  for (Op const& op : layer.ops(pass)) {
    if (op.name == name) return op.traffic.count();
  }
  return 0;
}

TEST_CASE("there is room for the tokens that balanced choices and uniform ones send", "[model]") {
  for (std::int64_t const experts : {4, 8, 12, 64}) {
    for (std::int64_t per_token = 1; per_token <= std::min<std::int64_t>(experts, 9); ++per_token) {
      for (int ranks = 2; ranks <= experts; ++ranks) {
        if (experts % ranks != 0) continue;
        BlockShape const shape = shape_of(experts, per_token, ranks, 3 * experts);
        CAPTURE(experts, per_token, ranks);
        std::vector<std::int64_t> const tokens = reaching(shape);
        UniqueTokens const uniform{.experts = experts, .per_token = per_token};
        double const expected =
            distinct_parts(uniform, ranks) * static_cast<double>(shape.tokens());
        std::int64_t const all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
        std::int64_t const most = ranks * *std::max_element(tokens.begin(), tokens.end());
        REQUIRE(sent_tokens(shape) >= all);
        REQUIRE(received_tokens(shape) >= most);
        REQUIRE(static_cast<double>(sent_tokens(shape)) >= expected - 1e-6);
        REQUIRE(static_cast<double>(sent_tokens(shape)) <=
                std::max(expected + 1, static_cast<double>(all)));
        REQUIRE(static_cast<double>(received_tokens(shape)) <=
                std::max(expected + 1, static_cast<double>(most)));
      }
    }
  }
}

TEST_CASE("tokens go to every rank that shares the weights of their experts", "[model]") {
  // Megatron-LM, token_dispatcher.py: MoEFlexTokenDispatcher sends as if there were ETP times as
  // many experts, of which a token chooses ETP times as many.
  BlockShape const one = shape_of(8, 2, 4, 24);
  BlockShape shared = one;
  shared.expert_tensor = 3;
  REQUIRE(sent_tokens(shared) == Approx(3 * sent_tokens(one)).margin(2));
  REQUIRE(received_tokens(shared) == Approx(3 * received_tokens(one)).margin(2));
  ExchangeAttributes const exchange = exchange_of_tokens(shared);
  // 1 - C(6, 2) / C(8, 2) for each of 4 parts of the experts, which 3 ranks share; of 2 parts
  // of the ranks each has two parts of the experts.
  double const of_part = 1 - 15.0 / 28;
  REQUIRE(distinct_parts(exchange.tokens, 12) == Approx(12 * of_part));
  REQUIRE(distinct_parts(exchange.tokens, 4) == Approx(4 * of_part));
  REQUIRE(distinct_parts(exchange.tokens, 2) == Approx(2 * (1 - 6.0 / 28)));
}

TEST_CASE("tokens of DeepSeek-V3 go to 7.7 of 64 ranks, at most to all that they choose",
          "[model]") {
  // 1 - C(252, 8) / C(256, 8) for each of 64 ranks.
  double const none = 248.0 / 256 * 247 / 255 * 246 / 254 * 245 / 253;
  BlockShape shape = shape_of(256, 8, 64, 4096);
  REQUIRE(static_cast<double>(sent_tokens(shape)) / 4096 == Approx(64 * (1 - none)).margin(1e-3));
  shape.is_natural = true;
  shape.room = shape.computed_room = 100000;
  REQUIRE(sent_tokens(shape) == 8 * 4096);
  REQUIRE(received_tokens(shape) == 100000);
  shape.expert = 4;
  REQUIRE(sent_tokens(shape) == 4 * 4096);
}

TEST_CASE("ops move the tokens that are expected to travel, whatever there is room for",
          "[model]") {
  // A token reaches 4 (1 - C(6, 2) / C(8, 2)) = 13/7 ranks: 208 of 112 tokens, with 224 rows.
  std::int64_t const h = 256, sent = 208, rows = 224;
  for (std::int64_t const room : {900, 100'000}) {
    CAPTURE(room);
    BlockProgram const layer = natural_layer(room);
    // Tokens, their factors and choices for two experts; rows, their probabilities and the map.
    std::int64_t const permuted =
        sent * (2 * h + 2 * 4 + 2) + rows * (2 * h + 4) + sent * (2 * 2 + 1) * 4;
    REQUIRE(traffic_of(layer, Pass::forward, {"dispatch", "permute"}) == permuted);
    REQUIRE(traffic_of(layer, Pass::forward, {"combine", "unpermute"}) ==
            rows * 2 * h + sent * (2 * 2 + 1) * 4 + sent * 2 * h);
    // Hidden states, scores and map of 8 experts; the map of 4 ranks and their counts.
    REQUIRE(traffic_of(layer, Pass::forward, {"dispatch", "spread"}) ==
            112 * (2 * h + 8 * 4 + 8) + sent * (2 * h + 2 * 4) + 112 * (2 * 4 + 1) * 4 + 4 * 4);
  }
}

TEST_CASE("no op of a layer moves more because there is more room", "[model]") {
  for (Recipe const recipe : {Recipe::none, Recipe::blockwise}) {
    BlockProgram const narrow = natural_layer(896, recipe);
    BlockProgram const wide = natural_layer(100 * 896, recipe);
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      REQUIRE(narrow.ops(pass).size() == wide.ops(pass).size());
      for (std::size_t i = 0; i < wide.ops(pass).size(); ++i) {
        CAPTURE(to_string(wide.ops(pass)[i].name));
        // Of scales whole blocks are padded.
        REQUIRE(static_cast<double>(wide.ops(pass)[i].traffic.count()) ==
                Approx(narrow.ops(pass)[i].traffic.count()).epsilon(1e-3));
      }
    }
  }
}

}  // namespace
}  // namespace stagecraft::unique_tokens_test
