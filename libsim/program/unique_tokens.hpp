#pragma once

#include <cstdint>

#include "libsim/program/block_program.hpp"

/// The number of ranks that tokens go to, if each is sent once to a rank that has several of its
/// experts.
namespace stagecraft {

/// The expected number of parts that have at least one of a token's experts. Ranks form `parts`
/// equal parts, and all choices are equally likely. Pre: parts divides experts, or is a multiple of
/// tokens.parts.
double distinct_parts(UniqueTokens const& tokens, std::int64_t parts);

/// The tokens that a rank sends, counted once per rank that they go to, and the tokens that it has
/// room to receive. With balanced routing these are the numbers that uniform choices give, or those
/// of the plan's choices if they are larger. With other routing they are upper bounds.
/// Pre: shape.sends_tokens_once().
std::int64_t sent_tokens(BlockShape const& shape);
std::int64_t received_tokens(BlockShape const& shape);

/// Of these, the tokens that ops are expected to move: with other routing than balanced as many as
/// exchange_of_tokens() says that travel, whatever there is room for.
std::int64_t expected_sent_tokens(BlockShape const& shape);
std::int64_t expected_received_tokens(BlockShape const& shape);

/// The cost attributes of the exchange of these tokens. With forced counts, a rank receives as many
/// tokens as if it had more experts, all chosen equally often: as many experts as its share of all
/// rows stands for.
ExchangeAttributes exchange_of_tokens(BlockShape const& shape);

}  // namespace stagecraft
