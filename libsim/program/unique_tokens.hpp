#pragma once

#include <cstdint>

#include "libsim/program/block_program.hpp"

/// How many ranks tokens go to if each is sent once to a rank that has several of its experts.
namespace stagecraft {

/// The expected number of parts that have at least one of a token's experts, if ranks form `parts`
/// equal parts and all choices are equally likely. Pre: parts divides experts, or is a multiple of
/// tokens.parts.
double distinct_parts(UniqueTokens const& tokens, std::int64_t parts);

/// The tokens that a rank sends, one for each rank that a token goes to, and those that it
/// receives, as many as there is room for. With balanced routing these are what uniform choices
/// give, or what the plan's choices are, if that is more; with other routing the most that there
/// can be.
/// Pre: shape.sends_tokens_once().
std::int64_t sent_tokens(BlockShape const& shape);
std::int64_t received_tokens(BlockShape const& shape);

/// What the exchange of these tokens costs. With forced counts as many tokens reach the rank as if
/// it had as many experts, of those that are chosen alike, as its part of all rows says.
ExchangeAttributes exchange_of_tokens(BlockShape const& shape);

}  // namespace stagecraft
