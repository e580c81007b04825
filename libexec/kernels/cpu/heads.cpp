#include <algorithm>
#include <cstring>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/operands/head_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Copies the heads of each view, one view after another, into tokens [s, b, sum of heads * d].
template <typename S>
void join_views(KernelContext const& context, KernelCall const& call) {
  Operand const& joined = call.writes[0];
  std::int64_t const width = expect_joined(call, element_type<S>());
  Shape const& first = call.reads[0].shape;
  std::int64_t const b = first[1];
  for_row_ranges(*context.pool, first[0] * b, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      S* to = elements_of<S>(joined) + token * width;
      for (std::size_t i = 0; i < call.reads.size(); ++i) {
        HeadsView<S> const part{call.reads[i]};
        for (std::int64_t head = 0; head < call.reads[i].shape[2]; ++head) {
          to = std::copy_n(part.head(token / b, token % b, head), call.reads[i].shape[3], to);
        }
      }
    }
  });
}

/// Copies tokens [s, b, heads, d] or [s, b, width] to parts [c, s, b, width / c], or back.
void move_parts(KernelContext const& context,
                KernelCall const& call,
                Operand const& tokens,
                Operand const& parts,
                bool to_parts) {
  HeadParts const all = head_parts(call, tokens, parts);
  std::int64_t const size = element_size(tokens.type);
  auto const bytes = static_cast<std::size_t>(all.width * size);
  std::int64_t const count = all.s * all.b;
  for_row_ranges(
      *context.pool, count, all.count * all.width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t token = begin; token < end; ++token) {
          std::byte* row =
              elements_of<std::byte>(tokens) +
              (token / all.b * all.position_stride + token % all.b * all.sequence_stride) * size;
          for (std::int64_t part = 0; part < all.count; ++part, row += bytes) {
            std::byte* const place = elements_of<std::byte>(parts) +
                                     (part * count + token) * static_cast<std::int64_t>(bytes);
            to_parts ? std::memcpy(place, row, bytes) : std::memcpy(row, place, bytes);
          }
        }
      });
}

}  // namespace

void scatter_heads(KernelContext const& context, KernelCall const& call) {
  move_parts(context, call, call.reads[0], call.writes[0], true);
}

void gather_heads(KernelContext const& context, KernelCall const& call) {
  move_parts(context, call, call.writes[0], call.reads[0], false);
}

void repeat_heads(KernelContext const& context, KernelCall const& call) {
  std::int64_t const repeats = expect_groups(call, call.reads, call.writes);
  Shape const full = call.writes[0].shape;
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    std::int64_t const width = full[2] * full[3];
    for_row_ranges(*context.pool, full[0] * full[1], width,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t token = begin; token < end; ++token) {
                       for (std::size_t i = 0; i < 2; ++i) {
                         HeadsView<S> const few{call.reads[i]};
                         HeadsView<S> const many{call.writes[i]};
                         for (std::int64_t head = 0; head < full[2]; ++head) {
                           std::copy_n(few.head(token / full[1], token % full[1], head / repeats),
                                       full[3], many.head(token / full[1], token % full[1], head));
                         }
                       }
                     }
                   });
  });
}

void repeat_heads_backward(KernelContext const& context, KernelCall const& call) {
  std::int64_t const repeats = expect_groups(call, call.writes, call.reads);
  Shape const full = call.reads[0].shape;
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    std::int64_t const width = full[2] * full[3];
    for_row_ranges(
        *context.pool, full[0] * full[1], width, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t token = begin; token < end; ++token) {
            std::int64_t const position = token / full[1];
            std::int64_t const sequence = token % full[1];
            for (std::size_t i = 0; i < 2; ++i) {
              HeadsView<S> const many{call.reads[i]};
              HeadsView<S> const few{call.writes[i]};
              for (std::int64_t group = 0; group < full[2] / repeats; ++group) {
                S* const sum = few.head(position, sequence, group);
                for (std::int64_t e = 0; e < full[3]; ++e) {
                  Compute<S> total = 0;
                  for (std::int64_t r = 0; r < repeats; ++r) {
                    total += widen(many.head(position, sequence, group * repeats + r)[e]);
                  }
                  sum[e] = narrow<S>(total);
                }
              }
            }
          }
        });
  });
}

void merge_heads(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { join_views<decltype(tag)>(context, call); });
}

void join_heads(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { join_views<decltype(tag)>(context, call); });
}

void concatenate(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { join_views<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
