#include <cmath>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/operands/partial_operands.hpp"
#include "libexec/kernels/row_ranges.hpp"

/// Parts of attention, each over some of the keys, become attention over all of them.
/// Source: Milakov and Gimelshein 2018, arXiv:1805.02867.
namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// context [s, b, heads d] = (context +) part exp(part_log_sums - log_sums), the sums [b, heads,
/// s].
template <typename S>
void rescale(KernelContext const& context, KernelCall const& call, bool adds) {
  using C = Compute<S>;
  RescaledPart const all = rescaled_part<S>(call, adds);
  std::int64_t const s = all.shape.s;
  std::int64_t const b = all.shape.b;
  std::int64_t const heads = all.shape.heads;
  std::int64_t const d = all.shape.d;
  S const* const from = elements_of<S>(all.part);
  S* const to = elements_of<S>(call.writes[0]);
  C const* const of_part = elements_of<C>(all.part_sums);
  C const* const of_all = elements_of<C>(all.sums);
  for_row_ranges(*context.pool, s, b * heads * d, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t head = 0; head < b * heads; ++head) {
        C const share = std::exp(of_part[head * s + row] - of_all[head * s + row]);
        std::int64_t const place = (row * b * heads + head) * d;
        for (std::int64_t e = 0; e < d; ++e) {
          C const before = adds ? widen(to[place + e]) : C{0};
          to[place + e] = narrow<S>(before + share * widen(from[place + e]));
        }
      }
    }
  });
}

}  // namespace

void rescale_context(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { rescale<decltype(tag)>(context, call, false); });
}

void add_rescaled_context(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { rescale<decltype(tag)>(context, call, true); });
}

void add_log_sums(KernelContext const& context, KernelCall const& call) {
  Operand const& sums = call.writes[0];
  std::int64_t const n = sums.shape.elements();
  with_storage_type(call.kind, sums.type, [&](auto tag) {
    using C = Compute<decltype(tag)>;
    expect_elements(call, sums, element_type<C>(), n);
    expect_elements(call, call.reads[1], element_type<C>(), n);
    C* const sum = elements_of<C>(sums);
    C const* const part = elements_of<C>(call.reads[1]);
    for_row_ranges(*context.pool, n, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        sum[i] = add_logarithms(sum[i], part[i]);
      }
    });
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
