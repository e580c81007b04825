#pragma once

#include <cstdint>

#include "libsim/program/op_attributes.hpp"
#include "libsim/units/ids.hpp"

/// How ranks split the sequences of a replica.
namespace stagecraft {

/// How the ranks that split a sequence attend to all of it.
/// Source: Megatron-LM's --cp-comm-type p2p, all_gather and a2a; TransformerEngine,
/// attention/dot_product_attention/context_parallel.py; Jacobs et al. 2023 (DeepSpeed Ulysses); for
/// contiguous_ring, Liu et al. 2023 (Ring Attention) and zhuzilin/ring-flash-attention,
/// ring_flash_attn.py.
enum class ContextMethod : std::uint8_t {
  ring,             ///< keys and values go round among the ranks; each attends to those it has
  all_gather,       ///< every rank gathers the keys and values of all
  ulysses,          ///< ranks exchange rows for heads before attention, and back after it
  contiguous_ring,  ///< a ring whose ranks have consecutive rows: the last ones attend to most keys
};

/// A number of ranks that split a sequence by one method.
struct ContextLevel {
  int ranks = 1;
  GroupId group{};  ///< the group of these ranks, if there are several
};

/// The rows of a sequence that one rank holds, if ranks split it.
struct SequencePart {
  int rank = 0;
  int ranks = 1;
  /// If true, the rank has chunks `rank` and 2 ranks - 1 - `rank` of 2 ranks equal chunks, so that
  /// a causal mask gives all ranks the same number of pairs of queries and keys. Else it has chunk
  /// `rank` of `ranks`.
  bool zigzag = false;

  /// The row of the sequence at row `row` of the rank, which has `rows` rows.
  constexpr std::int64_t row_of(std::int64_t row, std::int64_t rows) const {
    if (!zigzag) return rank * rows + row;
    std::int64_t const chunk = rows / 2;
    return row < chunk ? rank * chunk + row : (2 * ranks - 1 - rank) * chunk + (row - chunk);
  }
  /// The position of a row of the sequence after a gather, which joins the `rows` of each rank in
  /// the order of ranks. The inverse of row_of().
  constexpr std::int64_t gathered_row(std::int64_t of_sequence, std::int64_t rows) const {
    if (!zigzag) return of_sequence;
    std::int64_t const chunk = rows / 2;
    std::int64_t const number = of_sequence / chunk;
    bool const is_first = number < ranks;
    std::int64_t const owner = is_first ? number : 2 * ranks - 1 - number;
    return owner * rows + (is_first ? 0 : chunk) + of_sequence % chunk;
  }
};

/// The keys that the queries of one call of attention see: `queries` queries, from `first_query`
/// on, see the first `keys` keys.
struct AttendedRows {
  std::int64_t first_query = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  bool is_causal = true;  ///< the last query sees all keys, and each one before it sees one less

  /// The number of keys that a query sees. They are the first ones.
  constexpr std::int64_t seen_by(std::int64_t query) const {
    if (query < first_query || query >= first_query + queries) return 0;
    return is_causal ? keys - queries + (query - first_query) + 1 : keys;
  }
  /// The first query that sees a key; the end of the queries if none does.
  constexpr std::int64_t first_to_see(std::int64_t key) const {
    std::int64_t const end = first_query + queries;
    if (key >= keys) return end;
    std::int64_t const behind = key - (keys - queries);
    return is_causal && behind > 0 ? first_query + behind : first_query;
  }
};

/// The keys that a rank attends to in one call, given the rows of queries and of keys in its
/// operands.
constexpr AttendedRows attended_rows(AttentionPart const& part,
                                     SequencePart const& sequence,
                                     std::int64_t queries,
                                     std::int64_t keys) {
  if (part.kind == AttentionPart::Kind::gathered_chunk) {
    int const chunk = part.index == 0 ? sequence.rank : 2 * sequence.ranks - 1 - sequence.rank;
    return {.queries = queries, .keys = (chunk + 1) * queries};
  }
  if (part.kind == AttentionPart::Kind::whole || part.index == 0) {
    return {.queries = queries, .keys = keys};
  }
  if (part.kind == AttentionPart::Kind::contiguous_step) {
    // The keys are those of a rank before this one, or of one after it, which none of our queries
    // sees.
    bool const is_before = part.index <= sequence.rank / part.stride;
    return {.first_query = is_before ? 0 : queries,
            .queries = is_before ? queries : 0,
            .keys = keys,
            .is_causal = false};
  }
  // The keys are those of a rank before this one, whose first chunk comes before both of ours; or
  // of one after it, whose two chunks both come before our second.
  if (part.index <= sequence.rank / part.stride) {
    return {.queries = queries, .keys = keys / 2, .is_causal = false};
  }
  return {.first_query = queries / 2, .queries = queries / 2, .keys = keys, .is_causal = false};
}

}  // namespace stagecraft
