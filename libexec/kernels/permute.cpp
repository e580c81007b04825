#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The experts of a map [tokens, experts] that a rank has: all of them, or its share.
struct ExpertRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t all = 0;

  /// The element of a map or matrix [tokens, experts] of a token's own expert.
  std::int64_t element(std::int64_t token, std::int64_t own) const {
    return token * all + first + own;
  }
};

ExpertRange experts_of(KernelContext const& context,
                       KernelCall const& call,
                       std::int64_t count,
                       std::int64_t all) {
  expect(call, count > 0 && all % count == 0, "the experts are not split evenly");
  return {count == all ? 0 : context.expert_rank * count, count, all};
}

/// The rows of each token, as op_kinds.def describes a row_map.
struct RowMap {
  std::int32_t* data = nullptr;
  std::int64_t tokens = 0;
  std::int64_t experts = 0;  ///< of the rank

  std::int32_t* of(std::int64_t token) const { return data + token * (2 * experts + 1); }
  std::int32_t& count(std::int64_t token) const { return of(token)[2 * experts]; }
  std::int32_t& row(std::int64_t token, std::int64_t i) const { return of(token)[i]; }
  std::int32_t& expert(std::int64_t token, std::int64_t i) const { return of(token)[experts + i]; }
};

RowMap row_map_of(KernelCall const& call, Operand const& operand) {
  expect(call, operand.shape.rank() == 2 && operand.shape[1] % 2 == 1,
         "a row map is not [tokens, 2 experts + 1]");
  expect_tensor(call, operand, ElementType::i32, operand.shape);
  return {elements_of<std::int32_t>(operand), operand.shape[0], operand.shape[1] / 2};
}

/// Fills the map, expert by expert; returns the number of rows.
std::int64_t number_rows(RowMap const& rows, ExpertRange const& experts, Choice const* choices) {
  for (std::int64_t token = 0; token < rows.tokens; ++token) {
    std::fill_n(rows.of(token), 2 * rows.experts + 1, 0);
  }
  std::int64_t next = 0;
  for (std::int64_t expert = 0; expert < rows.experts; ++expert) {
    for (std::int64_t token = 0; token < rows.tokens; ++token) {
      if (!has_row(choices[experts.element(token, expert)])) continue;
      std::int32_t const i = rows.count(token)++;
      rows.row(token, i) = static_cast<std::int32_t>(next++);
      rows.expert(token, i) = static_cast<std::int32_t>(expert);
    }
  }
  return next;
}

/// Calls body(token) for all tokens, concurrently.
template <typename Body>
void for_tokens(KernelContext const& context,
                RowMap const& rows,
                std::int64_t width,
                Body const& body) {
  for_row_ranges(*context.pool, rows.tokens, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) body(token);
  });
}

/// Elements of a token of a hidden state [s, b, h].
std::int64_t width_of(KernelCall const& call, Operand const& x, RowMap const& rows) {
  std::int64_t const width = last_extent(x);
  expect(call, x.shape.elements() == rows.tokens * width, "tokens and row map differ in number");
  return width;
}

/// y[token] = sum of the token's rows, in the order of their experts.
template <typename S>
void sum_rows(KernelContext const& context,
              KernelCall const& call,
              RowMap const& rows,
              Operand const& from,
              Operand const& y) {
  using C = Compute<S>;
  std::int64_t const width = width_of(call, y, rows);
  expect_elements(call, from, element_type<S>(), from.shape.elements());
  expect_elements(call, y, element_type<S>(), rows.tokens * width);
  for_tokens(context, rows, width, [&](std::int64_t token) {
    S* const to = elements_of<S>(y) + token * width;
    std::int32_t const count = rows.count(token);
    for (std::int64_t i = 0; i < width; ++i) {
      C sum = 0;
      for (std::int32_t j = 0; j < count; ++j) {
        sum += widen(elements_of<S>(from)[rows.row(token, j) * width + i]);
      }
      to[i] = narrow<S>(sum);
    }
  });
}

/// Copies each token to all of its rows.
template <typename S>
void spread_rows(KernelContext const& context,
                 KernelCall const& call,
                 RowMap const& rows,
                 Operand const& x,
                 Operand const& to) {
  std::int64_t const width = width_of(call, x, rows);
  expect_elements(call, x, element_type<S>(), rows.tokens * width);
  expect_elements(call, to, element_type<S>(), to.shape.elements());
  for_tokens(context, rows, width, [&](std::int64_t token) {
    S const* const from = elements_of<S>(x) + token * width;
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      std::memcpy(elements_of<S>(to) + rows.row(token, j) * width, from,
                  static_cast<std::size_t>(width) * sizeof(S));
    }
  });
}

template <typename S>
void permute_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  Operand const& probabilities = call.reads[1];
  RowMap const rows = row_map_of(call, call.writes[2]);
  expect(call, call.reads[2].shape.rank() == 2, "a map is not [tokens, experts]");
  Shape const choices{rows.tokens, call.reads[2].shape[1]};
  ExpertRange const experts = experts_of(context, call, rows.experts, choices[1]);
  expect_tensor(call, probabilities, element_type<C>(), choices);
  expect_tensor(call, call.reads[2], ElementType::u8, choices);
  Operand const& of_rows = call.writes[1];
  expect_elements(call, of_rows, element_type<C>(), of_rows.shape.elements());
  std::int64_t const made =
      number_rows(rows, experts, static_cast<Choice const*>(call.reads[2].data));
  expect(call, made <= of_rows.shape.elements() && made <= call.writes[0].shape[0],
         "tokens choose more rows than the plan has room for");
  spread_rows<S>(context, call, rows, call.reads[0], call.writes[0]);
  for_tokens(context, rows, rows.experts, [&](std::int64_t token) {
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      elements_of<C>(of_rows)[rows.row(token, j)] =
          elements_of<C>(probabilities)[experts.element(token, rows.expert(token, j))];
    }
  });
}

template <typename S>
void permute_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  RowMap const rows = row_map_of(call, call.reads[2]);
  Operand const& of_rows = call.reads[1];
  Operand const& d_probabilities = call.writes[1];
  expect_elements(call, of_rows, element_type<C>(), call.reads[0].shape[0]);
  expect(call, d_probabilities.shape.rank() == 2, "gradients are not [tokens, experts]");
  std::int64_t const all = d_probabilities.shape[1];
  expect_tensor(call, d_probabilities, element_type<C>(), {rows.tokens, all});
  ExpertRange const experts = experts_of(context, call, rows.experts, all);
  sum_rows<S>(context, call, rows, call.reads[0], call.writes[0]);
  for_tokens(context, rows, rows.experts, [&](std::int64_t token) {
    C* const to = elements_of<C>(d_probabilities);
    std::fill_n(to + token * all, all, C{0});
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      to[experts.element(token, rows.expert(token, j))] =
          elements_of<C>(of_rows)[rows.row(token, j)];
    }
  });
}

/// The first row of each chunk in the order [outer, inner], and after it that of the last.
std::vector<std::int64_t> chunk_starts(KernelCall const& call,
                                       ChunkAttributes const& chunks,
                                       Operand const& counts,
                                       bool is_moved) {
  expect_tensor(call, counts, ElementType::i32, counts.shape);
  expect(call, counts.shape.elements() == chunks.outer * chunks.inner,
         "there are not as many counts as chunks");
  auto const* const count = elements_of<std::int32_t>(counts);
  std::vector<std::int64_t> starts{0};
  // The counts are in the order of the chunks, before they are moved or after it.
  std::int64_t const outer = is_moved ? chunks.inner : chunks.outer;
  std::int64_t const inner = is_moved ? chunks.outer : chunks.inner;
  bool const is_in_order = is_moved == chunks.by_inner;
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t j = 0; j < inner; ++j) {
      starts.push_back(starts.back() + count[is_in_order ? i * inner + j : j * outer + i]);
    }
  }
  return starts;
}

/// Copies chunks of different sizes.
void transpose_uneven(KernelContext const& context,
                      KernelCall const& call,
                      Operand const& counts,
                      Operand const& from,
                      Operand const& to) {
  auto const& chunks = attributes_of<ChunkAttributes>(call);
  expect_tensor(call, to, from.type, from.shape);
  expect_elements(call, from, from.type, from.shape.elements());
  std::vector<std::int64_t> const first = chunk_starts(call, chunks, counts, false);
  std::vector<std::int64_t> const moved = chunk_starts(call, chunks, counts, true);
  expect(call, first.back() <= from.shape[0], "there are more rows than the plan has room for");
  std::int64_t const row = from.shape[0] == 0 ? 0 : from.shape.elements() / from.shape[0];
  std::int64_t const bytes = row * element_size(from.type);
  for_row_ranges(
      *context.pool, chunks.outer * chunks.inner,
      from.shape.elements() / (chunks.outer * chunks.inner),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t chunk = begin; chunk < end; ++chunk) {
          std::int64_t const target = chunk % chunks.inner * chunks.outer + chunk / chunks.inner;
          std::int64_t const source_row = first[static_cast<std::size_t>(chunk)];
          std::int64_t const rows = first[static_cast<std::size_t>(chunk) + 1] - source_row;
          if (rows == 0) continue;
          std::memcpy(
              static_cast<std::byte*>(to.data) + moved[static_cast<std::size_t>(target)] * bytes,
              static_cast<std::byte const*>(from.data) + source_row * bytes,
              static_cast<std::size_t>(rows * bytes));
        }
      });
}

/// Copies chunk (i, j) of `from` to (j, i) of `to`.
void transpose(KernelContext const& context,
               KernelCall const& call,
               Operand const& from,
               Operand const& to) {
  auto const& chunks = attributes_of<ChunkAttributes>(call);
  expect_tensor(call, to, from.type, from.shape);
  expect_elements(call, from, from.type, from.shape.elements());
  std::int64_t const count = chunks.outer * chunks.inner;
  expect(call, from.shape[0] % count == 0, "rows are not a multiple of the chunks");
  std::int64_t const elements = from.shape.elements() / count;
  auto const bytes = elements * element_size(from.type);
  for_row_ranges(*context.pool, count, elements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      std::int64_t const target = chunk % chunks.inner * chunks.outer + chunk / chunks.inner;
      std::memcpy(static_cast<std::byte*>(to.data) + target * bytes,
                  static_cast<std::byte const*>(from.data) + chunk * bytes,
                  static_cast<std::size_t>(bytes));
    }
  });
}

}  // namespace

void permute(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { permute_of<decltype(tag)>(context, call); });
}

void permute_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { permute_backward_of<decltype(tag)>(context, call); });
}

void unpermute(KernelContext const& context, KernelCall const& call) {
  RowMap const rows = row_map_of(call, call.reads[1]);
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    sum_rows<decltype(tag)>(context, call, rows, call.reads[0], call.writes[0]);
  });
}

void unpermute_backward(KernelContext const& context, KernelCall const& call) {
  RowMap const rows = row_map_of(call, call.reads[1]);
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    spread_rows<decltype(tag)>(context, call, rows, call.reads[0], call.writes[0]);
  });
}

void transpose_chunks(KernelContext const& context, KernelCall const& call) {
  bool const is_uneven = call.reads.size() == call.writes.size() + 1;
  expect(call, is_uneven || call.reads.size() == call.writes.size(), "an operand has no result");
  for (std::size_t i = 0; i < call.writes.size(); ++i) {
    if (is_uneven) {
      transpose_uneven(context, call, call.reads[call.writes.size()], call.reads[i],
                       call.writes[i]);
    } else {
      transpose(context, call, call.reads[i], call.writes[i]);
    }
  }
}

void count_rows(KernelContext const& context, KernelCall const& call) {
  Operand const& map = call.reads[0];
  expect(call, map.shape.rank() == 2, "a map is not [tokens, experts]");
  std::int64_t const own = call.writes[0].shape.elements();
  ExpertRange const experts = experts_of(context, call, own, map.shape[1]);
  expect_tensor(call, map, ElementType::u8, map.shape);
  expect_elements(call, call.writes[0], ElementType::i32, own);
  auto const* const choices = static_cast<Choice const*>(map.data);
  auto* const counts = elements_of<std::int32_t>(call.writes[0]);
  for_row_ranges(*context.pool, own, map.shape[0], [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t expert = begin; expert < end; ++expert) {
      std::int32_t rows = 0;
      for (std::int64_t token = 0; token < map.shape[0]; ++token) {
        if (has_row(choices[experts.element(token, expert)])) ++rows;
      }
      counts[expert] = rows;
    }
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
