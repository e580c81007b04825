#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Calls body(begin, end) for ranges of the elements of a tensor.
template <typename Body>
void for_elements(KernelContext const& context, Operand const& x, Body const& body) {
  for_row_ranges(*context.pool, x.shape.elements(), 1, body);
}

template <typename S>
void softcap_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  expect_tensor(call, call.reads[0], element_type<S>(), call.reads[0].shape);
  expect_tensor(call, call.writes[0], element_type<S>(), call.reads[0].shape);
  S const* const x = elements_of<S>(call.reads[0]);
  S* const y = elements_of<S>(call.writes[0]);
  auto const& attributes = attributes_of<SoftcapAttributes>(call);
  auto const cap = static_cast<C>(attributes.cap);
  auto const factor = static_cast<C>(attributes.scale / attributes.cap);
  for_elements(context, call.reads[0], [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      y[i] = narrow<S>(capped(widen(x[i]) * factor, cap).value);
    }
  });
}

/// dy (1 - tanh(scale x / cap)^2) scale, in place.
template <typename S>
void softcap_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  expect_tensor(call, call.reads[1], element_type<S>(), call.reads[0].shape);
  expect_tensor(call, call.writes[0], element_type<S>(), call.reads[0].shape);
  S* const d = elements_of<S>(call.writes[0]);
  S const* const x = elements_of<S>(call.reads[1]);
  auto const& attributes = attributes_of<SoftcapAttributes>(call);
  auto const scale = static_cast<C>(attributes.scale);
  auto const cap = static_cast<C>(attributes.cap);
  auto const factor = static_cast<C>(attributes.scale / attributes.cap);
  for_elements(context, call.reads[0], [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      d[i] = narrow<S>(widen(d[i]) * capped(widen(x[i]) * factor, cap).slope * scale);
    }
  });
}

}  // namespace

void softcap(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { softcap_of<decltype(tag)>(context, call); });
}

void softcap_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { softcap_backward_of<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
