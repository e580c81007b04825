#include "libsim/program/unique_tokens.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stagecraft {
namespace {

/// The chance that none of `chosen` experts out of `all` is among `few` of them. `few` may be a
/// fraction: an expected number of experts.
double chance_of_none(std::int64_t all, double few, std::int64_t chosen) {
  double chance = 1;
  for (std::int64_t i = 0; i < chosen; ++i) {
    auto const left = static_cast<double>(all - i);
    if (left <= few) return 0;
    chance *= (left - few) / left;
  }
  return chance;
}

double binomial(std::int64_t n, std::int64_t k) {
  if (k < 0 || k > n) return 0;
  double value = 1;
  for (std::int64_t i = 0; i < k; ++i) {
    value *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return value;
}

UniqueTokens tokens_of(BlockShape const& shape) {
  ExpertsConfig const& experts = *shape.model.experts;
  return {.experts = experts.count,
          .per_token = experts.per_token,
          .groups = experts.router.groups,
          .groups_per_token = experts.router.groups_per_token,
          .parts = shape.expert};
}

/// a / b, rounded down.
std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/// The tokens that a rank sends if choices are balanced, that is, if choice j of token i is expert
/// (i k + j) mod E. A token is sent once to each rank that has an expert of its choice. `all` is
/// the sum over all receiving ranks; `most` is for the one that receives most.
struct BalancedTokens {
  std::int64_t all = 0;
  std::int64_t most = 0;
};

BalancedTokens balanced_tokens(BlockShape const& shape) {
  std::int64_t const count = shape.model.experts->count;
  std::int64_t const k = shape.model.experts->per_token;
  std::int64_t const local = shape.local_experts();
  std::int64_t const step = std::gcd(count, k);  // between the first choices of all tokens
  std::int64_t const period = count / step;      // number of tokens after which choices repeat
  std::int64_t const repeats = (shape.tokens() * step + count - 1) / count;
  BalancedTokens made;
  for (std::int64_t first = 0; first < count; first += local) {
    // A token reaches the rank if its first choice is at most k - 1 before the rank's first expert,
    // and not after its last one.
    std::int64_t const reaching =
        floor_quotient(first + local - 1, step) - floor_quotient(first - k, step);
    std::int64_t const tokens = repeats * std::min(period, reaching);
    made.all += tokens;
    made.most = std::max(made.most, tokens);
  }
  made.all *= shape.expert_tensor;
  return made;
}

/// The expected number of ranks that a token goes to, times the tokens of a rank.
double uniform_tokens(BlockShape const& shape) {
  return distinct_parts(tokens_of(shape), shape.dispatch_ranks()) *
         static_cast<double>(shape.tokens());
}

/// Rounded up, but for what sums of chances are off by.
std::int64_t whole(double tokens) { return static_cast<std::int64_t>(std::ceil(tokens - 1e-9)); }

bool is_balanced(BlockShape const& shape) { return shape.capacity == 0 && !shape.is_uneven(); }

}  // namespace

double distinct_parts(UniqueTokens const& tokens, std::int64_t parts) {
  if (tokens.parts > 0 && parts > tokens.parts) {
    double const alike = static_cast<double>(parts) / static_cast<double>(tokens.parts);
    return alike * distinct_parts(tokens, tokens.parts);
  }
  // A part has whole groups, or is within one. The token chooses among the experts of its groups.
  std::int64_t const groups = std::max<std::int64_t>(1, tokens.groups / parts);
  std::int64_t const of_group = tokens.experts / parts / groups;
  std::int64_t const reachable = tokens.experts / tokens.groups * tokens.groups_per_token;
  double chance = 0;
  for (std::int64_t j = 1; j <= std::min(groups, tokens.groups_per_token); ++j) {
    double const of_j = binomial(groups, j) *
                        binomial(tokens.groups - groups, tokens.groups_per_token - j) /
                        binomial(tokens.groups, tokens.groups_per_token);
    chance +=
        of_j * (1 - chance_of_none(reachable, static_cast<double>(j * of_group), tokens.per_token));
  }
  return static_cast<double>(parts) * chance;
}

std::int64_t sent_tokens(BlockShape const& shape) {
  if (is_balanced(shape)) return std::max(whole(uniform_tokens(shape)), balanced_tokens(shape).all);
  return shape.expert_tensor *
         std::min<std::int64_t>(shape.sent_rows(), shape.tokens() * shape.expert);
}

std::int64_t received_tokens(BlockShape const& shape) {
  if (!is_balanced(shape)) return shape.computed_rows();
  return std::max(whole(uniform_tokens(shape)),
                  shape.dispatch_ranks() * balanced_tokens(shape).most);
}

std::int64_t expected_sent_tokens(BlockShape const& shape) {
  std::int64_t const room = sent_tokens(shape);
  return is_balanced(shape) ? room : std::min(room, whole(uniform_tokens(shape)));
}

std::int64_t expected_received_tokens(BlockShape const& shape) {
  std::int64_t const room = received_tokens(shape);
  if (is_balanced(shape)) return room;
  return std::min(room, whole(uniform_tokens(shape) * exchange_of_tokens(shape).hottest));
}

ExchangeAttributes exchange_of_tokens(BlockShape const& shape) {
  ExchangeAttributes made{.sends_once = true, .tokens = tokens_of(shape)};
  if (shape.forced == nullptr) return made;
  std::int64_t const experts = made.tokens.experts;
  std::int64_t const choices = shape.tokens() * shape.dispatch_ranks() * made.tokens.per_token;
  double const share = static_cast<double>(shape.computed_rows()) / static_cast<double>(choices);
  auto const reached = [&](double few) {
    return 1 - chance_of_none(experts, few, made.tokens.per_token);
  };
  made.hottest = reached(share * static_cast<double>(experts)) /
                 reached(static_cast<double>(shape.local_experts()));
  return made;
}

}  // namespace stagecraft
